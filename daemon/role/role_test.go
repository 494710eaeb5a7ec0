package role

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/trust"
	"crabmem/sessionlog/record"

	diff "github.com/google/go-cmp/cmp"
)

var errModel = errors.New("the model is gone")

// TestChannel gives a worker and a branch work, and follows their results to the user.
func TestChannel(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reply = func(q *request) answer {
			switch q.of {
			case Channel:
				switch {
				case strings.Contains(q.last(), "results of work"):
					return say("it passed")
				case q.last() == "go":
					return answer{calls: []string{SpawnWorker + ` {"task":"run the tests"}`, Branch + ` {"question":"why?"}`}}
				}
				return say("on it")
			case record.Worker:
				if q.has("ran true") {
					return call(Outcome, `{"text":"12 passed"}`)
				}
				return later(time.Minute, call("bash", `{"command":"true"}`))
			case record.Branch:
				if !q.has("go") {
					t.Error("the branch does not see the conversation")
				}
				return later(10*time.Second, say("because"))
			}
			return say("bye")
		}
		if a := r.send("user", "go"); a != "on it" {
			t.Errorf("answer %q", a)
		}
		synctest.Wait()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		t.Log(r.took())
		t.Log(r.lines("crab_user_1"))
	})
}

// settle waits until all work has ended or waits for a timer, for a time.
func (r *rig) settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// states returns the states of the session's work on the disk.
func (r *rig) state(parent, id string) string {
	r.t.Helper()
	p, err := r.use(parent)
	r.check(err)
	defer r.done(p)
	i, err := p.Item(id)
	r.check(err)
	status, attempt := i.Status()
	if attempt > 1 {
		return status.String() + ", attempt " + string(rune('0'+attempt))
	}
	return status.String()
}

const parentID = "crab_user_1"

// spawn is a model whose channel spawns one worker with some arguments for the message
// go, and says fine. The worker's steps are those of work.
func spawn(args string, steps ...answer) func(q *request) answer {
	n := 0
	return func(q *request) answer {
		switch {
		case q.of == Channel && q.last() == "go":
			return call(SpawnWorker, args)
		case q.of == Channel:
			return say("fine")
		case q.of == "end":
			return say("bye")
		}
		if n++; n > len(steps) {
			return steps[len(steps)-1]
		}
		return steps[n-1]
	}
}

// TestWorker runs a worker through each of its ends.
func TestWorker(t *testing.T) {
	const task = `{"task":"x"}`
	outcome := call(Outcome, `{"text":"12 passed"}`)
	bash := call("bash", `{"command":"true"}`)
	for _, c := range []struct {
		name  string
		reply func(q *request) answer
		after time.Duration // until the check
		state string
		text  string // of the outcome
	}{
		{"outcome", spawn(task, bash, outcome), time.Minute, "done (outcome)", "12 passed"},
		{"reported", spawn(task, call(Outcome, `{"text":"no disk","ok":false}`)), time.Minute, "failed (reported)", "no disk"},
		{"nudged", spawn(task, say("hm"), say("so"), bash, say("then"), outcome), time.Minute, "done (outcome)", "12 passed"},
		{"no outcome", spawn(task, say("I am done")), time.Minute, "failed (no_outcome)", "I am done"},
		{"error", spawn(task, answer{err: errModel}), time.Minute, "failed (error)", "the model is gone"},
		{"exhausted", spawn(task, answer{text: "still", calls: []string{`bash {"command":"true"}`}}), time.Minute, "failed (exhausted)", "still"},
		{"silent tool", spawn(task, call("bash", `{"command":"25m","timeout_secs":1800}`), outcome), time.Hour, "done (outcome)", "12 passed"},
		{"silent model", spawn(task, later(20*time.Minute, outcome)), time.Hour, "done (outcome)", "12 passed"},
		{"outcome whose last step fails", func(q *request) answer {
			if q.of == "end" && q.has("noted; end now") {
				return answer{err: errModel}
			}
			return spawn(task, outcome)(q)
		}, time.Minute, "done (outcome)", "12 passed"},
	} {
		bubble(t, func(r *rig) {
			r.reply = c.reply
			if a := r.send("user", "go"); a != "fine" {
				t.Errorf("%s: answer %q", c.name, a)
			}
			r.settle(c.after)
			if s := r.state(parentID, "w1"); s != c.state {
				t.Errorf("%s: %s, want %s\n%s", c.name, s, c.state, r.took())
			}
			file := r.lines(parentID)
			if !strings.Contains(file, c.text+"\n") || strings.Count(file, "[w1.1]") != 1 {
				t.Errorf("%s: not delivered once: %s", c.name, file)
			}
			if len(r.parents) != 0 || len(r.items) != 0 {
				t.Errorf("%s: %d parents and %d items remain", c.name, len(r.parents), len(r.items))
			}
		})
	}
}

