package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/daemon/model"
	"crabmem/daemon/tool"
	"crabmem/sessionlog"
)

func TestTitleOf(t *testing.T) {
	long := strings.Repeat("word ", 20)
	for text, want := range map[string]string{
		"":                                  "",
		" \n\t\u2028 \x00\n":                "",
		"hello":                             "hello",
		"\n \r\n  which   port\tis it? \nx": "which port is it?",
		"/deploy web\nnow":                  "/deploy web",
		"a\x1b[31mb\u202ec\x00 d":           "a [31mb c d",
		"one\u2028two":                      "one",
		long:                                strings.Repeat("word ", 11) + "word…",
		strings.Repeat("x", 60):             strings.Repeat("x", 60),
		strings.Repeat("x", 61):             strings.Repeat("x", 59) + "…",
		strings.Repeat("界", 80):             strings.Repeat("界", 59) + "…",
		"ok " + strings.Repeat("x", 80):     "ok…",
		"می\u200cخواهم 👩\u200d💻 x":          "می\u200cخواهم 👩\u200d💻 x",
		"\xff\xfe bad":                      "\ufffd\ufffd bad",
	} {
		got := titleOf(text)
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if n := utf8.RuneCountInString(got); n > maxTitle {
			t.Errorf("%q: %d characters", got, n)
		}
	}
}

// titler is a model whose titles come from a function.
type titler struct {
	*script
	title func(ctx context.Context, q model.Request) (string, error)
}

func (m *titler) Send(ctx context.Context, q model.Request) (*model.Response, error) {
	text, err := m.title(ctx, q)
	if err != nil {
		return nil, err
	}
	return &model.Response{Message: sessionlog.Message{Role: "assistant", Content: text}, Finish: "stop"}, nil
}

// titled sets [sessions] titles and makes title the model of crab.
func (r *rig) titled(titles string, title func(context.Context, model.Request) (string, error)) {
	r.check(r.setup.Load().Runner.Models.AddBackend("titler", 10_000, &titler{&script{r, "titler"}, title}))
	r.change(func(s *Setup) {
		s.Config.Sessions.Titles = titles
		crab := *s.Agents["crab"]
		crab.Model = "titler"
		s.Agents["crab"] = &crab
	})
}

// chat sends a message to a new session or, if l is not nil, to l.
func (r *rig) chat(l *Session, content string) (*Session, error) {
	if l == nil {
		var err error
		l, err = r.Resolve(r.t.Context(), &Request{NewChat: true, Content: content})
		r.check(err)
	}
	return l, r.Run(r.t.Context(), &Run{Session: l, Content: content, Sender: l.createdBy})
}

// write writes a session of another process, with lines after the meta line.
func (r *rig) write(id, lines string) {
	r.check(vfs.MkdirAll(r.fs, r.logs.Path(), 0o700))
	r.fs.WriteFile(r.logs.Path()+"/"+id+".jsonl", []byte(`{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00","title":"","uptime_secs":0}`+"\n"+lines), 0o600)
}

func noTitle(context.Context, model.Request) (string, error) {
	return "", errors.New("the model was asked for a title")
}

func (r *rig) wantTitle(l *Session, want string) {
	r.t.Helper()
	synctest.Wait()
	if l.Title() != want || l.log.Meta().Title != want {
		r.t.Errorf("title %q, in the file %q, want %q", l.Title(), l.log.Meta().Title, want)
	}
}

// TestFirstLineTitle titles sessions with their first message, without a request to
// the model and without a further write.
func TestFirstLineTitle(t *testing.T) {
	for titles, want := range map[string]string{"first-line": "which port?", "off": ""} {
		bubble(t, func(r *rig) {
			r.titled(titles, noTitle)
			l, err := r.chat(nil, "\n which  port?\nnow")
			r.check(err)
			r.wantTitle(l, want)
			if want != "" && !strings.HasSuffix(l.log.Path(), "/crab_user_1_which-port.jsonl") {
				t.Errorf("file %s", l.log.Path())
			}
			_, err = r.chat(l, "another line")
			r.check(err)
			r.wantTitle(l, want)
		})
	}
}

// TestTitleSyncs counts the syncs of the first message with and without a title.
func TestTitleSyncs(t *testing.T) {
	syncs := make(map[string]int)
	for _, titles := range []string{"first-line", "off"} {
		bubble(t, func(r *rig) {
			r.titled(titles, noTitle)
			f := func(c faultfs.Call) error {
				if strings.Contains(c.Op, "sync") {
					syncs[titles]++
				}
				return nil
			}
			r.fault.Store(&f)
			_, err := r.chat(nil, "which port?")
			r.mend()
			r.check(err)
		})
	}
	if syncs["off"] == 0 || syncs["first-line"] != syncs["off"] {
		t.Errorf("syncs %v", syncs)
	}
}

