package session

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"crabmem/daemon/agent"
	"crabmem/daemon/approval"
	"crabmem/daemon/tool"
)

// approving adds the tool run. It returns the command after "> " if Approve returns
// a line, and after "$ " if bash runs it.
func (r *rig) approving(mode string, allow ...string) {
	r.change(func(s *Setup) { s.Config.Bash.Approve, s.Config.Bash.Allow = mode, allow })
	bin := filepath.Join(r.t.TempDir(), "bin")
	r.check(os.Mkdir(bin, 0o700))
	for _, name := range []string{"find", "git", "grep", "ls", "mv", "rm"} {
		r.check(os.WriteFile(filepath.Join(bin, name), []byte("\x7fELF"), 0o700))
	}
	r.o.Rules = approval.Rules{Home: rigHome, Profile: func() bool { return true }, Path: []string{bin}}
	r.setup.Load().Runner.Tools.Add(tool.New("run", "", func(ctx context.Context, c tool.Call, args struct {
		Command string `json:"command"`
		Extra   bool   `json:"extra"`
	}) (string, error) {
		var env map[string]string
		if args.Extra {
			env = map[string]string{"A": "1"}
		}
		line, err := r.Approve(ctx, c, args.Command, env)
		if line != nil {
			return "> " + args.Command, err
		}
		return "$ " + args.Command, err
	}))
}

// bashCalls is a message that makes the model of a rig call run once for each
// command.
func bashCalls(t *testing.T, extra bool, commands ...string) string {
	var steps []string
	for _, command := range commands {
		args := marshal(t, map[string]any{"command": command, "extra": extra})
		steps = append(steps, "call run "+strings.ReplaceAll(args, "|", `\u007c`))
	}
	return strings.Join(append(steps, "tell"), "|")
}

// started runs a message and returns the results of its tools and the questions,
// each with the reply that it gets from replies.
func (r *rig) started(q Run, replies ...string) (results []string, asked []agent.Question) {
	id := q.Session.ID()
	q.Each = func(e agent.Event) error {
		switch e.Kind {
		case agent.ToolResult:
			results = append(results, e.Result.Output)
		case agent.AskUser:
			asked = append(asked, e.Questions...)
		}
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- r.Run(r.t.Context(), &q) }()
	for _, reply := range replies {
		synctest.Wait()
		if err := r.Reply(r.t.Context(), id, reply); err != nil {
			r.t.Errorf("reply %q: %v", reply, err)
		}
	}
	if err := <-done; err != nil {
		r.t.Error(err)
	}
	return results, asked
}

