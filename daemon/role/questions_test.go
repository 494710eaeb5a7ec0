package role

import (
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/daemon/session"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// TestCrossAnswer answers the channel's ask_user while a worker asks: the command does not run.
func TestCrossAnswer(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Bash.Approve, r.commands = "ask", true
		r.config.Ask.Timeout = time.Hour
		var result, asked string
		r.reply = func(q *request) answer {
			switch {
			case q.of == Channel && q.last() == "go":
				return answer{calls: []string{SpawnWorker + ` {"task":"x"}`, `ask_user {"questions":[{"question":"tea?","header":"tea"}]}`}}
			case q.of == Channel:
				if asked == "" {
					asked = q.last()
				}
				return say("fine")
			case q.of == record.Worker && q.Messages[len(q.Messages)-1].Role == record.RoleTool:
				result = q.last()
				return call(Outcome, `{"text":"ok"}`)
			case q.of == record.Worker:
				return later(time.Minute, call("bash", `{"command":"make x"}`))
			}
			return say("bye")
		}
		l, err := r.sessions.Resolve(r.t.Context(), &session.Request{Agent: "crab", Sender: "user", Content: "go"})
		r.check(err)
		go func() {
			run := session.Run{Session: l, Content: "go", Sender: "user", Interactive: true}
			_ = r.sessions.Run(r.t.Context(), &run)
		}()
		r.settle(2 * time.Minute)
		// the user sees "tea?" and answers
		t.Log(r.sessions.Reply(r.t.Context(), l.ID(), "yes"))
		r.settle(time.Second)
		if result == "made" || !strings.Contains(asked, "yes") {
			t.Errorf("worker: %q; ask_user: %q", result, asked)
		}
		r.settle(48 * time.Hour)
	})
}

// TestQueuedQuestion has two workers ask: the second is not stalled.
func TestQueuedQuestion(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Bash.Approve, r.commands = "ask", true
		r.reply = func(q *request) answer {
			switch {
			case q.of == Channel && q.last() == "go":
				return answer{calls: []string{SpawnWorker + ` {"task":"x"}`, SpawnWorker + ` {"task":"y"}`}}
			case q.of == record.Worker && q.Messages[len(q.Messages)-1].Role == record.RoleTool:
				return call(Outcome, `{"text":"ok"}`)
			case q.of == record.Worker:
				return call("bash", `{"command":"make x"}`)
			}
			return say("fine")
		}
		r.send("user", "go")
		r.settle(time.Hour)
		if a, b := r.state(parentID, "w1"), r.state(parentID, "w2"); a != "running (spawned)" || b != a {
			t.Error(a, b)
		}
		r.settle(48 * time.Hour)
	})
}

// TestDoubleAnswer answers a question twice: the next command is not approved.
func TestDoubleAnswer(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Bash.Approve, r.commands = "ask", true
		var made int
		r.reply = func(q *request) answer {
			switch {
			case q.of == Channel && q.last() == "go":
				return answer{calls: []string{SpawnWorker + ` {"task":"x"}`, SpawnWorker + ` {"task":"y"}`}}
			case q.of == record.Worker && q.Messages[len(q.Messages)-1].Role == record.RoleTool:
				if strings.Contains(q.last(), "made") {
					made++
				}
				return call(Outcome, `{"text":"ok"}`)
			case q.of == record.Worker:
				return call("bash", `{"command":"make x"}`)
			}
			return say("fine")
		}
		r.send("user", "go")
		r.settle(time.Minute)
		id := "w1"
		if v, _ := r.Show(parentID, id); v.Question == "" {
			id = "w2"
		}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { t.Log(r.Answer(r.t.Context(), parentID, id, "y")) })
		}
		wg.Wait()
		r.settle(time.Second)
		if made != 1 {
			t.Error("approved:", made)
		}
		r.settle(48 * time.Hour)
	})
}

// TestEvictedQuestion answers a question after the channel's session was evicted.
func TestEvictedQuestion(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Bash.Approve, r.commands = "ask", true
		r.config.Limits.Sessions = 10
		r.reply = func(q *request) answer {
			if q.of == record.Worker && q.Messages[len(q.Messages)-1].Role == record.RoleTool {
				return call(Outcome, `{"text":"ok"}`)
			}
			return spawn(`{"task":"x"}`, call("bash", `{"command":"make x"}`))(q)
		}
		r.send("user", "go")
		r.settle(time.Minute)
		for range 100 {
			_, err := r.sessions.Create(sessionlog.Meta{Agent: "plain", CreatedBy: "x"}, "hi", "/work", tool.Unbounded())
			r.check(err)
		}
		if err := r.Answer(r.t.Context(), parentID, "w1", "y"); err != nil {
			t.Error(err)
		}
		r.settle(time.Minute)
		if s := r.state(parentID, "w1"); s != "done (outcome)" {
			t.Error(s)
		}
		r.settle(48 * time.Hour)
	})
}

// TestQuestionAfterRestart restarts the daemon while a worker asks: it asks again, and the
// answer counts.
func TestQuestionAfterRestart(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Bash.Approve, r.commands = "ask", true
		r.reply = func(q *request) answer {
			switch {
			case q.of == record.Worker && q.last() == "made":
				return call(Outcome, `{"text":"12 passed"}`)
			case q.of == record.Worker:
				return call("bash", `{"command":"make x"}`)
			}
			return spawn(`{"task":"x"}`)(q)
		}
		r.send("user", "go")
		r.settle(time.Minute)
		r.restart()
		r.settle(time.Hour)
		r.check(r.Answer(r.t.Context(), parentID, "w1", "y"))
		r.settle(time.Minute)
		if s, file := r.state(parentID, "w1"), r.lines(parentID); s != "done (outcome), attempt 2" || strings.Count(file, "12 passed") != 1 {
			t.Error(s, file)
		}
	})
}
