package role

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/session"
	"crabmem/daemon/tool"
	"crabmem/daemon/trust"
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
		t.Log(r.Reply(r.t.Context(), l.ID(), "", "yes"))
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
			wg.Go(func() { t.Log(r.Answer(parentID, id, "", "y")) })
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
		if err := r.Answer(parentID, "w1", "", "y"); err != nil {
			t.Error(err)
		}
		r.settle(time.Minute)
		if s := r.state(parentID, "w1"); s != "done (outcome)" {
			t.Error(s)
		}
		r.settle(48 * time.Hour)
	})
}

// asks is a model whose worker calls bash with each command in turn, and then reports the
// results that the worker's file has.
func asks(commands ...string) func(q *request) answer {
	return func(q *request) answer {
		n := 0
		for _, m := range q.Messages {
			if m.Role == record.RoleTool && m.Content != noResult && !strings.Contains(m.Content, "call again") {
				n++
			}
		}
		switch {
		case q.of != record.Worker:
			return spawn(`{"task":"x"}`)(q)
		case n < len(commands):
			return call("bash", `{"command":"`+commands[n]+`"}`)
		}
		return call(Outcome, `{"text":"all ran"}`)
	}
}

const noResult = "error: no result was recorded for this call"

// ran returns how many of the worker's commands ran, by the rig's tool bash.
func (r *rig) ran() int { return int(r.made.Load()) }

// question returns the open question of w1, or "".
func (r *rig) question() string {
	r.t.Helper()
	v, err := r.Show(parentID, "w1")
	r.check(err)
	return v.Question
}

// TestQuestionAfterRestart restarts the daemon while a worker asks. The question is open
// before and after the worker asks again, and one answer runs the command once.
func TestQuestionAfterRestart(t *testing.T) {
	for _, early := range []bool{true, false} {
		for _, restart := range []func(*rig){(*rig).restart, (*rig).crash} {
			bubble(t, func(r *rig) {
				r.config.Bash.Approve, r.commands = "ask", true
				model := asks("make x")
				wait := time.Duration(0)
				r.reply = func(q *request) answer { return later(wait, model(q)) }
				r.send("user", "go")
				r.settle(time.Minute)
				if wait = time.Hour; !early {
					wait = 0
				}
				asked := r.question()
				restart(r)
				r.settle(time.Minute)
				if got := r.question(); !strings.HasPrefix(got, "w1 wants to run: make x") || got != asked {
					t.Errorf("early %v: after the restart: %q", early, got)
				}
				if r.ran() > 0 {
					t.Error("a command ran without an answer")
				}
				r.check(r.Answer(parentID, "w1", "", "y"))
				if err := r.Answer(parentID, "w1", "", "y"); early && err == nil {
					t.Error("a question has two answers")
				}
				r.settle(3 * time.Hour)
				if s, file := r.state(parentID, "w1"), r.lines("worker_work-user_1"); s != "done (outcome), attempt 2" || r.ran() != 1 || strings.Count(file, "ask ") != 1 || !strings.Contains(file, "has not run: call it again") {
					t.Errorf("early %v: %s, %d runs, %s", early, s, r.ran(), file)
				}
			})
		}
	}
}

// TestAnsweredBeforeRestart stops the daemon between an answer and its use. The command runs
// once after the restart, without a question.
func TestAnsweredBeforeRestart(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Bash.Approve, r.commands = "ask", true
		r.reply = asks("make x")
		r.send("user", "go")
		r.settle(time.Minute)
		var killed *faultfs.Mem
		writes := 0
		r.hook(func(c faultfs.Call) error {
			if c.Op == "write" && strings.Contains(c.Name, "/worker_work") {
				if writes++; writes == 2 { // of the use
					killed = r.fs.Kill()
				}
			}
			return nil
		})
		r.check(r.Answer(parentID, "w1", "", "y"))
		r.settle(time.Second)
		r.close()
		r.made.Store(0)
		r.open(killed)
		if file := r.lines("worker_work-user_1"); strings.Count(file, "answer ") != 1 || strings.Contains(file, "use ") {
			t.Error(file)
		}
		r.check(r.Start())
		r.settle(time.Minute)
		if s, file := r.state(parentID, "w1"), r.lines("worker_work-user_1"); s != "done (outcome), attempt 2" || r.ran() != 1 || strings.Count(file, "ask ") != 1 {
			t.Errorf("%s, %d runs: %s", s, r.ran(), file)
		}
	})
}

// TestRunBeforeRestart restarts the daemon while an approved command runs. The user is asked
// again, with the reason.
func TestRunBeforeRestart(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Bash.Approve, r.commands, r.takes = "ask", true, time.Hour
		r.reply = asks("make x")
		r.send("user", "go")
		r.settle(time.Minute)
		r.check(r.Answer(parentID, "w1", "", "y"))
		r.settle(time.Minute)
		r.takes = 0
		r.crash()
		r.settle(time.Minute)
		if got := r.question(); !strings.Contains(got, "the command may have run") || r.ran() != 1 {
			t.Errorf("%d runs, asks %q", r.ran(), got)
		}
		r.check(r.Answer(parentID, "w1", "", "n"))
		r.settle(time.Minute)
		if file := r.lines("worker_work-user_1"); r.ran() != 1 || !strings.Contains(file, "the user did not approve") {
			t.Errorf("%d runs: %s", r.ran(), file)
		}
	})
}