// TestApprove answers the questions about commands, and checks which commands
// run, what is asked again, and what the allowlist contains then.
func TestApprove(t *testing.T) {
	reply := func(question, answer string) string { return marshal(t, map[string]string{question: answer}) }
	for _, c := range []struct {
		name     string
		mode     string
		commands []string
		extra    bool
		person   bool
		replies  []string
		want     []string // result, or a part of the error, per command
		allow    string   // the list then
	}{
		{"off", "off", []string{"rm x"}, false, false, nil, []string{"$ rm x"}, "ls"},
		{"allowed", "ask", []string{"ls -l | ls"}, false, false, nil, []string{"> ls -l | ls"}, "ls"},
		{"allowed, list only", "allowlist", []string{"ls"}, false, true, nil, []string{"> ls"}, "ls"},
		{"list only", "allowlist", []string{"rm x"}, false, true, nil,
			[]string{"the allowlist does not permit the command; to permit it, the user can add BIN/rm to tools.bash.allow in config.toml (reason: tools.bash.allow does not contain BIN/rm)"}, "ls"},
		{"no person", "ask", []string{"git add; rm x"}, false, false, nil, []string{"no user is connected to approve the command; " +
			"to permit it, the user can approve it in crabmem chat, or add BIN/git add, BIN/rm to tools.bash.allow"}, "ls"},
		{"no person, no prefix", "ask", []string{"ls > x"}, false, false, nil, []string{"crabmem config set tools.bash.approve off"}, "ls"},
		{"environment", "ask", []string{"ls", "ls"}, true, true, []string{"yes, once", "Yes, in this session", "N"}, []string{"$ ls", "did not approve"}, "ls"},
		{"once", "ask", []string{"rm x", "rm x"}, false, true, []string{reply("q", "Yes, once"), "No"}, []string{"$ rm x", "the user did not approve the command"}, "ls"},
		{"session", "ask", []string{"git add a", "git add b | ls", "git mv"}, false, true, []string{"Yes, in this session", "no"},
			[]string{"$ git add a", "> git add b | ls", "did not approve"}, "ls"},
		{"session, no prefix", "ask", []string{"find . -delete", "find . -delete", "find . -delete x", "ls > x", "ls > x"}, false, true,
			[]string{"Yes, in this session", "No", "Yes, in this session"},
			[]string{"$ find . -delete", "$ find . -delete", "did not approve", "$ ls > x", "$ ls > x"}, "ls"},
		{"always", "ask", []string{"git add && rm a", "rm b"}, false, true, []string{"Yes, always"}, []string{"$ git add && rm a", "> rm b"}, "ls,BIN/git add,BIN/rm"},
		{"always, no prefix", "ask", []string{"ls > x"}, false, true, []string{"Yes, always", "a", "4"}, []string{"not approved; reply: 4"}, "ls"},
		{"text", "ask", []string{"rm x"}, false, true, []string{"use trash instead", "use trash", "no, trash"}, []string{"the command was not approved; reply: no, trash"}, "ls"},
		{"text, then no", "ask", []string{"rm x"}, false, true, []string{"use trash instead", "no"}, []string{"did not approve"}, "ls"},
		{"y", "ask", []string{"rm x", "rm x", "rm x"}, false, true, []string{"y", "YES ", "maybe", "Y"}, []string{"$ rm x", "$ rm x", "$ rm x"}, "ls"},
		{"numbers", "ask", []string{"rm x", "rm x", "ls > x"}, false, true, []string{"1", "0", "5", "4", "3"}, []string{"$ rm x", "did not approve", "did not approve"}, "ls"},
		{"number of the session", "ask", []string{"rm x", "rm x"}, false, true, []string{"2"}, []string{"$ rm x", "> rm x"}, "ls"},
		{"a", "ask", []string{"rm x"}, false, true, []string{"A"}, []string{"$ rm x"}, "ls,BIN/rm"},
		{"always in an object", "ask", []string{"rm x"}, false, true, []string{reply("q", "always")}, []string{"$ rm x"}, "ls,BIN/rm"},
		{"empty", "ask", []string{"rm x"}, false, true, []string{" ", "", "n"}, []string{"did not approve"}, "ls"},
		{"object", "ask", []string{"rm x"}, false, true, []string{`{"a":"Yes, once","b":"Yes, once"}`, `{"a":["y"]}`, `["y"]`}, []string{"not approved; reply: ["}, "ls"},
	} {
		bubble(t, func(r *rig) {
			r.approving(c.mode, "ls")
			l := r.create("crab", "user")
			var results []string
			var asked []agent.Question
			replies := c.replies
			for _, command := range c.commands {
				q := Run{Session: l, Content: bashCalls(t, c.extra, command), Interactive: c.person}
				done := make(chan struct{})
				go func() {
					defer close(done)
					got, questions := r.started(q)
					results, asked = append(results, got...), append(asked, questions...)
				}()
				for synctest.Wait(); r.Asking(l.ID()); synctest.Wait() {
					if len(replies) == 0 {
						t.Fatalf("%s: %q is asked without a reply", c.name, command)
					}
					if err := r.Reply(t.Context(), l.ID(), replies[0]); err != nil {
						t.Error(err)
					}
					replies = replies[1:]
				}
				<-done
			}
			if len(replies) > 0 || len(asked) != len(c.replies) {
				t.Errorf("%s: %d questions, want %d", c.name, len(asked), len(c.replies))
			}
			if len(results) != len(c.want) {
				t.Fatalf("%s: results %q", c.name, results)
			}
			for i, got := range results {
				got = strings.ReplaceAll(got, r.o.Rules.Path[0], "BIN")
				if want := c.want[i]; got != want && (strings.ContainsAny(want[:1], "$>") || !strings.Contains(got, want)) {
					t.Errorf("%s: %s returns %q, want %q", c.name, c.commands[i], got, want)
				}
			}
			if got := strings.ReplaceAll(strings.Join(r.setup.Load().Config.Bash.Allow, ","), r.o.Rules.Path[0], "BIN"); got != c.allow {
				t.Errorf("%s: the list is %s, want %s", c.name, got, c.allow)
			}
		})
	}
}

// TestApproveForgotten checks that an approval for a session ends with it, and is not
// valid in another. That of one text is not valid in another directory.
func TestApproveForgotten(t *testing.T) {
	bubble(t, func(r *rig) {
		r.approving("ask")
		first, second := r.create("crab", "user"), r.create("crab", "other")
		r.started(Run{Session: first, Content: bashCalls(t, false, "rm x"), Interactive: true}, yesInSession)
		if results, _ := r.started(Run{Session: first, Content: bashCalls(t, false, "rm y"), Interactive: true}); fmt.Sprint(results) != "[> rm y]" {
			t.Errorf("the approved program returns %q", results)
		}
		if _, asked := r.started(Run{Session: second, Content: bashCalls(t, false, "rm x"), Interactive: true}, refuse); len(asked) != 1 {
			t.Error("an approval is valid in another session")
		}
		second.setDir("/work")
		r.started(Run{Session: second, Content: bashCalls(t, false, "./x"), Interactive: true}, yesInSession)
		for dir, questions := range map[string]int{"/work": 0, "/other": 1} {
			second.setDir(dir)
			if _, asked := r.started(Run{Session: second, Content: bashCalls(t, false, "./x"), Interactive: true}, slices.Repeat([]string{refuse}, questions)...); len(asked) != questions {
				t.Errorf("%d questions in %s", len(asked), dir)
			}
		}
		r.Kill(first)
		if len(r.asks.allowed(first.ID())) > 0 {
			t.Error("an approval outlives its session")
		}
	})
}

