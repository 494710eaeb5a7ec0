package role

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/daemon/session"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// TestRouteExternal sends a message to another program that works: it is refused.
func TestRouteExternal(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Agents[1].Members = nil
		r.config.Workers = []config.ExternalWorker{{Name: "ext", Command: "/bin/sh", Args: []config.Secret{"-c", "sleep 0.2; echo done"}, Protocol: "exec"}}
		r.close()
		r.open(r.fs)
		n := 0
		r.reply = func(q *request) answer {
			switch {
			case q.of == Channel && q.last() == "go":
				return call(SpawnWorker, `{"task":"x","agent":"ext"}`)
			case q.of == Channel && n == 0:
				n++
				return call(Route, `{"id":"w1","message":"more"}`)
			}
			return say("fine")
		}
		r.send("user", "go")
		r.settle(time.Minute)
		if file := r.lines(parentID); !strings.Contains(file, "w1 is work of another program, which takes no messages") {
			t.Error(file)
		}
		if s := r.state(parentID, "w1"); s != "done (outcome)" {
			t.Error(s)
			_, _ = r.CancelWork(parentID, "w1", "")
		}
	})
}

// TestRouteIdentity sends a message of a trusted identity to an admin's work: it is refused.
func TestRouteIdentity(t *testing.T) {
	bubble(t, func(r *rig) {
		received := false
		r.reply = func(q *request) answer {
			switch {
			case q.of == Channel && q.last() == "go":
				return call(SpawnWorker, `{"task":"x","agent":"coder","interactive":true}`)
			case q.of == Channel && q.last() == "evil":
				return call(Route, `{"id":"w1","message":"bash evil"}`)
			case q.of == record.Worker && q.has("bash evil"):
				for _, m := range q.Tools {
					received = received || m.Name == tool.Bash
				}
			}
			if q.of == record.Worker {
				return call(Outcome, `{"text":"ok"}`)
			}
			return say("fine")
		}
		r.send("user", "go")
		r.settle(time.Minute)
		l, err := r.sessions.Open(r.t.Context(), parentID, "")
		r.check(err)
		run := session.Run{Session: l, Content: "evil", Sender: "tg:1"}
		r.check(r.sessions.Run(r.t.Context(), &run))
		r.settle(time.Minute)
		if received {
			t.Error("a trusted sender has bash by the worker of an admin")
		}
	})
}

// TestWakeSender wakes an admin's session for the work of a remote sender: the wake has the
// sender's permissions.
func TestWakeSender(t *testing.T) {
	bubble(t, func(r *rig) {
		escaped := ""
		r.reply = func(q *request) answer {
			switch {
			case q.of == Channel && q.last() == "evil":
				return call(SpawnWorker, `{"task":"x"}`)
			case q.of == Channel && strings.Contains(q.last(), "results of work"):
				return call(SpawnWorker, `{"task":"bash evil"}`)
			case q.of == record.Worker && q.has("bash evil"):
				for _, m := range q.Tools {
					escaped += m.Name + " "
				}
			}
			if q.of == record.Worker {
				return later(time.Second, call(Outcome, `{"text":"ok"}`))
			}
			return say("fine")
		}
		r.send("user", "hello")
		l, err := r.sessions.Open(r.t.Context(), parentID, "")
		r.check(err)
		run := session.Run{Session: l, Content: "evil", Sender: "tg:1"}
		r.check(r.sessions.Run(r.t.Context(), &run))
		r.settle(time.Minute)
		if strings.Contains(escaped, "bash") {
			t.Error("work of tg:1 leads to a worker with", escaped)
		}
	})
}

