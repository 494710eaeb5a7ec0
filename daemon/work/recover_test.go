package work

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

const parentID = "crab_user_1"

func begin(i *Item) error {
	_, err := i.Begin()
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start starts the program on a machine. A session of the user exists.
func start(t *testing.T, m *faultfs.Mem) (*Home, []Recovered, *Parent) {
	t.Helper()
	now := func() time.Time { return time.Date(2026, 4, 14, 12, 0, 0, 0, time.UTC) }
	d, err := sessionlog.OpenDir("/home/sessions", &sessionlog.Options{FS: m, Now: now})
	must(t, err)
	h := &Home{FS: m, Path: "/home", Sessions: d, Now: now, External: func(agent string) (bool, bool) { return agent != "crab", agent == "loads" }}
	if _, err := d.Latest("crab", "user", ""); err != nil {
		l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
		must(t, err)
		must(t, errors.Join(l.Append(sessionlog.Message{Role: "user", Content: "go"}), l.Close()))
	}
	parents, did, err := h.Recover()
	must(t, err)
	if len(parents) > 0 {
		parents[0].Tidy()
		return h, did, parents[0]
	}
	p, _, err := h.Open(parentID)
	must(t, err)
	return h, did, p
}

func stop(t *testing.T, h *Home, p *Parent) {
	t.Helper()
	must(t, errors.Join(p.Close(), h.Sessions.Close()))
}

// deliver returns the outcomes of a delivery as text.
func deliver(t *testing.T, p *Parent) string {
	t.Helper()
	var s string
	_, err := p.Deliver(func(list []Outcome) string {
		for _, o := range list {
			s += fmt.Sprintf("%s %s: %s\n", o.Key(), o.Status, o.Text)
		}
		return "results"
	})
	must(t, err)
	p.Tidy()
	return s
}

// lines returns the lines of a session, without the meta line.
func lines(t *testing.T, m *faultfs.Mem, id string) string {
	t.Helper()
	b, err := vfs.ReadFile(m, "/home/sessions/"+id+".jsonl", 1<<20)
	must(t, err)
	_, rest, _ := strings.Cut(string(b), "\n")
	return rest
}

// TestRecover stops the program at each state of work, and compares what the next start
// does, tells, and hands to the parent.
func TestRecover(t *testing.T) {
	done := Status{record.Done, Signaled}
	say := func(i *Item, text string) error {
		return i.log.Append(sessionlog.Message{Role: "assistant", Content: text, ToolCalls: []sessionlog.ToolCall{{ID: "c"}}})
	}
	for name, c := range map[string]struct {
		spawn  Spawn
		do     func(h *Home, p *Parent, i *Item) error
		action Action
		notice Notice
		inbox  string // then
		child  string // in the child's file
	}{
		"a worker without a message": {Spawn{Kind: record.Worker}, nil, Resume, Event, "", `{"role":"user","content":"run the tests"}`},
		"a worker":                   {Spawn{Kind: record.Worker}, func(_ *Home, _ *Parent, i *Item) error { return begin(i) }, Resume, Event, "", restarted},
		"a worker in attempt 2": {Spawn{Kind: record.Worker}, func(_ *Home, _ *Parent, i *Item) error {
			return errors.Join(begin(i), say(i, "6 of 12"), i.resume())
		}, Interrupt, Channel, "w1.1 failed (interrupted): ended by a restart; said until then: 6 of 12\n", `"reason":"interrupted"`},
		"a branch":           {Spawn{Kind: record.Branch}, nil, Interrupt, Channel, "b1.1 failed (interrupted): ended by a restart\n", ""},
		"an external worker": {Spawn{Kind: record.Worker, Agent: "loads"}, nil, Interrupt, Channel, "w1.1 failed (interrupted): ended by a restart\n", ""},
		"work that waits": {Spawn{Kind: record.Worker, Interactive: true}, func(_ *Home, p *Parent, i *Item) error {
			return errors.Join(i.End(done, "which?"), func() error { _, err := p.Deliver(func([]Outcome) string { return "" }); return err }())
		}, Keep, Silent, "", ""},
		"work that waits, its outcome not delivered": {Spawn{Kind: record.Worker, Interactive: true}, func(_ *Home, _ *Parent, i *Item) error {
			return i.End(done, "which?")
		}, Hand, Channel, "w1.1 waiting (outcome): which?\n", ""},
		"external work that waits": {Spawn{Kind: record.Worker, Interactive: true, Agent: "acp"}, func(_ *Home, _ *Parent, i *Item) error {
			return i.End(done, "which?")
		}, Lose, Channel, "w1.1 waiting (outcome): which?\nw1.2 failed (lost): ended by a restart\n", `"reason":"lost"`},
		"external work that waits and loads": {Spawn{Kind: record.Worker, Interactive: true, Agent: "loads"}, func(_ *Home, _ *Parent, i *Item) error {
			return i.End(done, "which?")
		}, Hand, Channel, "w1.1 waiting (outcome): which?\n", ""},
		"ended work": {Spawn{Kind: record.Worker}, func(_ *Home, _ *Parent, i *Item) error { return i.End(done, "12 passed") }, Hand, Channel, "w1.1 done (outcome): 12 passed\n", ""},
		"work without a file": {Spawn{Kind: record.Worker}, func(h *Home, _ *Parent, i *Item) error {
			return errors.Join(i.closeLog(), h.Sessions.Delete(i.Session))
		}, Lose, Channel, "w1.1 failed (lost): \n", "gone"},
		"work with a damaged file": {Spawn{Kind: record.Worker}, func(h *Home, _ *Parent, i *Item) error {
			err := i.closeLog()
			h.FS.(*faultfs.Mem).WriteFile("/home/sessions/"+i.Session+".jsonl", []byte("{}\n"), 0o600)
			return err
		}, Lose, Channel, "w1.1 failed (lost): \n", "gone"},
	} {
		m := faultfs.NewMem()
		h, _, p := start(t, m)
		c.spawn.Task = "run the tests"
		if c.spawn.Agent == "" {
			c.spawn.Agent = "crab"
		}
		i, err := p.Spawn(c.spawn)
		must(t, err)
		if c.do != nil {
			must(t, c.do(h, p, i))
		}
		stop(t, h, p)
		h, did, p := start(t, m)
		if len(did) != 1 || did[0] != (Recovered{parentID, i.ID, i.Session, c.action, c.notice}) {
			t.Errorf("%s: recovery did %+v, want %s %q", name, did, c.action, c.notice)
		}
		if c.child != "gone" && !strings.Contains(lines(t, m, i.Session), c.child) {
			t.Errorf("%s: the child has\n%s\nwant %s", name, lines(t, m, i.Session), c.child)
		}
		if got := deliver(t, p); got != c.inbox {
			t.Errorf("%s: delivered\n%s\nwant\n%s", name, got, c.inbox)
		}
		open := c.action == Resume || c.action == Keep || strings.HasSuffix(c.inbox, "which?\n")
		list, err := m.ReadDir("/home/work")
		if must(t, err); len(p.Items()) > 0 != open || len(list) > 0 != open {
			t.Errorf("%s: %d items and %d files in work, open: %v", name, len(p.Items()), len(list), open)
		}
		stop(t, h, p)
	}
}

// TestSweep leaves the children of spawns that were not acknowledged, and a file of a
// session that does not exist.
func TestSweep(t *testing.T) {
	m := faultfs.NewMem()
	h, _, p := start(t, m)
	i, err := p.Spawn(Spawn{Kind: record.Worker, Agent: "crab", Task: "x"})
	must(t, err)
	meta := p.log.Meta()
	for n, say := range []bool{false, true} {
		l, err := h.Sessions.Create(meta.WorkMeta(parentID, fmt.Sprint("w", n+2), "crab"))
		must(t, err)
		if say {
			must(t, l.Append(sessionlog.Message{Role: "user", Content: "x"}))
		}
		must(t, l.Close())
	}
	stop(t, h, p)
	m.WriteFile("/home/work/crab_other_1", nil, 0o600)
	var warned []string
	h, did, p := start(t, m)
	want := []Recovered{{parentID, "w1", i.Session, Resume, Event}, {parentID, "w2", "crab_work-user_2", Trash, Log}}
	if !slices.Equal(did, want) {
		t.Errorf("recovery did %+v, want %+v (%q)", did, want, warned)
	}
	all, err := h.Sessions.ListAll()
	if must(t, err); len(all) != 3 {
		t.Errorf("%d sessions remain, want 3", len(all))
	}
	if list, err := m.ReadDir("/home/work"); err != nil || len(list) != 1 {
		t.Errorf("the files in work are %v, %v", list, err)
	}
	stop(t, h, p)
}

// TestOwed compares whether delivered outcomes have no answer, after each line.
func TestOwed(t *testing.T) {
	m := faultfs.NewMem()
	h, _, p := start(t, m)
	user := sessionlog.Message{Role: "user", Content: "x"}
	result := user
	result.Work = []string{"w1.1"}
	call := sessionlog.Message{Role: "assistant", ToolCalls: []sessionlog.ToolCall{{ID: "c"}}}
	answer := sessionlog.Message{Role: "assistant", Content: "x"}
	for k, c := range []struct {
		m    sessionlog.Message
		want bool
	}{{answer, false}, {result, true}, {call, true}, {answer, false}, {result, true}, {answer, false}, {result, false}, {user, false}, {result, true}} {
		must(t, p.log.Append(c.m))
		if got, err := p.Owed(2); err != nil || len(got) > 0 != c.want {
			t.Errorf("step %d: %v, %v, want %v", k, got, err, c.want)
		}
	}
	stop(t, h, p)
}

// TestRefused makes requests that work refuses. None of them changes a file.
func TestRefused(t *testing.T) {
	m := faultfs.NewMem()
	h, _, p := start(t, m)
	done, waits := Status{record.Done, Signaled}, Status{record.Waiting, Signaled}
	i, err := p.Spawn(Spawn{Kind: record.Worker, Agent: "crab", Task: strings.Repeat("x", record.MaxTask)})
	must(t, err)
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"task":    {second(p.Spawn(Spawn{Kind: record.Worker, Agent: "crab", Task: strings.Repeat("x", record.MaxTask+1)})), sessionlog.ErrInvalid},
		"scope":   {second(p.Spawn(Spawn{Kind: record.Worker, Agent: "crab", Scope: make([]byte, record.MaxScope+1)})), sessionlog.ErrInvalid},
		"agent":   {second(p.Spawn(Spawn{Kind: record.Worker})), sessionlog.ErrInvalid},
		"message": {i.Route(strings.Repeat("x", record.MaxRoute+1)), sessionlog.ErrInvalid},
		"empty":   {i.Route(""), sessionlog.ErrInvalid},
		"waits":   {i.End(waits, ""), ErrTransition},
		"closed":  {i.End(Status{record.Done, Closed}, ""), ErrTransition},
		"unknown": {second(p.Item("w9")), sessionlog.ErrNotFound},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	if err := second(p.Spawn(Spawn{Kind: "channel", Agent: "crab"})); err == nil {
		t.Error("a spawn of another kind")
	}
	before := lines(t, m, parentID)
	if n := strings.Count(before, `"start"`); n != 1 {
		t.Errorf("%d starts after refused spawns", n)
	}
	must(t, i.Route("first"))
	if err := i.End(done, ""); !errors.Is(err, ErrPending) {
		t.Errorf("an outcome before a message was taken in: %v", err)
	}
	if took, err := i.TakeRoutes(); err != nil || took == nil {
		t.Error(took, err)
	}
	must(t, i.End(done, strings.Repeat("\u00e9", record.MaxResult)))
	for _, err := range []error{i.End(done, ""), i.End(Status{record.Failed, Cancelled}, ""), i.Route("late"), i.resume()} {
		if !errors.Is(err, ErrTransition) {
			t.Errorf("after the end: %v", err)
		}
	}
	if s := deliver(t, p); len(s) > record.MaxResult+40 || !strings.Contains(s, "\u00e9\n") {
		t.Errorf("delivered %d bytes", len(s))
	}
	if s := deliver(t, p); s != "" {
		t.Errorf("delivered again: %s", s)
	}
	all, err := h.Sessions.ListAll()
	if must(t, err); len(all) != 2 {
		t.Errorf("%d sessions, want the parent and one child", len(all))
	}
	stop(t, h, p)
}

func second[T any](_ T, err error) error { return err }

// TestSweepBeforeUnmark checks that recovery removes the file of a parent only after the
// children of spawns that were not acknowledged: a crash between both lets the next start
// find them.
func TestSweepBeforeUnmark(t *testing.T) {
	m := faultfs.NewMem()
	h, _, p := start(t, m)
	meta := p.log.Meta()
	l, err := h.Sessions.Create(meta.WorkMeta(parentID, "w1", "crab"))
	must(t, err)
	must(t, errors.Join(l.Close(), p.mark()))
	stop(t, h, p)
	removed := false
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "remove" && c.Name == "/home/work/"+parentID {
			removed = true
			if _, err := m.Crash().Lstat("/home/sessions/crab_work-user_1.jsonl"); err == nil {
				t.Error("the file is removed before the child")
			}
		}
		return nil
	}
	h, did, p := start(t, m)
	m.Hook = nil
	if !removed || len(did) > 0 && did[0].Action != Trash {
		t.Errorf("removed: %v, recovery did %+v", removed, did)
	}
	stop(t, h, p)
}

// TestMark kills the program after it has created a parent's file, and before the file
// is durable. The work that the next program starts survives a power cut.
func TestMark(t *testing.T) {
	m := faultfs.NewMem()
	_, _, p := start(t, m)
	var killed *faultfs.Mem
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "syncdir" && c.Name == "/home/work" && killed == nil {
			killed = m.Kill()
		}
		return nil
	}
	_, err := p.Spawn(Spawn{Kind: record.Worker, Agent: "crab", Task: "x"})
	must(t, err)
	if list, err := killed.ReadDir("/home/work"); err != nil || len(list) != 1 {
		t.Fatalf("%d files of parents: %v", len(list), err)
	}
	d, err := sessionlog.OpenDir("/home/sessions", &sessionlog.Options{FS: killed})
	must(t, err)
	h := &Home{FS: killed, Path: "/home", Sessions: d, Now: time.Now}
	parents, _, err := h.Recover()
	must(t, err)
	_, err = parents[0].Spawn(Spawn{Kind: record.Worker, Agent: "crab", Task: "x"})
	must(t, err)
	_, did, _ := start(t, killed.Crash())
	if len(did) != 1 || did[0].Action != Resume {
		t.Errorf("after a power cut: %+v", did)
	}
}