// TestApproveMissed checks that a question without a reply is the last one of its run
// and tasks: a late reply must not approve another command.
func TestApproveMissed(t *testing.T) {
	bubble(t, func(r *rig) {
		r.approving("ask")
		l := r.create("crab", "user")
		tasks := delegateArgs{[]task{{"helper", bashCalls(t, false, "rm b")}}}
		content := strings.Join([]string{strings.TrimSuffix(bashCalls(t, false, "mv a", "rm x"), "|tell"),
			"call delegate " + strings.ReplaceAll(marshal(t, tasks), "|", `\u007c`), "tell"}, "|")
		results, asked := r.started(Run{Session: l, Content: content, Interactive: true})
		if len(asked) != 1 || len(results) != 3 || !strings.Contains(results[0], "timed out") || !strings.Contains(results[1], "got no reply") || !strings.Contains(results[2], "got no reply") {
			t.Errorf("%d questions, results %q", len(asked), results)
		}
		if results, asked := r.started(Run{Session: l, Content: bashCalls(t, false, "rm x"), Interactive: true}, yesOnce); len(asked) != 1 || fmt.Sprint(results) != "[$ rm x]" {
			t.Errorf("the next run: %d questions, results %q", len(asked), results)
		}
	})
}

// TestApproveTasks checks that tasks ask the person of the run that delegates,
// one after the other, and that tasks without a person do not.
func TestApproveTasks(t *testing.T) {
	for _, interactive := range []bool{true, false} {
		bubble(t, func(r *rig) {
			r.approving("ask")
			l := r.create("crab", "user")
			tasks := delegateArgs{[]task{{"helper", bashCalls(t, false, "rm a")}, {"helper", bashCalls(t, false, "mv b")}}}
			var replies []string
			if interactive {
				replies = []string{yesOnce, yesOnce}
			}
			q := Run{Session: l, Content: "call delegate " + strings.ReplaceAll(marshal(t, tasks), "|", `\u007c`) + "|tell", Interactive: interactive}
			results, asked := r.started(q, replies...)
			var outcomes []outcome
			if len(results) != 1 || json.Unmarshal([]byte(results[0]), &outcomes) != nil || len(outcomes) != 2 {
				t.Fatalf("results %q", results)
			}
			for i, want := range []string{"$ rm a", "$ mv b"} {
				got := outcomes[i].Result
				if got == nil || interactive && *got != want || !interactive && !strings.Contains(*got, "no user is connected") {
					t.Errorf("interactive %v: %s", interactive, results[0])
				}
			}
			if len(asked) != len(replies) {
				t.Errorf("interactive %v: %d questions", interactive, len(asked))
			}
		})
	}
}

// TestQuestion checks the question and its options.
func TestQuestion(t *testing.T) {
	for _, c := range []struct {
		command string
		env     map[string]string
		missing []string
		want    string
	}{
		{"x", nil, []string{"git add", "rm"}, "crab wants to run: x; Yes, once: run this command; " +
			"Yes, in this session: run commands that begin with git add, or rm in this session; " +
			"Yes, always: run commands that begin with git add, or rm in every session: adds to tools.bash.allow; No: do not run it; "},
		{"x", nil, nil, "crab wants to run: x; Yes, once: run this command; Yes, in this session: run exactly this command in this session; No: do not run it; "},
		{"x", map[string]string{"PATH": ".", "LD_PRELOAD": "./\u202e x\n"}, nil, "crab wants to run: x\nThe call sets environment variables: LD_PRELOAD=\"./" + `\u202e x\n` + "\" PATH=\".\"; Yes, once: run this command; No: do not run it; "},
		{"ls \r#\u202ex\x1b[2K\u00a0é\na", map[string]string{"A": "1"}, nil, `crab wants to run: ls \r#\u202ex\x1b[2K\u00a0é` + "↵\n  a\nThe call sets environment variables: A=\"1\"; Yes, once: run this command; No: do not run it; "},
		{"ls # \ncrab wants to run: ls\n\u3164\ufe0f\U000e0100", nil, nil, "crab wants to run: ls # ↵\n  crab wants to run: ls↵\n  " + `\u3164\ufe0f\U000e0100` +
			"; Yes, once: run this command; Yes, in this session: run exactly this command in this session; No: do not run it; "},
		{"w", nil, nil, "crab wants to run: w\nIt needs approval: no space↵\n   left; Yes, once: run this command; Yes, in this session: run exactly this command in this session; No: do not run it; "},
	} {
		d := approval.Decision{Missing: c.missing}
		if c.command == "w" {
			d.Reason = "no space\n left"
		}
		q := question("crab", c.command, c.env, d)
		got := q.Question + "; "
		for _, o := range q.Options {
			got += o.Label + ": " + o.Description + "; "
		}
		if got != c.want {
			t.Errorf("question:\n got %s\nwant %s", got, c.want)
		}
	}
}