// TestOtherCommand answers a question after a restart whose worker then wants to run another
// command: the answer does not count for it.
func TestOtherCommand(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Bash.Approve, r.commands = "ask", true
		model := asks("make x")
		wait := time.Duration(0)
		r.reply = func(q *request) answer { return later(wait, model(q)) }
		r.send("user", "go")
		r.settle(time.Minute)
		wait, model = time.Hour, asks("make y")
		r.crash()
		r.settle(time.Minute)
		r.check(r.Answer(parentID, "w1", "", "y"))
		r.settle(2 * time.Hour)
		if got := r.question(); !strings.Contains(got, "make y") || r.ran() > 0 {
			t.Errorf("%d runs, asks %q", r.ran(), got)
		}
		r.settle(48 * time.Hour)
	})
}

// TestQuestionExpires leaves a question open for 24 hours, with a restart in between: the
// worker does not count as stalled, and the command is refused with a notice.
func TestQuestionExpires(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Bash.Approve, r.commands = "ask", true
		r.reply = asks("make x")
		r.send("user", "go")
		r.settle(12 * time.Hour)
		r.crash()
		r.settle(12*time.Hour - time.Minute)
		if s := r.state(parentID, "w1"); s != "running (resumed), attempt 2" {
			t.Error("before the end:", s)
		}
		r.took()
		r.settle(time.Hour)
		if file, notes := r.lines("worker_work-user_1"), r.took(); !strings.Contains(file, "no answer in time") || !strings.Contains(notes, "notice w1 no answer in time: w1 wants to run: make x") || r.ran() > 0 {
			t.Errorf("%s, %s", file, notes)
		}
		if err := r.Answer(parentID, "w1", "", "y"); err == nil {
			t.Error("an expired question has an answer")
		}
	})
}

// TestInvalidAnswer answers with another text, which the question does not permit.
func TestInvalidAnswer(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Bash.Approve, r.commands = "ask", true
		r.reply = asks("make x")
		r.send("user", "go")
		r.settle(time.Minute)
		if err := r.Answer(parentID, "w1", "", "perhaps"); err == nil || !strings.Contains(err.Error(), "Yes, once; Yes, in this session; No") {
			t.Error(err)
		}
		r.check(r.Answer(parentID, "w1", "", "no"))
		r.settle(time.Minute)
		if s := r.state(parentID, "w1"); s != "done (outcome)" || r.ran() > 0 {
			t.Error(s, r.ran())
		}
	})
}

// tea is a channel that asks its user, and then repeats the answer.
func tea(q *request) answer {
	switch {
	case q.last() == "go":
		return call(tool.AskUser, `{"questions":[{"question":"tea?","header":"tea","options":[{"label":"green","description":""}]}]}`)
	case strings.Contains(q.last(), "## q1 answer"):
		return say("they say")
	case strings.HasPrefix(q.Messages[max(0, len(q.Messages)-2)].Content, "<status"):
		return say("it is " + q.Messages[len(q.Messages)-2].Content)
	}
	return say("fine")
}

// ask has an identity begin a channel run, which asks. It returns the session.
func (r *rig) ask(sender string) *session.Session {
	r.t.Helper()
	l, err := r.sessions.Resolve(r.t.Context(), &session.Request{Agent: "crab", Sender: sender, Content: "go"})
	r.check(err)
	go func() { // ends with the run
		run := session.Run{Session: l, Content: "go", Sender: sender, Interactive: true}
		_ = r.sessions.Run(r.t.Context(), &run)
	}()
	r.settle(time.Second)
	return l
}

// TestAskUser answers a channel's question in its run, after the run, and after a
// restart. The answer is delivered once.
func TestAskUser(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(r *rig, l *session.Session) error
	}{
		{"in the run", func(r *rig, l *session.Session) error { return r.Reply(r.t.Context(), l.ID(), "", "green") }},
		{"by ID", func(r *rig, _ *session.Session) error { return r.Answer(parentID, "q1", "", "green") }},
		{"after a time-out", func(r *rig, _ *session.Session) error {
			r.settle(2 * time.Minute)
			return r.Answer(parentID, "q1", "", "green")
		}},
		{"after a restart", func(r *rig, _ *session.Session) error {
			r.restart()
			return r.Answer(parentID, "q1", "", "green")
		}},
		{"before a restart", func(r *rig, _ *session.Session) error {
			r.settle(2 * time.Minute)
			err := r.Answer(parentID, "q1", "", "green")
			r.restart()
			return err
		}},
	} {
		bubble(t, func(r *rig) {
			r.config.Ask.Timeout = time.Minute
			r.reply = tea
			l := r.ask("user")
			if list, err := r.List(parentID); err != nil || len(list) != 1 || list[0].ID != "q1" || list[0].Question != "tea?; green" {
				t.Errorf("%s: %+v, %v", c.name, list, err)
			}
			if err := c.answer(r, l); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			r.settle(time.Minute)
			if file := r.lines(parentID); strings.Count(file, "[q1.1]") != 1 || strings.Count(file, "## q1 answer user, to the question: tea?; green\ngreen\n") != 1 || strings.Count(file, "they say") != 1 {
				t.Errorf("%s: %s", c.name, file)
			}
			if err := r.Answer(parentID, "q1", "", "black"); err == nil {
				t.Errorf("%s: a second answer counts", c.name)
			}
			if list, err := r.fs.ReadDir(rigHome + "/work"); err != nil || len(list) > 0 || len(r.parents) > 0 {
				t.Errorf("%s: %v, %v, %d parents", c.name, list, err, len(r.parents))
			}
		})
	}
}

