package op_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/board"
	"crabmem/daemon/op"
	"crabmem/daemon/secret/scan"
)

// taskKey has the form of a key.
const taskKey = "ghp_" + "8Jq2vX4mT7bN1kR6wZ3pL9sD5fG0hC2yV7aE"

// taskStore returns a store with some tasks, and with entries that are no tasks.
func taskStore(t *testing.T) (op.Store, func(title, status, priority string) op.Task) {
	t.Helper()
	s := crmem.New(nil)
	t.Cleanup(func() { s.Close() })
	on := op.Store{Store: s}
	return on, func(title, status, priority string) op.Task {
		t.Helper()
		task, err := op.CreateTask.Do(t.Context(), on, op.NewTask{Title: title, Status: status, Priority: priority, Subtasks: []string{"one", "two"}, Description: "the text"})
		if err != nil {
			t.Fatal(err)
		}
		return task
	}
}

// TestTasks creates, lists, and changes tasks.
func TestTasks(t *testing.T) {
	ctx := t.Context()
	on, create := taskStore(t)
	for _, o := range []crmem.Op{crmem.Add{Name: "task: an archive", Kind: crmem.Archive, Content: "x"}, crmem.Add{Name: "task", Content: "x"},
		crmem.Add{Name: "task: odd", Content: "---\nstatus: Waiting for rain\n---\n"}} {
		if err := on.Apply(o); err != nil {
			t.Fatal(err)
		}
	}
	first := create("first", "", "")
	create("ready low", board.Ready, "low")
	create("ready high", board.Ready, "high")
	if first.Number != 4 || first.Status != board.Backlog || first.Priority != "medium" || len(first.Subtasks) != 2 || first.Description != "the text" {
		t.Errorf("%+v", first)
	}
	list := func(in op.TaskQuery) string {
		out, err := op.ListTasks.Do(ctx, on, in)
		if err != nil {
			return err.Error()
		}
		text := fmt.Sprint(out.Total)
		for _, l := range out.Tasks {
			text += "\n" + l.String()
		}
		return text
	}
	for want, in := range map[string]op.TaskQuery{
		"4\n3 waiting_for_rain, medium: odd\n6 ready, high: ready high (0 of 2)\n5 ready, low: ready low (0 of 2)\n4 backlog, medium: first (0 of 2)": {},
		"2\n6 ready, high: ready high (0 of 2)": {Status: board.Ready, Limit: 1},
		"1\n5 ready, low: ready low (0 of 2)":   {Status: board.Ready, Priority: "low"},
		"0":                                     {Status: board.Done},
		`status "doing": want in_progress, ready, pending_approval, backlog, done`: {Status: "doing"},
		"limit 501: want 1 to 500": {Limit: 501},
	} {
		if got := list(in); got != want {
			t.Errorf("%+v: %s, want %s", in, got, want)
		}
	}
	update := func(in op.TaskChange) string {
		out, err := op.UpdateTask.Do(ctx, on, in)
		if err != nil {
			return err.Error()
		}
		line := out.Line()
		return line.String()
	}
	number := op.TaskNumber{Number: first.Number}
	for _, x := range []struct {
		in   op.TaskChange
		want string
	}{
		{op.TaskChange{TaskNumber: number, Change: board.Change{Status: board.Done}}, "backlog to done is not a step: the next is ready or backlog"},
		{op.TaskChange{TaskNumber: number, Change: board.Change{Status: board.Ready, Complete: 2}}, "4 ready, medium: first (1 of 2)"},
		{op.TaskChange{TaskNumber: number, Change: board.Change{Status: "doing"}}, `status "doing": want in_progress, ready, pending_approval, backlog, done`},
		{op.TaskChange{TaskNumber: number, Change: board.Change{Complete: 3}}, "no subtask 3: the task has 2"},
		{op.TaskChange{TaskNumber: number, Title: "a\nb"}, "title: want one line of 1 to 256 bytes"},
		{op.TaskChange{TaskNumber: number, Title: "ready low"}, `entry exists: "task: ready low"`},
		{op.TaskChange{TaskNumber: number, Title: " renamed ", Change: board.Change{Priority: "critical"}}, "4 ready, critical: renamed (1 of 2)"},
		{op.TaskChange{TaskNumber: number}, "4 ready, critical: renamed (1 of 2)"},
		{op.TaskChange{TaskNumber: op.TaskNumber{Number: 1}}, "no task 1"},
		{op.TaskChange{TaskNumber: op.TaskNumber{Number: 2}}, "no task 2"},
		{op.TaskChange{TaskNumber: op.TaskNumber{Number: 99}}, "no task 99"},
		{op.TaskChange{TaskNumber: op.TaskNumber{Number: 3}, Change: board.Change{Status: board.Done}}, "3 done, medium: odd"},
	} {
		if got := update(x.in); got != x.want {
			t.Errorf("%+v: %s, want %s", x.in, got, x.want)
		}
	}
	if e, err := on.Get("task: first"); err != nil || e.ID != first.Number {
		t.Errorf("the old title is no alias: %v", err)
	}
	for want, in := range map[string]op.NewTask{
		"task 4 has this title":                           {Title: "renamed"},
		"title: want one line of 1 to 256 bytes":          {Title: "a\nb"},
		"subtask 1: want one line of 1 to 1024 bytes":     {Title: "a", Subtasks: []string{" "}},
		`priority "p1": want critical, high, medium, low`: {Title: "a", Priority: "p1"},
	} {
		if _, err := op.CreateTask.Do(ctx, on, in); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", in, err, want)
		}
	}
	if _, err := op.CreateTask.Do(ctx, on, op.NewTask{Title: "first"}); err != nil {
		t.Errorf("the title that is only an alias: %v", err)
	}
}

