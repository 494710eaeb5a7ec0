package role

import (
	"strings"
	"testing"
	"time"

	"crabmem/sessionlog/record"
)

// TestApproval asks the user of the channel before a command of a worker runs, for a day
// at most. In a run of a cron, the command is refused.
func TestApproval(t *testing.T) {
	for sender, want := range map[string]string{"user": "made", "cron": "no user is connected to approve the command", "tg:1": "tool not available: bash"} {
		bubble(t, func(r *rig) {
			r.config.Bash.Approve = "ask"
			r.commands = true
			var result string
			r.reply = func(q *request) answer {
				if q.of == record.Worker && q.Messages[len(q.Messages)-1].Role == record.RoleTool {
					result = q.last()
					return call(Outcome, `{"text":"ok"}`)
				}
				return spawn(`{"task":"x"}`, call("bash", `{"command":"make x"}`))(q)
			}
			r.send(sender, "go")
			r.settle(20 * time.Hour)
			if sender == "user" {
				v, err := r.Show(parentID, "w1")
				if err != nil || !strings.Contains(v.Question, "w1 wants to run: make x") {
					t.Errorf("%+v %v", v, err)
				}
				if err := r.Answer(parentID, "w1", "", "y"); err != nil {
					t.Error(err)
				}
			}
			r.settle(time.Hour)
			if !strings.Contains(result, want) {
				t.Errorf("%s: %q, want %q", sender, result, want)
			}
		})
	}
	bubble(t, func(r *rig) { // without an answer
		r.config.Bash.Approve, r.commands = "ask", true
		r.reply = spawn(`{"task":"x"}`, call("bash", `{"command":"make x"}`), call(Outcome, `{"text":"no","ok":false}`))
		r.send("user", "go")
		r.settle(25 * time.Hour)
		if s := r.state(parentID, "w1"); s != "failed (reported)" {
			t.Error(s, r.took())
		}
	})
}

// TestLoop repeats a call: it gets a note, and is then refused. Another result begins the
// count again.
func TestLoop(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Roles.Steps.Worker = 12
		var results []string
		reply := spawn(`{"task":"x"}`, call("recall", `{}`))
		r.reply = func(q *request) answer {
			if m := q.Messages[len(q.Messages)-1]; q.of == record.Worker && m.Role == record.RoleTool {
				results = append(results, m.Content)
				r.known = len(results) / 4 * 4 // a new result after four
			}
			return reply(q)
		}
		r.send("user", "go")
		r.settle(time.Minute)
		const note = "\n[the same call 4 times, with the same result]"
		for i, want := range []string{"known 0", "known 0", "known 0", "known 0" + note, "known 4", "known 4", "known 4", "known 4" + note} {
			if i >= len(results) || results[i] != want {
				t.Fatalf("result %d of %q, want %q", i, results, want)
			}
		}
	})
	bubble(t, func(r *rig) {
		var last string
		reply := spawn(`{"task":"x"}`, call("recall", `{}`))
		r.reply = func(q *request) answer {
			if q.of == record.Worker {
				last = q.last()
			}
			return reply(q)
		}
		r.send("user", "go")
		r.settle(time.Hour)
		if !strings.HasPrefix(last, "refused: the same call 7 times") || r.state(parentID, "w1") != "failed (exhausted)" {
			t.Errorf("%q %s", last, r.state(parentID, "w1"))
		}
	})
}

// TestDelete deletes a session with work that runs, waits, and has ended: its work is
// canceled. Other changes of the files are refused.
func TestDelete(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reply = func(q *request) answer {
			switch {
			case q.of == Channel && q.last() == "go":
				return answer{calls: []string{SpawnWorker + ` {"task":"slow"}`, SpawnWorker + ` {"task":"asks","interactive":true}`}}
			case q.of == record.Worker && q.has("asks"):
				return call(Outcome, `{"text":"which?"}`)
			case q.of == record.Worker:
				return call("bash", `{"command":"1m"}`)
			}
			return say("fine")
		}
		r.send("user", "go")
		r.settle(10 * time.Second)
		for _, id := range []string{parentID, "worker_work-user_1", "worker_work-user_2"} {
			if err := r.sessions.WithIdle(r.t.Context(), id, func() error { return nil }); err == nil {
				t.Errorf("%s is not in use", id)
			}
		}
		r.check(r.Abandon(r.t.Context(), parentID))
		r.check(r.sessions.WithIdle(r.t.Context(), parentID, func() error { return r.logs.Delete(parentID) }))
		if len(r.items)+len(r.parents) != 0 {
			t.Errorf("%d items and %d parents remain", len(r.items), len(r.parents))
		}
		r.took()
		r.restart()
		r.settle(time.Hour)
		if notes := r.took(); strings.Contains(notes, "work") {
			t.Error(notes)
		}
	})
}

// TestWaitingTimeout closes work that waits for a day, also across a restart. An idle
// daemon makes no call of the model for a week.
func TestWaitingTimeout(t *testing.T) {
	bubble(t, func(r *rig) {
		calls := 0
		reply := spawn(`{"task":"x","interactive":true}`, call(Outcome, `{"text":"which?"}`))
		r.reply = func(q *request) answer {
			calls++
			return reply(q)
		}
		r.send("user", "go")
		r.settle(20 * time.Hour)
		r.restart()
		r.settle(3 * time.Hour)
		if s := r.state(parentID, "w1"); s != "waiting (outcome)" {
			t.Error(s)
		}
		before := calls
		r.settle(7 * 24 * time.Hour)
		if s := r.state(parentID, "w1"); s != "done (closed)" || calls != before {
			t.Error(s, calls-before, "calls")
		}
	})
}

// TestChannelFirst sends a message while 32 workers run: the channel's answer begins before
// one of them takes a step.
func TestChannelFirst(t *testing.T) {
	for _, n := range []int{10, 32} {
		bubble(t, func(r *rig) {
			r.config.Roles.Workers = n
			r.reply = spawnAll(n, later(time.Minute, call("bash", `{"command":"1m"}`)))
			r.send("user", "go")
			for range 3 {
				r.settle(90 * time.Second)
				if len(r.items) != n {
					t.Fatalf("%d of %d workers run", len(r.items), n)
				}
				r.took()
				r.send("user", "and?")
				if notes := r.took(); notes != "channel: fine" {
					t.Error(notes)
				}
			}
		})
	}
}