// TestAskUserStatus leaves a channel's question open: it is in the status until it is
// 24 hours old, also after a restart and a compaction.
func TestAskUserStatus(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Ask.Timeout = time.Minute
		r.reply = tea
		l := r.ask("user")
		r.settle(2 * time.Minute)
		if file := r.lines(parentID); !strings.Contains(file, "the question stays open") {
			t.Error(file)
		}
		compact := func() {
			log, err := r.logs.Open(l.StoredID())
			r.check(err)
			r.check(log.Compact("tea was discussed"))
			r.check(log.Close())
		}
		for _, between := range []func(){func() {}, r.restart, compact, r.restart} {
			between()
			if got := r.send("user", "hi"); !strings.Contains(got, `asked user`) || !strings.Contains(got, `no answer yet: "tea?; green"`) {
				t.Error(got)
			}
		}
		r.settle(24 * time.Hour)
		if got := r.send("user", "hi"); got != "fine" {
			t.Error(got)
		}
		if list, err := r.List(parentID); len(list) > 0 || err != nil {
			t.Error(list, err)
		}
		if err := r.Answer(parentID, "q1", "", "green"); err == nil {
			t.Error("an answer after 24 hours counts")
		}
	})
}

// TestAskUserIdentity answers the question to one identity as another one.
func TestAskUserIdentity(t *testing.T) {
	for _, c := range []struct {
		asked, by string
		may       bool
	}{
		{"user", "", true}, {"user", "user", true}, {"user", "tg:1", false}, {"user", "api:admin", false}, {"tg:1", "tg:1", true}, {"tg:1", "tg:2", false}, {"tg:1", "", false},
		{"user", "ops:1", true}, {"tg:1", "ops:1", false},
	} {
		bubble(t, func(r *rig) {
			r.config.Ask.Timeout = time.Minute
			r.config.Origins = append(r.config.Origins, trust.Rule{Prefix: "ops:1", Level: trust.Admin})
			r.reply = tea
			l := r.ask(c.asked)
			live := r.Reply(r.t.Context(), l.ID(), c.by, "green")
			r.settle(2 * time.Minute)
			err := r.Answer(l.StoredID(), "q1", c.by, "green")
			if (live == nil) != c.may || err == nil {
				t.Errorf("%s is asked, %s answers: %v, %v", c.asked, c.by, live, err)
			}
			if file := r.lines(l.StoredID()); strings.Contains(file, "[q1.1]") != c.may {
				t.Errorf("%s is asked, %s answers: %s", c.asked, c.by, file)
			}
			r.settle(24 * time.Hour)
		})
	}
}

// TestAlways approves a worker's commands always: other agents are asked.
func TestAlways(t *testing.T) {
	bubble(t, func(r *rig) {
		r.config.Bash.Approve, r.commands = "ask", true
		r.check(os.WriteFile(filepath.Join(r.bin, "rm"), []byte("\x7fELF"), 0o700))
		n := 0
		r.reply = func(q *request) answer {
			switch {
			case q.of == Channel && q.last() == "go":
				return call(SpawnWorker, `{"task":"x"}`)
			case q.of == Channel && q.last() == "again":
				return answer{calls: []string{SpawnWorker + ` {"task":"y"}`, SpawnWorker + ` {"task":"z","agent":"coder"}`}}
			case q.of == Channel:
				return say("fine")
			case q.Messages[len(q.Messages)-1].Role == record.RoleTool:
				return call(Outcome, `{"text":"ok"}`)
			}
			n++
			return call("bash", `{"command":"rm `+strings.Repeat("x", n)+`"}`)
		}
		r.send("user", "go")
		r.settle(time.Minute)
		r.check(r.Answer(parentID, "w1", "", "always"))
		r.settle(time.Minute)
		r.send("user", "again")
		r.settle(time.Minute)
		if got := strings.Join(r.config.Bash.Allow, ","); got != "worker: "+filepath.Join(r.bin, "rm") {
			t.Error("allowed:", got)
		}
		if a, b := r.state(parentID, "w2"), r.state(parentID, "w3"); a != "done (outcome)" || b != "running (spawned)" {
			t.Error(a, b)
		}
		r.settle(48 * time.Hour)
	})
}
