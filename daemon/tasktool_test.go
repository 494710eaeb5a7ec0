package daemon

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/trust"
)

// workerSays gives a task to a worker of an identity's conversation, and returns what the
// worker says.
func (d *Daemon) workerSays(t *testing.T, m *scripts, sender, task string) (said []string) {
	t.Helper()
	m.requests()
	d.say(t, sender, fmt.Sprintf(`spawn_worker {"task":%q}`, task))
	time.Sleep(time.Minute)
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.took {
		last := q.Messages[len(q.Messages)-1]
		if strings.Contains(toolNames(q.Tools), " outcome ") && last.Role == "tool" {
			said = append(said, last.Content)
		}
	}
	return said
}

// TestTaskTools creates, lists, and changes tasks in runs of crons, which have the tools of
// branches. Each identity has a board in its own space, and an untrusted one has none.
func TestTaskTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := faultfs.NewMem()
		d, _ := channel(t, fs, tgTrusted+"[origins.\"tg:9\"]\ntrust = \"untrusted\"\nallow = [\"recall\", \"remember\"]\n")
		defer d.Close()
		for _, x := range []struct{ sender, text, want string }{
			{"cron", `task_list {}`, "0 of 0 tasks"},
			{"cron", `task_create {"title":"ship it","description":"tag, push","subtasks":["tag","push"]}`, "task 1"},
			{"cron", `task_create {"title":"ship it"}`, "task 1 has this title"},
			{"cron", `task_create {"title":"a\nb"}`, "title: want one line of 1 to 256 bytes"},
			{"cron", `task_create {"title":"x","status":"doing"}`, `status "doing": want in_progress, ready`},
			{"cron", `task_create {"title":"x","description":"ghp_` + `8Jq2vX4mT7bN1kR6wZ3pL9sD5fG0hC2yV7aE"}`, "contains a secret"},
			{"cron", `task_list {"limit":501}`, "limit 501: want 1 to 500"},
			{"cron", `task_list {"status":"doing"}`, `status "doing": want`},
			{"cron", `task_update {"number":1,"status":"done"}`, "backlog to done is not a step: the next is ready or backlog"},
			{"cron", `task_update {"number":1,"status":"ready","complete":2}`, "1 ready, medium: ship it (1 of 2)"},
			{"cron", `task_update {"number":2}`, "no task 2"},
			{"cron", `task_list {}`, "1 of 1 task\n"},
			{"cron", `task_list {}`, "\n1 ready, medium: ship it (1 of 2)\n"},
			{"cron-tg:7", `task_list {}`, "0 of 0 tasks"},
			{"cron-tg:7", `task_update {"number":1,"status":"in_progress"}`, "no task 1"},
			{"cron-tg:7", `task_create {"title":"mine"}`, "task 1"},
			{"cron-tg:7", `task_list {}`, "\n1 backlog, medium: mine\n"},
			{"cron-tg:9", `task_create {"title":"theirs"}`, "tool not available"},
			{"cron-tg:9", `task_list {}`, "tool not available"},
			{"user", `task_list {}`, "tool not available"}, // a channel gives it to branches
		} {
			if got := d.say(t, x.sender, x.text); !strings.Contains(got, x.want) {
				t.Errorf("%s: %s: %s, want %s", x.sender, x.text, got, x.want)
			}
		}
		for h, err := range d.store.Changes() {
			if err != nil {
				t.Fatal(err)
			}
			if h.By.Agent != "crab" || h.By.Session != "crab_cron_1" || h.By.Origin != trust.Cron {
				t.Errorf("made by %+v", h.By)
			}
		}
	})
}

// TestWorkerTasks has workers change tasks: one only completes subtasks of a task that its own
// task names, on the board of who gave out the work.
func TestWorkerTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := channel(t, faultfs.NewMem(), "")
		defer d.Close()
		if got := d.say(t, "cron", `task_create {"title":"ship it","subtasks":["tag","push"]}`); got != "task 1" {
			t.Fatal(got)
		}
		for task, want := range map[string]string{
			`task_update {"number":1,"complete":2,"of":"task 1"}`:                  "1 backlog, medium: ship it (1 of 2)",
			`task_update {"number":1,"complete":2,"of":"task 2"}`:                  "task 1 is not yours: your own task does not name it",
			`task_update {"number":1,"complete":2,"status":"ready","of":"task 1"}`: "a worker only completes subtasks: pass number and complete",
			`task_update {"number":1,"complete":2}`:                                "tool not available",
			`task_create {"title":"x","of":"task 1"}`:                              "tool not available",
		} {
			if got := strings.Join(d.workerSays(t, m, "user", task), "; "); !strings.Contains(got, want) {
				t.Errorf("%s: %q, want %s", task, got, want)
			}
		}
	})
}