// TestStall stops work that makes no progress: it is asked to stop, then canceled, and
// loses its slot if it does not end.
func TestStall(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Roles.WorkerTimeout = 10 * time.Minute
		r.reply = spawn(`{"task":"x"}`, answer{text: "part", calls: []string{`bash {"command":"25m","timeout_secs":1800}`}})
		r.send("user", "go")
		r.settle(11 * time.Minute)
		if s := r.state(parentID, "w1"); s != "running (spawned)" {
			t.Error("within the grace:", s)
		}
		r.settle(time.Hour)
		if s := r.state(parentID, "w1"); s != "failed (timeout)" || !strings.Contains(r.lines(parentID), "part\n") {
			t.Error(s, r.took(), r.lines(parentID))
		}
		if text := r.took(); !strings.Contains(text, "asked work to stop") || !strings.Contains(text, "canceled work") {
			t.Error(text)
		}
	})
	bubble(t, func(r *rig) {
		r.config.Roles.WorkerTimeout = 10 * time.Minute
		r.reply = spawn(`{"task":"x"}`, call("bash", `{"command":"deaf 1h","timeout_secs":1800}`))
		r.send("user", "go")
		r.settle(13 * time.Minute)
		if s := r.state(parentID, "w1"); s != "failed (timeout)" || len(r.items) != 0 {
			t.Error("a tool that ignores its end:", s, len(r.items), r.took())
		}
		r.settle(2 * time.Hour)
		if file := r.lines(parentID); strings.Count(file, "[w1.1]") != 1 || strings.Contains(file, "w1.2") {
			t.Error(file)
		}
	})
}

// TestInteractive routes messages to work that runs, waits, failed, and has ended.
func TestInteractive(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reply = spawn(`{"task":"x","interactive":true}`, call(Outcome, `{"text":"which branch?"}`), call("bash", `{"command":"1m"}`),
			call(Outcome, `{"text":"12 passed"}`))
		r.send("user", "go")
		r.settle(time.Minute)
		if s := r.state(parentID, "w1"); s != "waiting (outcome)" {
			t.Error(s, r.took())
		}
		if s := r.status(parentID); !strings.Contains(s, `waiting for input: w1 worker, "x"`) {
			t.Error(s)
		}
		if a, err := r.RouteTo(parentID, "w1", "main"); a != "w1 has it" || err != nil {
			t.Error(a, err)
		}
		r.settle(10 * time.Second)
		if s := r.status(parentID); !strings.Contains(s, `working: w1 worker, 10s, 1 call, "x"`) {
			t.Error(s)
		}
		if a, err := r.RouteTo(parentID, "w1", "and dev"); a != "w1 has it" || err != nil {
			t.Error(a, err)
		}
		r.settle(time.Hour)
		if s := r.state(parentID, "w1"); s != "waiting (outcome)" {
			t.Error(s, r.took())
		}
		child := r.lines("worker_work-user_1")
		if !strings.Contains(child, "user: main [r1]") || !strings.Contains(child, "user: and dev [r2]") {
			t.Error(child)
		}
		if a, err := r.CancelWork(parentID, "w1", ""); a != "w1 is closed" || err != nil {
			t.Error(a, err)
		}
		for _, id := range []string{"w1", "w2", "b1", ""} {
			if a, err := r.RouteTo(parentID, id, "more"); err == nil {
				t.Error(id, a)
			}
		}
		r.settle(time.Hour)
	})
	bubble(t, func(r *rig) { // a message continues a failure
		r.reply = spawn(`{"task":"x"}`, say("hm"), say("hm"), say("hm"), call(Outcome, `{"text":"12 passed"}`))
		r.send("user", "go")
		r.settle(time.Minute)
		if a, err := r.RouteTo(parentID, "w1", "go on"); a != "w1 has it" || err != nil {
			t.Error(a, err)
		}
		r.settle(time.Minute)
		if s := r.state(parentID, "w1"); s != "done (outcome), attempt 2" {
			t.Error(s)
		}
	})
}

