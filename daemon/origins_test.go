package daemon

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/space"
	"crabmem/daemon/wire/pb"
)

// private is a text that no remote sender may read without configuration.
const private = "the-combination-is-4711"

// contents returns the files of a home by name, without those of sessions and of
// locks.
func contents(t *testing.T, home string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(home, path)
		if err != nil || e.Type() != 0 || strings.HasPrefix(name, "sessions") || strings.HasPrefix(name, "run") {
			return err
		}
		b, err := os.ReadFile(path)
		files[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// logged is a log that a test reads while the daemon writes.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// privateHome serves a home with a private text in its memory, a session, a skill, a
// file, and an agent.
func privateHome(t *testing.T, m *modeltest.Server, rules string) (*served, *logged, string) {
	t.Helper()
	h := home(t)
	work := t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(h, "skills", "feeds", "SKILL.md"): "---\nname: feeds\ndescription: reads feeds\n---\n" + private + "\n",
		filepath.Join(work, "file.txt"):                 private + "\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log := new(logged)
	m.Queue(modeltest.Say("I heard " + private))
	s := serve(t, h, scripted(m)+"[agents.bet]\nprompt = \"x\"\n[tools.bash]\napprove = \"off\"\n"+rules, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(log, nil))
	})
	if _, err := s.store.Remember("safe", private, []string{"vault"}); err != nil {
		t.Fatal(err)
	}
	if r := s.one(send(&pb.SendMsg{Content: "remember " + private})).GetResponse(); !strings.Contains(r.GetContent(), private) {
		t.Fatal(r)
	}
	return s, log, work
}