// TestLargeTasks creates tasks whose texts reach the limit of entries and exceed it.
func TestLargeTasks(t *testing.T) {
	ctx := t.Context()
	on, _ := taskStore(t)
	const front = len("---\ntype: task\nstatus: backlog\npriority: medium\n---\n")
	text := strings.Repeat("- [ ] x\n", crmem.MaxContent/8)
	if _, err := op.CreateTask.Do(ctx, on, op.NewTask{Title: "large", Description: text}); !errors.Is(err, crmem.ErrInvalid) {
		t.Errorf("8 MiB and front matter: %v", err)
	}
	task, err := op.CreateTask.Do(ctx, on, op.NewTask{Title: "large", Description: text[front+3:]})
	if err != nil || len(task.Subtasks) != 99 && len(task.Subtasks) != 100 {
		t.Fatalf("%d subtasks, %v", len(task.Subtasks), err)
	}
	if _, err := op.UpdateTask.Do(ctx, on, op.TaskChange{TaskNumber: op.TaskNumber{Number: task.Number}, Change: board.Change{Status: board.Ready}}); err != nil {
		t.Error(err)
	}
	out, err := op.ListTasks.Do(ctx, on, op.TaskQuery{})
	if err != nil || len(out.Tasks) != 1 || len(out.Tasks[0].String()) > 100 {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestTaskSecrets refuses a text with a key, also together with a new title.
func TestTaskSecrets(t *testing.T) {
	ctx := t.Context()
	on, create := taskStore(t)
	key := taskKey
	task := create("a", "", "")
	if _, err := op.CreateTask.Do(ctx, on, op.NewTask{Title: "b", Description: key}); err == nil {
		t.Error("a new task has a key")
	}
	_, err := op.UpdateTask.Do(ctx, on, op.TaskChange{TaskNumber: op.TaskNumber{Number: task.Number}, Title: "c", Change: board.Change{Description: &key}})
	if e, _ := on.Get("task: a"); err == nil || e.ID != task.Number || strings.Contains(e.Content, key) {
		t.Errorf("a changed task: %v, %+v", err, e)
	}
}

// TestTaskGuard changes a task after a request has read it. The request keeps what a person
// wrote, and makes no step that the new status excludes.
func TestTaskGuard(t *testing.T) {
	key := taskKey
	for _, x := range []struct{ person, want string }{
		{"---\nstatus: in_progress\nowner: ann\n---\n- [x] one\nmore\n", "---\nstatus: done\nowner: ann\n---\n- [x] one\n\n" + key + "\n"},
		{"---\nstatus: ready\n---\n", "ready to done is not a step: the next is in_progress or backlog"},
	} {
		on, create := taskStore(t)
		task := create("a", board.InProgress, "")
		edits := 0
		on.Guard.Policy = func() (scan.Policy, error) { // between the plan and the write
			if edits++; edits == 1 {
				if err := on.Apply(crmem.Update{Name: "task: a", Content: x.person}); err != nil {
					t.Error(err)
				}
			}
			return scan.Warn, nil
		}
		_, err := op.UpdateTask.Do(t.Context(), on, op.TaskChange{TaskNumber: op.TaskNumber{Number: task.Number}, Change: board.Change{Status: board.Done, Description: &key}})
		e, _ := on.Get("task: a")
		if got := e.Content; err == nil && got != x.want || err != nil && (err.Error() != x.want || got != x.person) {
			t.Errorf("%q, %v, want %q", got, err, x.want)
		}
	}
}

// TestTaskWriters checks the subtasks of a task by two writers. No check is lost.
func TestTaskWriters(t *testing.T) {
	on, _ := taskStore(t)
	task, err := op.CreateTask.Do(t.Context(), on, op.NewTask{Title: "a", Subtasks: strings.Fields(strings.Repeat("x ", 100))})
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for n := 1 + w; n <= 100; n += 2 {
				if _, err := op.UpdateTask.Do(t.Context(), on, op.TaskChange{TaskNumber: op.TaskNumber{Number: task.Number}, Change: board.Change{Complete: n}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if task, err = op.ShowTask.Do(t.Context(), on, op.TaskNumber{Number: task.Number}); task.Checked() != 100 {
		t.Errorf("%d checked, %v", task.Checked(), err)
	}
}

// TestTaskTree edits a task in a dumped tree, as a person does, and loads it.
func TestTaskTree(t *testing.T) {
	fs := faultfs.NewMem()
	s := crmem.New(&crmem.Options{FS: fs})
	defer s.Close()
	on := op.Store{Store: s}
	task, err := op.CreateTask.Do(t.Context(), on, op.NewTask{Title: "ship: it", Subtasks: []string{"one", "two"}, Description: "the text"})
	if err != nil {
		t.Fatal(err)
	}
	dumped, err := tree.Dump(s, "/brain", nil)
	if err != nil || len(dumped.Written) != 1 {
		t.Fatalf("%+v, %v", dumped, err)
	}
	page := "/brain/" + dumped.Written[0]
	text, err := vfs.ReadFile(fs, page, 1<<20)
	if err == nil {
		edited := strings.NewReplacer("status: backlog", "status: Ready", "- [ ] two", "- [x] two", "the text", "another text").Replace(string(text))
		err = vfs.WriteFile(fs, page, 0o600, []byte(edited))
	}
	if err == nil {
		_, err = tree.Load(s, "/brain", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := op.ShowTask.Do(t.Context(), on, op.TaskNumber{Number: task.Number})
	line := got.Line()
	if err != nil || line.String() != "1 ready, medium: ship: it (1 of 2)" || got.Description != "another text" {
		t.Errorf("%+v, %v\n%s", got, err, text)
	}
}
