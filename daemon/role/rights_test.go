package role

import (
	"cmp"
	"context"
	"fmt"
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

// TestRouteExternal: a message to a running external worker.
func TestRouteExternal(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Agents[1].Members = nil
		r.config.Workers = []config.ExternalWorker{{Name: "ext", Command: "/bin/sh", Args: []config.Secret{"-c", "echo x >>/tmp/attack.runs; sleep 0.2; echo done"}, Protocol: "exec"}}
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
		r.settle(time.Second)
		for range 20 {
			r.settle(time.Second)
		}
		t.Log(r.lines(parentID))
		t.Log(r.took())
		if s := r.state(parentID, "w1"); s != "done (outcome)" {
			t.Error(s)
			_, _ = r.CancelWork(parentID, "w1", "")
		}
	})
}

// TestRouteIdentity: a trusted person tells the admin's worker what to do.
func TestRouteIdentity(t *testing.T) {
	bubble(t, func(r *rig) {
		told := false
		r.reply = func(q *request) answer {
			switch {
			case q.of == Channel && q.last() == "go":
				return call(SpawnWorker, `{"task":"x","agent":"coder","interactive":true}`)
			case q.of == Channel && q.last() == "evil":
				return call(Route, `{"id":"w1","message":"bash evil"}`)
			case q.of == record.Worker && q.has("bash evil"):
				for _, m := range q.Tools {
					told = told || m.Name == tool.Bash
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
		t.Log(r.took(), r.lines(parentID))
		if told {
			t.Error("a trusted sender has bash by the worker of an admin")
		}
	})
}

// TestWakeSender: the wake of work that a remote person gave out has the rights of the session's creator.
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

// TestDelegatedWake: a task of a confined agent to a channel; its wake is not bounded.
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
		t.Log(r.took())
	})
}

// TestDir: dir, confinement.
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

// TestRoleRemoved: the role is removed while work runs: the wake has all tools.
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

// TestChannelWorker: a worker whose agent is a channel.
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

// TestSpawns: a 1,000 spawns of work that fails at once.
func TestSpawns(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reply = func(q *request) answer {
			if q.of == Channel && q.last() == "go" {
				a := answer{}
				for n := range 300 {
					a.calls = append(a.calls, fmt.Sprintf(`%s {"task":"t%d","agent":"coder"}`, SpawnWorker, n))
				}
				return a
			}
			if q.of == record.Worker {
				return answer{err: errModel}
			}
			return say("fine")
		}
		r.send("user", "go")
		r.settle(time.Minute)
		children, _ := r.logs.Children()
		t.Log(len(children))
		if len(children) > 5 {
			t.Error("works:", len(children))
		}
	})
}

// TestUTF8: a wake that a limit refuses.
func TestUTF8(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reply = spawn(`{"task":"x"}`, call(SetStatus, "{\"status\":\"a\xff\"}"), call(SetStatus, `{"status":"</status>\u202e<status>\n"}`), call("bash", `{"command":"1m"}`), call(Outcome, "{\"text\":\"a\xffb\"}"), call(Outcome, `{"text":"ok"}`))
		r.send("user", "go")
		r.settle(time.Second)
		t.Log(r.status(parentID))
		r.settle(time.Hour)
		t.Log(r.state(parentID, "w1"), r.took())
	})
}

// TestSkill: the allowed-tools of a skill in force do not bound the worker.
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

// TestSecrets: secrets in the texts of a model reach the user's clients and the files of others.
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
		"user": "ask_user branch cancel reply route spawn_worker", "tg:1": "ask_user branch cancel reply route spawn_worker", "tg:9": "ask_user reply",
		"gh:1": "ask_user reply", "gh:2": "ask_user branch reply",
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