// TestTitleOfEmptySession titles a session that a process created and left without
// messages, and no other.
func TestTitleOfEmptySession(t *testing.T) {
	bubble(t, func(r *rig) {
		r.titled("first-line", noTitle)
		for _, c := range []struct{ id, lines, want string }{
			{"crab_user_7", "", "hello there"},
			{"crab_user_8", `{"role":"user","content":"hi"}` + "\n", ""},
			{"crab_user_10", `{"compact":"so far"}` + "\n", ""},
			{"crab_user_9", `{"meta":{"title":"mine","uptime_secs":0}}` + "\n", "mine"},
		} {
			r.write(c.id, c.lines)
			l, err := r.Open(r.t.Context(), c.id, "")
			r.check(err)
			_, err = r.chat(l, "hello there")
			r.check(err)
			r.wantTitle(l, c.want)
		}
	})
	bubble(t, func(r *rig) {
		r.titled("model", func(context.Context, model.Request) (string, error) { return "Ports", nil })
		r.write("crab_user_7", "")
		l, err := r.Open(r.t.Context(), "crab_user_7", "")
		r.check(err)
		_, err = r.chat(l, "which port?")
		r.check(err)
		r.wantTitle(l, "Ports")
	})
}

// TestModelTitle replaces the first line with the model's title after the first
// turn with an answer. It requests one title per session.
func TestModelTitle(t *testing.T) {
	for text, want := range map[string]string{
		"Ports in use":                        "Ports in use",
		" \n**\"Ports in use\"**\nmore":       "Ports in use",
		"<think>hm\nso</think>\n\nPorts":      "Ports",
		"a\x1b]0;x\x07b\u202e" + "c":          "a ]0;x b c",
		strings.Repeat("many words ", 10_000): "many words many words many words many words many words many…",
		" \n\x00 ":                            "which port?",
		"":                                    "which port?",
	} {
		bubble(t, func(r *rig) {
			var asked []model.Request
			r.titled("model", func(_ context.Context, q model.Request) (string, error) {
				asked = append(asked, q)
				return text, nil
			})
			l, err := r.chat(nil, "fail no key")
			if err == nil || l.Title() != "fail no key" {
				t.Fatalf("the first turn: %v, title %q", err, l.Title())
			}
			synctest.Wait()
			if len(asked) > 0 {
				t.Error("a failed turn requested a title")
			}
			l, err = r.chat(nil, "which port?")
			r.check(err)
			r.wantTitle(l, want)
			_, err = r.chat(l, "and now?")
			r.check(err)
			r.wantTitle(l, want)
			if len(asked) != 1 || len(asked[0].Tools) > 0 || !asked[0].Once || asked[0].MaxTokens == 0 || asked[0].Timeout == 0 || agent.Size(asked[0].Messages) > 8<<10 {
				t.Errorf("requests %+v", asked)
			}
		})
	}
}

// TestModelTitleIsLate changes the title while the model writes another one.
func TestModelTitleIsLate(t *testing.T) {
	bubble(t, func(r *rig) {
		r.titled("model", func(ctx context.Context, _ model.Request) (string, error) {
			time.Sleep(10 * time.Second)
			return "late", nil
		})
		began := time.Now()
		l, err := r.chat(nil, "which port?")
		r.check(err)
		_, err = r.chat(l, "the next message")
		r.check(err)
		if took := time.Since(began); took != 0 {
			t.Errorf("the title delayed the turns by %v", took)
		}
		r.check(l.log.SetTitle("mine"))
		r.SetTitle(l.StoredID(), "mine")
		time.Sleep(time.Minute)
		r.wantTitle(l, "mine")
	})
}

