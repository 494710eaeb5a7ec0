package role

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/work"
	"crabmem/sessionlog/record"
)

// TestFullDisk fills the disk while an outcome is written, with an unknown result: it is written
// and delivered later.
func TestFullDisk(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reply = spawn(`{"task":"x"}`, later(time.Minute, call(Outcome, `{"text":"12 passed"}`)))
		full := false
		r.hook(func(c faultfs.Call) error {
			if full && (c.Op == "write" || c.Op == "sync" || c.Op == "datasync") {
				return errModel
			}
			return nil
		})
		r.send("user", "go")
		r.settle(30 * time.Second)
		full = true
		r.settle(5 * time.Minute)
		full = false
		r.settle(time.Hour)
		r.send("user", "again")
		if !strings.Contains(r.lines(parentID), "[w1.1]") {
			a, err := r.CancelWork(parentID, "w1", "")
			t.Error("never delivered", r.state(parentID, "w1"), a, err)
		}
	})
}

// TestBadScope resumes work whose recorded scope cannot be read: it fails.
func TestBadScope(t *testing.T) {
	for _, scope := range []string{``, `{"tools":["bash"]}`, `{"scope":{"tools":["bash"]}}`, `[]`} {
		bubble(t, func(r *rig) {
			r.reply = func(q *request) answer {
				if q.of == Channel {
					return say("fine")
				}
				for _, m := range q.Tools {
					if m.Name == "bash" {
						t.Error("has bash")
					}
				}
				if q.of == "end" {
					return say("bye")
				}
				return call(Outcome, `{"text":"ok"}`)
			}
			r.send("user", "hello")
			p, err := r.use(parentID)
			r.check(err)
			i, err := p.Spawn(workSpawn(scope))
			r.check(err)
			_ = i
			r.done(p)
			r.restart()
			r.settle(time.Hour)
			if s := r.state(parentID, "w1"); strings.HasPrefix(s, "running") {
				a, err := r.CancelWork(parentID, "w1", "")
				t.Errorf("scope %s: %s; %s %v", scope, s, a, err)
			}
		})
	}
}

// TestPendingLoop sends a message during the last step of work whose agent then does not exist:
// the run is not repeated again and again.
func TestPendingLoop(t *testing.T) {
	bubble(t, func(r *rig) {
		n := 0
		r.reply = func(q *request) answer {
			if q.of == "end" {
				return later(time.Minute, say("bye"))
			}
			return spawn(`{"task":"x","agent":"coder"}`, call(Outcome, `{"text":"12 passed"}`))(q)
		}
		r.send("user", "go")
		r.settle(time.Second)
		if a, err := r.RouteTo(parentID, "w1", "more"); err != nil {
			t.Error(a, err)
		}
		delete(r.o.Setup().Agents, "coder")
		r.hook(func(faultfs.Call) error {
			if n++; n > 5000 {
				r.o.Setup().Agents["coder"] = r.o.Setup().Agents["plain"]
			}
			return nil
		})
		r.settle(2 * time.Minute)
		notes := r.took()
		if c := strings.Count(notes, "turn failed"); c > 3 {
			t.Errorf("the run is repeated %d times", c)
		}
		r.settle(time.Hour)
	})
}

// TestSwallowedRoute sends a message between the outcome and the end of its step: a further run
// takes it in.
func TestSwallowedRoute(t *testing.T) {
	bubble(t, func(r *rig) {
		seen := false
		reply := spawn(`{"task":"x","interactive":true}`, answer{calls: []string{Outcome + ` {"text":"one"}`, `bash {"command":"1m"}`}}, call(Outcome, `{"text":"two"}`))
		r.reply = func(q *request) answer {
			if q.of == record.Worker && q.has("and dev") {
				seen = true
			}
			return reply(q)
		}
		r.send("user", "go")
		r.settle(time.Second)
		if a, err := r.RouteTo(parentID, "w1", "and dev"); err != nil {
			t.Error(a, err)
		}
		r.settle(time.Hour)
		if !seen {
			t.Error("no step with tools saw the message:", r.state(parentID, "w1"), r.lines("worker_work-user_1"))
		}
	})
}