// TestCancel cancels work before and after its outcome.
func TestCancel(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reply = spawn(`{"task":"x"}`, call("bash", `{"command":"1m"}`))
		r.send("user", "go")
		r.settle(time.Second)
		if a, err := r.CancelWork(parentID, "w1", "no need"); a != "w1 is cancelled" || err != nil {
			t.Error(a, err)
		}
		r.settle(time.Minute)
		if s, notes := r.state(parentID, "w1"), r.took(); s != "failed (cancelled)" || strings.Contains(notes, "wake") {
			t.Error(s, notes)
		}
		if r.send("user", "go"); !strings.Contains(r.lines(parentID), "[w1.1]") {
			t.Error("the next run does not deliver it:", r.lines(parentID))
		}
	})
	bubble(t, func(r *rig) {
		r.reply = func(q *request) answer {
			if q.of == "end" {
				return later(10*time.Second, say("bye"))
			}
			return spawn(`{"task":"x"}`, call(Outcome, `{"text":"12 passed"}`))(q)
		}
		r.send("user", "go")
		r.settle(time.Second)
		if a, err := r.CancelWork(parentID, "w1", ""); a != "w1 finishes already" || err != nil {
			t.Error(a, err)
		}
		r.settle(time.Minute)
		if s := r.state(parentID, "w1"); s != "done (outcome)" {
			t.Error(s, r.took())
		}
	})
}

// TestWakes gives four results to an idle channel: three wake it, and the fourth is
// delivered without a run.
func TestWakes(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reply = func(q *request) answer {
			switch {
			case q.of == Channel && q.last() == "go":
				a := answer{}
				for _, s := range []string{"1m", "2m", "3m", "4m", "4m0.1s"} {
					a.calls = append(a.calls, SpawnWorker+` {"task":"`+s+`"}`)
				}
				return a
			case q.of == record.Worker && q.has("ran "):
				return call(Outcome, `{"text":"ok"}`)
			case q.of == record.Worker:
				return call("bash", `{"command":"`+q.last()+`"}`)
			}
			return say("fine")
		}
		r.send("user", "go")
		r.settle(time.Hour)
		notes, file := r.took(), r.lines(parentID)
		if strings.Count(notes, "wake ") != 3 || !strings.Contains(notes, "results wait in the conversation") {
			t.Error(notes)
		}
		if !strings.Contains(file, "[w4.1 w5.1]") || strings.Count(file, "assistant: fine") != 4 {
			t.Error(file)
		}
		if a := r.send("user", "and?"); a != "fine" {
			t.Error(a)
		}
	})
}