// TestModelTitleEnds ends a request for a title: by its time limit, by Stop, and
// after the session was closed.
func TestModelTitleEnds(t *testing.T) {
	for _, how := range []string{"limit", "stop", "kill", "error"} {
		bubble(t, func(r *rig) {
			ended := time.Duration(-1)
			r.titled("model", func(ctx context.Context, _ model.Request) (string, error) {
				began := time.Now()
				switch how {
				case "error":
					return "", errors.New("no key")
				case "kill":
					time.Sleep(time.Second)
					return "late", nil
				}
				<-ctx.Done()
				ended = time.Since(began)
				return "", context.Cause(ctx)
			})
			l, err := r.chat(nil, "which port?")
			r.check(err)
			time.Sleep(time.Second / 2)
			switch how {
			case "stop":
				r.Stop(r.t.Context(), errors.New("stopping"))
				if ended != time.Second/2 {
					t.Errorf("Stop returned before the request: %v", ended)
				}
			case "kill":
				r.Kill(l)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if how == "limit" && ended != 30*time.Second {
				t.Errorf("the request lasted %v", ended)
			}
			r.wantTitle(l, "which port?")
		})
	}
}

// TestNoModelTitle runs what keeps its first line: a run for another sender, a task,
// and one with the model offline.
func TestNoModelTitle(t *testing.T) {
	bubble(t, func(r *rig) {
		r.titled("model", noTitle)
		l, err := r.Resolve(r.t.Context(), &Request{NewChat: true, Content: "/report"})
		r.check(err)
		r.check(r.Run(r.t.Context(), &Run{Session: l, Content: "/report", Sender: "cron"}))
		r.wantTitle(l, "/report")

		r.change(func(s *Setup) {
			s.Agents["helper"] = &agent.Agent{Name: "helper", Model: "titler", MaxIterations: 1, Scope: tool.Unbounded()}
		})
		_, err = r.chat(nil, `call delegate {"tasks":[{"agent":"helper","message":"count\nall"}]}|done`)
		r.check(err)
		synctest.Wait()
		infos, err := r.logs.List()
		r.check(err)
		if i := slices.IndexFunc(infos, func(i sessionlog.Info) bool { return i.Meta.Agent == "helper" }); i < 0 || infos[i].Meta.Title != "count" {
			t.Errorf("sessions %+v", infos)
		}

		r.check(r.setup.Load().Runner.Models.AddBackend(config.Offline, 10_000, &titler{&script{r, config.Offline}, noTitle}))
		l, err = r.Resolve(r.t.Context(), &Request{NewChat: true, Content: "which port?"})
		r.check(err)
		r.check(r.Run(r.t.Context(), &Run{Session: l, Content: "which port?", Sender: "user", Model: config.Offline}))
		r.wantTitle(l, "which port?")
		for _, note := range r.notes {
			if strings.Contains(note, "asked for a title") && !strings.Contains(note, "crab_user_2") {
				t.Error(note)
			}
		}
	})
}

// TestRefusedMessageLeavesNoSession fails requests before their first message is in
// the session.
func TestRefusedMessageLeavesNoSession(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		left    int
	}{
		"removed agent":  {"hello", 0},
		"failed request": {"fail no key", 1},
		"too long":       {strings.Repeat("x", 65<<20), 0},
	} {
		bubble(t, func(r *rig) {
			r.titled("first-line", noTitle)
			l, err := r.Resolve(r.t.Context(), &Request{NewChat: true, Content: c.content})
			r.check(err)
			if name == "removed agent" {
				r.change(func(s *Setup) { delete(s.Agents, "crab") })
			}
			if _, err := r.chat(l, c.content); err == nil {
				t.Fatalf("%s: no error", name)
			}
			infos, err := r.logs.List()
			r.check(err)
			if len(infos) != c.left {
				t.Errorf("%s: %d sessions left: %+v", name, len(infos), infos)
			}
			if _, err := r.Get(l.ID()); (err == nil) != (c.left == 1) {
				t.Errorf("%s: get: %v", name, err)
			}
		})
	}
}

// TestRefusedMessageKeepsSession fails a request in a session that has messages, or
// that another process created, or for which another request waits.
func TestRefusedMessageKeepsSession(t *testing.T) {
	bubble(t, func(r *rig) {
		r.write("crab_user_7", "")
		empty, err := r.Open(r.t.Context(), "crab_user_7", "")
		r.check(err)
		used, err := r.chat(nil, "hello")
		r.check(err)
		r.check(used.log.Sync())
		waited, err := r.Resolve(r.t.Context(), &Request{NewChat: true})
		r.check(err)
		agents := r.setup.Load().Agents
		r.change(func(s *Setup) { delete(s.Agents, "crab") })
		for _, l := range []*Session{empty, used} {
			if _, err := r.chat(l, "again"); err == nil {
				t.Fatal("no error")
			}
		}
		waited.waiting.Add(1) // as a request does before it acquires the slot
		if _, err := r.chat(waited, "again"); err == nil {
			t.Fatal("no error")
		}
		waited.waiting.Add(-1)
		r.change(func(s *Setup) { s.Agents = agents })
		for _, l := range []*Session{empty, used, waited} {
			if _, err := r.chat(l, "again"); err != nil {
				t.Errorf("%s: %v", l.StoredID(), err)
			}
		}
	})
}

// TestFullDiskLeavesNoSession refuses the write of the first message.
func TestFullDiskLeavesNoSession(t *testing.T) {
	bubble(t, func(r *rig) {
		l, err := r.Resolve(r.t.Context(), &Request{NewChat: true})
		r.check(err)
		r.full()
		_, err = r.chat(l, "hello")
		r.mend()
		if !errors.Is(err, sessionlog.ErrNotApplied) {
			t.Fatal(err)
		}
		if infos, err := r.logs.List(); err != nil || len(infos) != 0 {
			t.Errorf("sessions %+v, %v", infos, err)
		}
		l, err = r.Resolve(r.t.Context(), &Request{})
		r.check(err)
		if _, err = r.chat(l, "hello"); err != nil || l.StoredID() != "crab_user_1" {
			t.Errorf("%s: %v", l.StoredID(), err)
		}
	})
}

// full makes the writes of session files fail until mend.
func (r *rig) full() {
	f := func(c faultfs.Call) error {
		if c.Op == "write" && strings.HasSuffix(c.Name, ".jsonl") {
			return syscall.ENOSPC
		}
		return nil
	}
	r.fault.Store(&f)
}