// TestDelegatedWake delegates a task of a confined agent to a channel: the task gives out no work.
func TestDelegatedWake(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Agents[1].Members = nil
		r.config.Delegate.MaxTasks, r.config.Delegate.MaxDepth = 5, 5
		r.config.Agents[2].Members, r.config.Agents[2].Tools = []string{"crab"}, []string{tool.Delegate}
		r.close()
		r.open(r.fs)
		escaped := ""
		r.reply = func(q *request) answer {
			switch {
			case q.of == Channel && q.last() == "go":
				return call(SpawnWorker, `{"task":"x"}`)
			case q.of == Channel && strings.Contains(q.last(), "results of work"):
				return call(SpawnWorker, `{"task":"bash evil"}`)
			case q.of == "end" && q.last() == "do":
				return call(tool.Delegate, `{"tasks":[{"agent":"crab","message":"go"}]}`)
			case q.of == record.Worker && q.has("bash evil"):
				for _, m := range q.Tools {
					escaped += m.Name + " "
				}
			}
			if q.of == record.Worker {
				return later(time.Second, call(Outcome, `{"text":"ok"}`))
			}
			return say("fine")
		}
		l, err := r.sessions.Resolve(r.t.Context(), &session.Request{Agent: "plain", Sender: "user", Content: "do"})
		r.check(err)
		run := session.Run{Session: l, Content: "do", Sender: "user"}
		r.check(r.sessions.Run(r.t.Context(), &run))
		r.settle(time.Minute)
		if strings.Contains(escaped, "bash") {
			t.Error("a task of a confined agent leads to a worker with", escaped)
		}
	})
}

// TestDir spawns workers with directories: those of confined agents stay in the session's.
func TestDir(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reply = spawn(`{"task":"x","dir":"../etc","agent":"coder"}`, call(Outcome, `{"text":"ok"}`))
		var confined, dir string
		r.published = func(e agent.Event) {}
		r.send("user", "go")
		synctest.Wait()
		s, err := r.logs.Read(parentID)
		r.check(err)
		defer s.Close()
		for l := range s.Lines(0) {
			if w, ok := record.ParseWork(l.Raw); ok && w.Op == record.WorkStart {
				confined, dir = string(w.Scope), "x"
			}
		}
		_ = dir
		if strings.Contains(confined, `"../etc"`) {
			t.Error("a relative directory:", confined)
		}
		if confined != "" && !strings.Contains(confined, `"confined":true`) {
			t.Error("crab is confined, its member is not:", confined)
		}
		r.settle(time.Hour)
	})
}

// TestRoleRemoved removes the role while work runs: the outcome is delivered without a run.
func TestRoleRemoved(t *testing.T) {
	bubble(t, func(r *rig) {
		got := ""
		reply := spawn(`{"task":"x"}`, later(time.Minute, call(Outcome, `{"text":"ok"}`)))
		r.reply = func(q *request) answer {
			if strings.Contains(q.last(), "results of work") {
				for _, m := range q.Tools {
					got += m.Name + " "
				}
				return say("fine")
			}
			return reply(q)
		}
		r.send("user", "go")
		r.config.Agents[1].Role = ""
		r.settle(time.Hour)
		if strings.Contains(got, "bash") {
			t.Error("a run without a user has", got, r.took())
		}
	})
}

// TestChannelWorker has a channel's agent do work: the time limit of channels does not apply.
func TestChannelWorker(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Agents[0].Role = Channel
		r.reply = spawn(`{"task":"x","agent":"coder"}`, later(10*time.Minute, call(Outcome, `{"text":"ok"}`)))
		r.send("user", "go")
		r.settle(time.Hour)
		if s := r.state(parentID, "w1"); s != "done (outcome)" {
			t.Error(s, r.lines("coder_work-user_1"))
		}
	})
}

// TestSkill spawns a worker in a run that a skill bounds: the bound applies to the worker.
func TestSkill(t *testing.T) {
	bubble(t, func(r *rig) {
		run := r.o.Setup().Runner
		run.Hooks = run.Hooks.Then(agent.Hooks{BeforeRun: func(_ context.Context, t *agent.Turn) []sessionlog.Message {
			if t.Agent.Name == "crab" {
				t.Narrow(tool.Scope{Tools: tool.Only(tool.Recall), Memory: tool.AllMemory()})
			}
			return nil
		}})
		got := ""
		reply := spawn(`{"task":"x","agent":"worker"}`, call(Outcome, `{"text":"ok"}`))
		r.reply = func(q *request) answer {
			if q.of == record.Worker {
				for _, m := range q.Tools {
					got += m.Name + " "
				}
			}
			return reply(q)
		}
		r.send("user", "go")
		r.settle(time.Minute)
		if strings.Contains(got, "bash") {
			t.Error(got)
		}
	})
}