// TestUnknown makes the result of a delivery unknown: no outcome is lost or delivered twice.
func TestUnknown(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reply = func(q *request) answer {
			switch {
			case q.of == Channel && q.last() == "go":
				return answer{calls: []string{SpawnWorker + ` {"task":"task-1"}`, SpawnWorker + ` {"task":"task-2"}`}}
			case q.of == Channel:
				return say("fine")
			case q.has("task-1"):
				return later(time.Minute, call(Outcome, `{"text":"ok"}`))
			case q.of == record.Worker:
				return later(time.Hour, call(Outcome, `{"text":"ok"}`))
			}
			return say("bye")
		}
		bad := false
		r.hook(func(c faultfs.Call) error {
			if bad && (c.Op == "write" || c.Op == "sync" || c.Op == "datasync" || c.Op == "truncate") && strings.Contains(c.Name, parentID) {
				return errModel
			}
			return nil
		})
		r.send("user", "go")
		r.settle(50 * time.Second)
		bad = true
		r.settle(90 * time.Second)
		bad = false
		r.settle(time.Minute)
		for range 3 {
			t.Log(r.send("user", "again"))
		}
		if a := r.send("user", "again"); a != "fine" {
			t.Error(a)
		}
		r.settle(2 * time.Hour)
		r.send("user", "again")
		if s := r.lines(parentID); !strings.Contains(s, "w1.1") || !strings.Contains(s, "w2.1") {
			t.Error(s)
		}
	})
}

func workSpawn(scope string) (s work.Spawn) {
	return work.Spawn{Kind: record.Worker, Agent: "worker", Task: "x", Scope: []byte(scope)}
}

// TestCancelHangs cancels work with an outcome whose last step does not end: it loses its slot after
// a minute.
func TestCancelHangs(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reply = func(q *request) answer {
			if q.of == "end" {
				return later(10*time.Hour, say("bye"))
			}
			return spawn(`{"task":"x"}`, call(Outcome, `{"text":"12 passed"}`))(q)
		}
		r.send("user", "go")
		r.settle(time.Second)
		t.Log(r.CancelWork(parentID, "w1", ""))
		r.settle(2 * time.Minute)
		if s := r.state(parentID, "w1"); s != "done (outcome)" {
			t.Error(s)
		}
		r.settle(20 * time.Hour)
	})
}

// TestNotApplied fills the disk while an outcome is written, with a known result.
func TestNotApplied(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reply = func(q *request) answer {
			if q.of == "end" {
				r.mu.Lock()
				defer r.mu.Unlock()
			}
			return spawn(`{"task":"x"}`, later(time.Minute, call(Outcome, `{"text":"12 passed"}`)))(q)
		}
		full := false
		r.hook(func(c faultfs.Call) error {
			if full && c.Op == "write" {
				return &faultfs.Fault{Err: syscall.ENOSPC}
			}
			return nil
		})
		r.published = func(e agent.Event) {}
		r.send("user", "go")
		r.settle(30 * time.Second)
		full = true
		r.settle(5 * time.Minute)
		full = false
		r.settle(time.Hour)
		r.send("user", "again")
		if !strings.Contains(r.lines(parentID), "[w1.1]") {
			t.Error("never delivered", r.state(parentID, "w1"))
		}
	})
}

// TestWakeRetry repeats a wake that could not write.
func TestWakeRetry(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reply = spawn(`{"task":"x"}`, call("bash", `{"command":"1m"}`), call(Outcome, `{"text":"12 passed"}`))
		full := false
		r.hook(func(c faultfs.Call) error {
			if full && c.Op == "write" && strings.Contains(c.Name, parentID) {
				return &faultfs.Fault{Err: syscall.ENOSPC}
			}
			return nil
		})
		r.send("user", "go")
		full = true
		r.settle(2 * time.Minute)
		full = false
		r.settle(2 * time.Hour)
		if !strings.Contains(r.lines(parentID), "[w1.1]") {
			t.Error("never delivered", r.took())
		}
	})
}