// TestLimits spawns more work than is permitted, the same work twice, and work of agents
// that are not members.
func TestLimits(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Roles.Workers, r.config.Roles.Branches, r.config.Roles.Running = 2, 1, 4
		var results []string
		r.reply = func(q *request) answer {
			switch {
			case q.of == Channel && q.last() == "go":
				return answer{calls: []string{
					SpawnWorker + ` {"task":"a"}`, SpawnWorker + ` {"task":"a"}`, SpawnWorker + ` {"task":"b","agent":"coder"}`, SpawnWorker + ` {"task":"c"}`,
					SpawnWorker + ` {"task":"d","agent":"plain"}`, Branch + ` {"question":"a"}`, Branch + ` {"question":"b"}`, Branch + ` {"question":""}`, "bash {}",
				}}
			case q.of == Channel && results == nil:
				for _, m := range q.Messages {
					if m.Role == record.RoleTool {
						results = append(results, m.Content)
					}
				}
			case q.of == record.Branch:
				return later(time.Minute, say("because"))
			case q.of == record.Worker:
				return later(time.Hour, call(Outcome, `{"text":"ok"}`))
			}
			return say("fine")
		}
		r.send("user", "go")
		want := []string{"w1 (worker) begins; its result goes to the conversation", "w1 does this already", "w2 (coder) begins; its result goes to the conversation",
			"2 workers at work already: w1, w2", "agent 'plain' is not in your members list", "b1 thinks; its conclusion comes", "1 branch at work already: b1", "question is empty",
			"tool not available: bash"}
		if d := diff.Diff(want, results); d != "" {
			t.Error(d)
		}
		r.settle(2 * time.Hour)
	})
}

// TestRestart restarts the daemon while work runs, waits, and has ended.
func TestRestart(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reply = func(q *request) answer {
			switch {
			case q.of == Channel && q.last() == "go":
				return answer{calls: []string{SpawnWorker + ` {"task":"slow"}`, SpawnWorker + ` {"task":"asks","interactive":true}`, Branch + ` {"question":"why"}`}}
			case q.of == Channel || q.of == "end":
				return say("fine")
			case q.of == record.Branch:
				return later(time.Minute, say("because"))
			case q.has("asks"):
				return call(Outcome, `{"text":"which?"}`)
			case q.has("ran 1m"):
				return call(Outcome, `{"text":"12 passed"}`)
			}
			return answer{text: "begun", calls: []string{`bash {"command":"1m"}`}}
		}
		r.send("user", "go")
		r.settle(10 * time.Second)
		r.restart()
		r.settle(4 * time.Second)
		if notes := r.took(); strings.Contains(notes, "\nwake") && strings.LastIndex(notes, "wake") > strings.LastIndex(notes, "recovered") && false {
			t.Error(notes)
		}
		r.settle(time.Hour)
		file := r.lines(parentID)
		for _, want := range []string{"[w1.1]", "[b1.1]", "ended by a restart", "12 passed"} {
			if strings.Count(file, want) != 1 {
				t.Errorf("%q is there %d times: %s", want, strings.Count(file, want), file)
			}
		}
		if s := r.state(parentID, "w1"); s != "done (outcome), attempt 2" {
			t.Error(s)
		}
		if s := r.state(parentID, "w2"); s != "waiting (outcome)" {
			t.Error(s)
		}
		if !strings.Contains(r.lines("worker_work-user_1"), "The program was restarted") {
			t.Error(r.lines("worker_work-user_1"))
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
				if err != nil || !strings.Contains(v.Question, "worker wants to run: make x") {
					t.Errorf("%+v %v", v, err)
				}
				if err := r.Answer(r.t.Context(), parentID, "w1", "y"); err != nil {
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
			r.reply = func(q *request) answer {
				switch {
				case q.of == record.Worker:
					return later(time.Minute, call("bash", `{"command":"1m"}`))
				case q.last() == "go":
					a := answer{}
					for i := range n {
						a.calls = append(a.calls, fmt.Sprintf(`%s {"task":"t%d"}`, SpawnWorker, i))
					}
					return a
				}
				return say("fine")
			}
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