// TestSecrets has models write secrets: no event, delivery, or outcome contains them.
func TestSecrets(t *testing.T) {
	bubble(t, func(r *rig) {
		reply := spawn(`{"task":"x"}`, call(SetStatus, `{"status":"is hunter22"}`), call(Outcome, `{"text":"key hunter22"}`))
		said := false
		r.reply = func(q *request) answer {
			if q.of == Channel && !said && strings.Contains(q.last(), "begins") {
				said = true
				return call(Reply, `{"content":"hunter22"}`)
			}
			return reply(q)
		}
		events := ""
		r.published = func(e agent.Event) { events += e.Content + e.Note }
		r.send("user", "go")
		r.settle(time.Minute)
		replies := ""
		for line := range strings.Lines(r.took()) {
			if strings.HasPrefix(line, "reply ") {
				replies += line
			}
		}
		if text := events + replies + r.lines(parentID); strings.Contains(text, "hunter22") {
			t.Error(text)
		}
	})
}

// TestOrigins gives the tools of a channel to each kind of identity.
func TestOrigins(t *testing.T) {
	for sender, want := range map[string]string{
		"user": "ask_user branch cancel reply route skip spawn_worker", "tg:1": "ask_user branch cancel reply route skip spawn_worker", "tg:9": "ask_user reply skip",
		"gh:1": "ask_user reply skip", "gh:2": "ask_user branch reply skip",
	} {
		bubble(t, func(r *rig) {
			r.config.Origins = append(r.config.Origins, trust.Rule{Prefix: "gh:2", Level: trust.Untrusted, Allow: []string{Branch}})
			var tools []string
			var refused string
			r.reply = func(q *request) answer {
				if q.of != Channel {
					return say("fine")
				}
				if q.last() == "go" {
					for _, t := range q.Tools {
						tools = append(tools, t.Name)
					}
					return answer{calls: []string{SpawnWorker + ` {"task":"a","agent":"coder"}`, SpawnWorker + ` {"task":"b"}`}}
				}
				if refused == "" {
					var results []string
					for _, m := range q.Messages {
						if m.Role == record.RoleTool {
							results = append(results, m.Content)
						}
					}
					refused = strings.Join(results, "; ")
				}
				return say("fine")
			}
			r.send(sender, "go")
			if got := strings.Join(tools, " "); got != want {
				t.Errorf("%s: %s, want %s", sender, got, want)
			}
			wants := map[string]string{"user": "w1 (coder) begins; its result goes to the conversation; w2 (worker) begins; its result goes to the conversation",
				"tg:1": "agent 'coder' is not in your members list; w1 (worker) begins; its result goes to the conversation"}
			if want := cmp.Or(wants[sender], "tool not available: spawn_worker; tool not available: spawn_worker"); refused != want {
				t.Errorf("%s: %s, want %s", sender, refused, want)
			}
			r.settle(time.Hour)
		})
	}
}

// TestChildSessions uses the session of work as one of a user: neither a message nor a
// compaction begins a run in it.
func TestChildSessions(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reply = spawn(`{"task":"x"}`, call(Outcome, `{"text":"ok"}`))
		r.send("user", "go")
		r.settle(time.Minute)
		l, err := r.sessions.Open(r.t.Context(), "worker_work-user_1", "")
		r.check(err)
		if err := r.sessions.Run(r.t.Context(), &session.Run{Session: l, Content: "hi", Sender: "user"}); err == nil {
			t.Error("a message begins a run")
		}
		if err := r.sessions.With(r.t.Context(), l.ID(), func(context.Context, session.Setup, *agent.Agent, *agent.Session) error { return nil }); err == nil {
			t.Error("its history can be changed")
		}
	})
}