// TestUnconfiguredSender calls each tool in a run of a sender of another service
// without a rule, in a new session, in a session of the user, and after a summary.
// The model must not see the tool, the call must be a logged violation, no private
// text may reach the model, and no file may change.
func TestUnconfiguredSender(t *testing.T) {
	for name, args := range map[string]string{
		"recall":         `{"query":"safe combination","names":["safe"]}`,
		"remember":       `{"name":"safe","content":"changed"}`,
		"forget":         `{"name":"safe"}`,
		"session_search": `{"query":"heard combination"}`,
		"delegate":       `{"tasks":[{"agent":"bet","message":"recall safe"}]}`,
		"mcp":            `{"server":"search"}`,
		"skill":          `{"name":"feeds"}`,
		"bash":           `{"command":"cat file.txt; echo changed > file.txt"}`,
		"read":           `{"path":"file.txt"}`,
		"edit":           `{"path":"file.txt","old":"the","new":"changed"}`,
	} {
		t.Run(name, func(t *testing.T) {
			m := modeltest.New(t)
			s, log, work := privateHome(t, m, "")
			before := contents(t, s.home)
			sender := "tg:7"
			first := len(m.Requests())
			m.Queue(modeltest.Call(name, args), modeltest.Say("one"))
			r := s.one(send(&pb.SendMsg{Content: "hi", Sender: &sender, Cwd: &work})).GetResponse()
			if r.GetContent() != "one" {
				t.Fatal(r)
			}
			m.Queue(modeltest.Say("they met"), modeltest.Call(name, args), modeltest.Say("two"))
			s.compact(r.Session)
			if r := s.one(send(&pb.SendMsg{Content: "hi", Sender: &sender})).GetResponse(); r.GetContent() != "two" {
				t.Fatal(r)
			}
			m.Queue(modeltest.Call(name, args), modeltest.Say("three"))
			if r := s.one(send(&pb.SendMsg{Content: "hi", Session: &r.Session})).GetResponse(); r.GetContent() != "three" {
				t.Fatal(r)
			}
			for _, q := range m.Requests()[first:] {
				if q.Stream && !slices.Equal(q.Tools, []string{"ask_user"}) {
					t.Errorf("the model sees %q", q.Tools)
				}
				if text := fmt.Sprint(q.Messages); strings.Contains(text, private) || strings.Contains(text, "reads feeds") {
					t.Errorf("the model reads %s", text)
				}
			}
			if n := strings.Count(log.String(), "security=true"); n != 3 {
				t.Errorf("%d violations are logged, want 3:\n%s", n, log)
			}
			delete(before, "archived/crab_tg-7_1")
			after := contents(t, s.home)
			delete(after, "archived/crab_tg-7_1") // of the summary: without a space
			if !maps.Equal(before, after) {
				t.Errorf("files changed: %q, want %q", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
			}
			if b, err := os.ReadFile(filepath.Join(work, "file.txt")); string(b) != private+"\n" {
				t.Errorf("the file has %q, %v", b, err)
			}
		})
	}
}

// TestUnconfiguredSenderInSessionOfUser sends a message to a session of the user.
func TestUnconfiguredSenderInSessionOfUser(t *testing.T) {
	m := modeltest.New(t)
	s, log, _ := privateHome(t, m, "")
	before := contents(t, s.home)
	sender, id := "tg:7", s.list()[0].Number
	for _, content := range []string{"/feeds", "hi"} {
		m.Queue(modeltest.Call("recall", `{"query":"combination"}`), modeltest.Say("yes"))
		if r := s.one(send(&pb.SendMsg{Content: content, Sender: &sender, Session: &id})).GetResponse(); r.GetContent() != "yes" {
			t.Fatal(r)
		}
	}
	if n := strings.Count(log.String(), "security=true"); n != 3 {
		t.Errorf("%d violations are logged, want 3:\n%s", n, log)
	}
	if after := contents(t, s.home); !maps.Equal(before, after) {
		t.Errorf("files changed: %q", slices.Sorted(maps.Keys(after)))
	}
	// The user's own messages have all tools again.
	m.Queue(modeltest.Call("recall", `{"query":"combination"}`), modeltest.Say("yes"))
	s.one(send(&pb.SendMsg{Content: "hi", Session: &id}))
	if qs := m.Requests(); !strings.Contains(fmt.Sprint(qs[len(qs)-1].Messages), "full text of") && !strings.Contains(fmt.Sprint(qs[len(qs)-1].Messages), "(note of") {
		t.Errorf("the user's message finds no memory: %v", qs[len(qs)-1].Messages)
	}
}

// TestUnconfiguredSenderOffline asks the model offline, which answers from memory.
func TestUnconfiguredSenderOffline(t *testing.T) {
	s := serve(t, home(t), "")
	if _, err := s.store.Remember("safe", private, nil); err != nil {
		t.Fatal(err)
	}
	for sender, want := range map[string]bool{"user": true, "tg:7": false} {
		r := s.one(send(&pb.SendMsg{Content: "what is the combination?", Sender: &sender})).GetResponse()
		if got := strings.Contains(r.GetContent(), private); got != want {
			t.Errorf("%s: %q", sender, r.GetContent())
		}
	}
}

// TestSummaryOfRemoteSession checks that summaries of sessions of untrusted
// identities stay in the session, also after a restart.
func TestSummaryOfRemoteSession(t *testing.T) {
	m := modeltest.New(t, modeltest.Say("hello"), modeltest.Say("they spoke of walruses"))
	s := serve(t, home(t), scripted(m))
	sender := "tg:7"
	r := s.one(send(&pb.SendMsg{Content: "hi", Sender: &sender})).GetResponse()
	if c, err := s.compact(r.GetSession()); err != nil || c.Archive != "" || c.Summary != "they spoke of walruses" {
		t.Errorf("compacted: %v", c)
	}
	s.stop()
	m.Queue(modeltest.Say("yes"))
	s = serve(t, s.home, "")
	s.one(send(&pb.SendMsg{Content: "hi", Sender: &sender}))
	if a := s.archives(); a != "" {
		t.Errorf("archives: %s", a)
	}
	if n := s.store.Stats().Entries; n != 0 {
		t.Errorf("%d entries", n)
	}
}

// TestSearchOfSameTrust searches sessions of the user and of two remote senders. A
// run finds only those of its own trust.
func TestSearchOfSameTrust(t *testing.T) {
	m := modeltest.New(t)
	s := serve(t, home(t), scripted(m)+"[origins.\"tg:\"]\ntrust = \"trusted\"\nallow = [\"delegate\"]\n[origins.\"api:ci\"]\ntrust = \"admin\"\n")
	senders := []string{"user", "tg:7", "tg:8", "slack:1", "api:ci"}
	for _, by := range senders {
		m.Queue(modeltest.Say("ok"))
		s.one(send(&pb.SendMsg{Content: "walrus of " + strings.ReplaceAll(by, ":", "-"), Sender: &by, NewChat: true}))
	}
	for by, want := range map[string]string{"user": "user api-ci", "api:ci": "user api-ci", "tg:7": "tg-7", "tg:8": "tg-8", "slack:1": ""} {
		m.Queue(modeltest.Call("session_search", `{"query":"walrus","limit":20}`), modeltest.Say("ok"))
		s.one(send(&pb.SendMsg{Content: "search", Sender: &by}))
		qs := m.Requests()
		last := qs[len(qs)-1].Messages
		got := last[len(last)-1].Content
		for _, of := range senders {
			of = strings.ReplaceAll(of, ":", "-")
			if found := strings.Contains(got, "walrus of "+of); found != slices.Contains(strings.Fields(want), of) {
				t.Errorf("%s: found that of %s: %v\n%s", by, of, found, got)
			}
		}
	}
}

// TestTrustedSenderHasNoMain checks that a trusted sender does not share the space
// main unless the configuration says so.
func TestTrustedSenderHasNoMain(t *testing.T) {
	for rule, want := range map[string]bool{"": false, "space = \"main\"\n": true} {
		m := modeltest.New(t)
		s, _, _ := privateHome(t, m, "[origins.\"tg:\"]\ntrust = \"trusted\"\n"+rule)
		sender := "tg:7"
		m.Queue(modeltest.Call("recall", `{"query":"combination"}`), modeltest.Call("recall", `{"names":["safe"]}`),
			modeltest.Call("forget", `{"name":"safe"}`), modeltest.Say("ok"))
		s.one(send(&pb.SendMsg{Content: "hi", Sender: &sender}))
		qs := m.Requests()
		if got := strings.Count(fmt.Sprint(qs[len(qs)-1].Messages), private); (got == 2) != want || !want && got > 0 {
			t.Errorf("%q: the model reads the memory %d times", rule, got)
		}
		err := s.inSpace(space.Main, func(st *crmem.Store) error { _, err := st.Get("safe"); return err })
		if (err != nil) != want {
			t.Errorf("%q: after forget: %v", rule, err)
		}
	}
}

// TestQuestionsToUntrustedSenders checks that questions to an untrusted sender have
// no options.
func TestQuestionsToUntrustedSenders(t *testing.T) {
	m := modeltest.New(t)
	s := serve(t, home(t), scripted(m)+"[origins.\"tg:\"]\ntrust = \"trusted\"\n")
	for sender, want := range map[string]int{"user": 1, "tg:7": 1, "slack:1": 0} {
		m.Queue(modeltest.Call("ask_user", `{"questions":[{"question":"Which?","header":"which","options":[{"label":"a","description":"b"}],"multi_select":true}]}`), modeltest.Say("ok"))
		f := s.begin(&pb.StreamMsg{Content: "hi", Sender: &sender})
		id := f.start().Session
		q := f.until(func(e *pb.StreamEvent) bool { return e.GetAskUser() != nil }).GetAskUser().Questions
		if len(q) != 1 || q[0].Question != "Which?" || len(q[0].Options) != want || q[0].MultiSelect != (want > 0) {
			t.Errorf("%s: asked %v", sender, q)
		}
		s.one(&pb.ClientMessage{Msg: &pb.ClientMessage_ReplyToAsk{ReplyToAsk: &pb.ReplyToAsk{Session: id, Content: "a"}}})
		f.end()
	}
}
