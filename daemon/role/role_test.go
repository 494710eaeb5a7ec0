package role

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/vfs"
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
		notes, file := r.took(), r.lines(parentID)
		for _, want := range []string{"done in 10s\nbecause\n", "[b1.1]\nassistant: it passed\n", "done in 1m0s\n12 passed\n", "[w1.1]\nassistant: it passed\n"} {
			if strings.Count(file, want) != 1 {
				t.Errorf("%q is not there once: %s", want, file)
			}
		}
		if strings.Count(notes, "wake ") != 2 {
			t.Error(notes)
		}
	})
}

// settle waits until all work has ended or waits for a timer, for a time.
func (r *rig) settle(d time.Duration) {
	r.order()
	time.Sleep(d)
	synctest.Wait()
	r.order()
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

// statusOf returns a channel's status for its next run.
func (r *rig) statusOf(id string) string {
	r.t.Helper()
	log, err := r.logs.Open(id)
	r.check(err)
	defer log.Close()
	return r.status(log)
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

// TestLongResultOfWork has a worker whose command returns 20 kB.
func TestLongResultOfWork(t *testing.T) {
	long := strings.Repeat("0123456789", 2000)
	bubble(t, func(r *rig) {
		r.reply = spawn(`{"task":"x"}`, call("bash", `{"command":"`+long+`"}`), call(Outcome, `{"text":"12 passed"}`))
		r.send("user", "go")
		r.settle(time.Minute)
		v, err := r.Show(parentID, "w1")
		r.check(err)
		list, err := r.fs.ReadDir(rigHome + "/results/" + v.Child)
		r.check(err)
		text, err := vfs.ReadFile(r.fs, rigHome+"/results/"+v.Child+"/"+list[0].Name(), 1<<20)
		r.check(err)
		if string(text) != "ran "+long || len(list) != 1 {
			t.Errorf("%d files, %d bytes", len(list), len(text))
		}
		if lines := r.lines(v.Child); strings.Contains(lines, long) || !strings.Contains(lines, list[0].Name()) {
			t.Errorf("the session has %d bytes", len(lines))
		}
	})
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
		if s := r.statusOf(parentID); !strings.Contains(s, `waiting for input: w1 worker, "x"`) {
			t.Error(s)
		}
		if a, err := r.RouteTo(parentID, "w1", "main"); a != "w1 has it" || err != nil {
			t.Error(a, err)
		}
		r.settle(10 * time.Second)
		if s := r.statusOf(parentID); !strings.Contains(s, `working: w1 worker, 10s, 1 call, "x"`) {
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
		r.took()
		r.settle(4 * time.Second)
		if notes := r.took(); strings.Contains(notes, "wake") {
			t.Error("a wake before 5 s:", notes)
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
