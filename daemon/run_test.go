package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
	"crabmem/daemon/wire"
	"crabmem/daemon/wire/pb"
)

// following is a stream that is read as it comes.
type following struct {
	t *testing.T
	c *wire.Conn
}

func (s *served) begin(m *pb.StreamMsg) *following {
	s.t.Helper()
	c := s.dial()
	s.t.Cleanup(func() { c.Close() })
	if err := c.Write(stream(m)); err != nil {
		s.t.Fatal(err)
	}
	return &following{s.t, c}
}

// until returns the first event that fits.
func (f *following) until(fits func(*pb.StreamEvent) bool) *pb.StreamEvent {
	f.t.Helper()
	for {
		m := &pb.ServerMessage{}
		if err := f.c.Read(m); err != nil {
			f.t.Fatal(err)
		}
		if e := m.GetStream(); e == nil {
			f.t.Fatalf("not an event: %v", m)
		} else if fits(e) {
			return e
		} else if e.GetEnd() != nil {
			f.t.Fatalf("ended: %v", e)
		}
	}
}

func (f *following) start() *pb.StreamStart {
	return f.until(func(e *pb.StreamEvent) bool { return e.GetStart() != nil }).GetStart()
}

func (f *following) chunk(text string) {
	f.until(func(e *pb.StreamEvent) bool { return e.GetChunk().GetContent() == text })
}

func (f *following) end() string {
	return f.until(func(e *pb.StreamEvent) bool { return e.GetEnd() != nil }).GetEnd().Error
}

func (s *served) list() []op.Session {
	s.t.Helper()
	list, err := op.ListLoaded.Do(s.t.Context(), s.client(), op.None{})
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

func (s *served) cancelRun(id uint64) {
	s.t.Helper()
	if r := s.one(callMessage(s.t, "runs.cancel", op.SessionNumber{Number: id})); len(r.GetResult().GetBody()) == 0 {
		s.t.Fatal(r)
	}
}

// lines returns the message lines of a session's file.
func (s *served) lines(id string) []string {
	s.t.Helper()
	names, err := filepath.Glob(filepath.Join(s.home, "sessions", id+"*.jsonl"))
	if err != nil || len(names) != 1 {
		s.t.Fatalf("session %s: %v, %v", id, names, err)
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		s.t.Fatal(err)
	}
	var lines []string
	for _, l := range strings.Split(strings.TrimSpace(string(b)), "\n")[1:] {
		var m struct {
			Role, Content, Compact string
			Calls                  []any `json:"tool_calls"`
		}
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			s.t.Fatalf("line %s: %v", l, err)
		}
		switch {
		case m.Role != "":
			lines = append(lines, m.Role+strings.Repeat("+", len(m.Calls))+" "+m.Content)
		case m.Compact != "":
			lines = append(lines, "compact "+m.Compact)
		}
	}
	return lines
}

func TestListingWaitsForNoRun(t *testing.T) {
	m := modeltest.New(t, modeltest.Reply{}.Text("one ").Stall(0), modeltest.Say("two"))
	s := serve(t, home(t), scripted(m))
	f := s.begin(&pb.StreamMsg{Content: "hi"})
	id := f.start().Session
	f.chunk("one ")
	list := s.list()
	if len(list) != 1 || !list[0].Active || list[0].Number != id {
		t.Fatalf("sessions: %v", list)
	}
	// The next run of the session waits and receives an event.
	second := s.begin(&pb.StreamMsg{Content: "and?", Session: &id})
	if second.start().Session != id {
		t.Error("another session")
	}
	gate.Until(t, "the second waits", func() bool { return s.list()[0].Waiting == 1 })
	s.cancelRun(id)
	if e := f.end(); e != session.ErrCancelled.Error() {
		t.Errorf("cancelled: %q", e)
	}
	if e := second.end(); e != "" {
		t.Errorf("the second: %q", e)
	}
	if got := strings.Join(s.lines("crab_user_1"), "|"); got != "user hi|assistant one |user and?|assistant two" {
		t.Errorf("the file has %s", got)
	}
}

func TestQueueIsFair(t *testing.T) {
	m := modeltest.New(t)
	m.Func(func(r modeltest.Request) modeltest.Reply {
		return modeltest.Reply{}.Text("to " + r.LastUser()).Stall(5 * time.Millisecond)
	})
	s := serve(t, home(t), scripted(m))
	m.Queue(modeltest.Reply{}.Text("to 0").Stall(0))
	f := s.begin(&pb.StreamMsg{Content: "0"})
	id := f.start().Session
	f.chunk("to 0")
	m.Func(func(r modeltest.Request) modeltest.Reply { return modeltest.Say("to " + r.LastUser()) })
	var all []*following
	for i := 1; i <= 8; i++ {
		g := s.begin(&pb.StreamMsg{Content: fmt.Sprint(i), Session: &id})
		g.start()
		all = append(all, g)
		gate.Until(t, "it waits", func() bool { return s.list()[0].Waiting == i })
	}
	m.Release()
	f.end()
	for _, g := range all {
		g.end()
	}
	var want []string
	for i := range 9 {
		want = append(want, fmt.Sprintf("user %d", i), fmt.Sprintf("assistant to %d", i))
	}
	if got := s.lines("crab_user_1"); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("the file has %v", got)
	}
}

// TestHangUp checks that after a disconnect the file has the messages so far, a
// call without a result gets one, and the session is idle.
func TestHangUp(t *testing.T) {
	m := modeltest.New(t, modeltest.Reply{}.Text("half ").Stall(0),
		modeltest.Call("ask_user", `{"questions":[{"question":"Which?","header":"which","options":[]}]}`), modeltest.Say("fine"))
	s := serve(t, home(t), scripted(m))
	f := s.begin(&pb.StreamMsg{Content: "one"})
	id := f.start().Session
	f.chunk("half ")
	f.c.Close()
	gate.Until(t, "it is idle", func() bool { return !s.list()[0].Active })
	f = s.begin(&pb.StreamMsg{Content: "two", Session: &id})
	f.until(func(e *pb.StreamEvent) bool { return e.GetAskUser() != nil })
	f.c.Close()
	gate.Until(t, "it is idle", func() bool { return !s.list()[0].Active })
	got := s.lines("crab_user_1")
	if len(got) != 5 || got[1] != "assistant half " || got[3] != "assistant+ " || !strings.HasPrefix(got[4], "tool ask_user cancelled") {
		t.Errorf("the file has %q", got)
	}
	if r := s.one(send(&pb.SendMsg{Content: "three", Session: &id})).GetResponse(); r.GetContent() != "fine" {
		t.Errorf("afterwards: %v", r)
	}
}

func TestKill(t *testing.T) {
	m := modeltest.New(t, modeltest.Reply{}.Text("half ").Stall(0), modeltest.Say("again"))
	s := serve(t, home(t), scripted(m))
	f := s.begin(&pb.StreamMsg{Content: "one"})
	id := f.start().Session
	f.chunk("half ")
	waits := s.begin(&pb.StreamMsg{Content: "never", Session: &id})
	waits.start()
	if r := s.one(&pb.ClientMessage{Msg: &pb.ClientMessage_Kill{Kill: &pb.KillMsg{Session: id}}}); r.GetPong() == nil {
		t.Fatal(r)
	}
	if e := f.end(); e != session.ErrKilled.Error() {
		t.Errorf("the run: %q", e)
	}
	if e := waits.end(); e != session.ErrKilled.Error() {
		t.Errorf("the one that waited: %q", e)
	}
	if len(s.list()) != 0 {
		t.Error("it is in the list")
	}
	// The file stays, and is found again.
	r := s.one(send(&pb.SendMsg{Content: "two"})).GetResponse()
	if s.stored(r.GetSession()) != "crab_user_1" || r.Session == id {
		t.Errorf("afterwards: %v", r)
	}
}

func TestAskUser(t *testing.T) {
	ask := modeltest.Call("ask_user", `{"questions":[{"question":"Which?","header":"which","options":[{"label":"a","description":"the first"}],"multi_select":true}]}`)
	m := modeltest.New(t, ask, modeltest.Say("done"), ask, modeltest.Say("well"), ask, modeltest.Say("late"))
	s := serve(t, home(t), scripted(m)+"[tools.ask_user]\ntimeout = 1\n")
	f := s.begin(&pb.StreamMsg{Content: "hi"})
	id := f.start().Session
	q := f.until(func(e *pb.StreamEvent) bool { return e.GetAskUser() != nil }).GetAskUser().Questions
	if len(q) != 1 || q[0].Question != "Which?" || q[0].Options[0].Description != "the first" || !q[0].MultiSelect {
		t.Errorf("asked %v", q)
	}
	if !s.list()[0].Asking {
		t.Error("the list does not say that it asks")
	}
	// A reload leaves the question, the session and the directory.
	if r := s.one(&pb.ClientMessage{Msg: &pb.ClientMessage_Reload{Reload: &pb.ReloadMsg{}}}); r.GetPong() == nil {
		t.Fatal(r)
	}
	reply := &pb.ClientMessage{Msg: &pb.ClientMessage_ReplyToAsk{ReplyToAsk: &pb.ReplyToAsk{Session: id, Content: `{"Which?":"a"}`}}}
	if r := s.one(reply); r.GetPong() == nil {
		t.Fatal(r)
	}
	if r := f.until(func(e *pb.StreamEvent) bool { return e.GetToolResult() != nil }).GetToolResult(); r.Output != `{"Which?":"a"}` {
		t.Errorf("the result is %v", r)
	}
	f.end()
	if e := s.one(reply).GetError(); e.GetCode() != 404 {
		t.Errorf("a reply without a question: %v", e)
	}
	// Without a stream no client can answer.
	s.one(send(&pb.SendMsg{Content: "hi", Session: &id}))
	if got := s.lines("crab_user_1"); got[6] != "tool ask_user is only available in streaming mode" {
		t.Errorf("the file has %q", got)
	}
	f = s.begin(&pb.StreamMsg{Content: "hi", Session: &id})
	if r := f.until(func(e *pb.StreamEvent) bool { return e.GetToolResult() != nil }).GetToolResult(); r.Output != "ask_user timed out after 1s: no reply received for: which" {
		t.Errorf("the result is %v", r)
	}
	f.end()
}

const members = `
[system.tasks]
task_timeout = 20
`

func TestDelegate(t *testing.T) {
	m := modeltest.New(t)
	m.Func(func(r modeltest.Request) modeltest.Reply {
		last := r.Messages[len(r.Messages)-1]
		switch {
		case strings.Contains(last.Content, "split it"):
			return modeltest.Call("delegate", `{"tasks":[{"agent":"writer","message":"task one"},{"agent":"writer","message":"task two"},{"agent":"nobody","message":"x"}]}`)
		case strings.Contains(last.Content, "go deeper"):
			return modeltest.Call("delegate", `{"tasks":[{"agent":"crab","message":"go deeper"}]}`)
		case last.Role == "tool":
			return modeltest.Say("so: " + last.Content)
		}
		return modeltest.Say("done with " + r.LastUser())
	})
	dir := home(t)
	if err := os.MkdirAll(filepath.Join(dir, "agents"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "agents", "writer.md"), []byte("---\ndescription: writes\nmembers: [crab]\n---\nYou write."), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir, scripted(m)+members)
	r := s.one(send(&pb.SendMsg{Content: "split it"})).GetResponse()
	want := `so: [{"agent":"writer","error":null,"result":"done with task one"},{"agent":"writer","error":null,"result":"done with task two"},{"agent":"nobody","error":"agent 'nobody' not registered","result":null}]`
	if r.GetContent() != want {
		t.Errorf("answered %s", r.GetContent())
	}
	if n := len(s.list()); n != 1 {
		t.Errorf("%d sessions are left", n)
	}
	// Two that are made at once may leave a number out.
	files, err := filepath.Glob(filepath.Join(dir, "sessions", "writer_delegate-crab_*.jsonl"))
	if err != nil || len(files) != 2 {
		t.Fatalf("the tasks have the sessions %q, %v", files, err)
	}
	for _, file := range files {
		id := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		if got := s.lines(id); len(got) != 2 {
			t.Errorf("%s has %q", id, got)
		}
	}
	// The delegating session is not locked, and the depth is limited.
	deep := s.one(send(&pb.SendMsg{Content: "go deeper"})).GetResponse()
	if !strings.Contains(deep.GetContent(), "delegation depth is 3") {
		t.Errorf("answered %s", deep.GetContent())
	}
}

// TestAgentKeepsItsModel switches the active model. An agent keeps the model that
// it sets, also if this is the one that was active before.
func TestAgentKeepsItsModel(t *testing.T) {
	m := modeltest.New(t)
	m.Func(func(r modeltest.Request) modeltest.Reply { return modeltest.Say(r.Model) })
	dir := home(t)
	for name, model := range map[string]string{"owner": "model: script\n", "other": ""} {
		if err := os.MkdirAll(filepath.Join(dir, "agents"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "agents", name+".md"), []byte("---\ndescription: writes\n"+model+"---\nYou write."), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, dir, strings.Replace(scripted(m), `models = ["script"]`, `models = ["script", "second"]`, 1))
	if _, err := op.SwitchModel.Do(t.Context(), s.client(), op.ModelName{Name: "second"}); err != nil {
		t.Fatal(err)
	}
	for agent, want := range map[string]string{"crab": "second", "other": "second", "owner": "script"} {
		if got := s.one(send(&pb.SendMsg{Content: "go", Agent: agent})).GetResponse().GetContent(); got != want {
			t.Errorf("%s runs with the model %q, want %q", agent, got, want)
		}
	}
}

// TestDelegateIsBounded checks that tasks that delegate further tasks do not
// exceed the limit of active tasks.
func TestDelegateIsBounded(t *testing.T) {
	const maxTasks, concurrent, width = 64, 30, 8
	m := modeltest.New(t)
	var s *served
	var mu sync.Mutex // guards what follows
	var most, refused int
	var stuck bool
	changed := sync.NewCond(&mu)
	defer time.AfterFunc(gate.Hang, func() {
		mu.Lock()
		defer mu.Unlock()
		stuck = true
		changed.Broadcast()
	}).Stop()
	m.Func(func(r modeltest.Request) modeltest.Reply {
		mu.Lock()
		defer mu.Unlock()
		defer changed.Broadcast()
		most = max(most, len(s.loaded.List()))
		last := r.Messages[len(r.Messages)-1]
		if last.Role == "tool" {
			for _, m := range r.Messages {
				if strings.Contains(m.Content, "tasks are active") {
					refused++
				}
			}
			return modeltest.Say("enough")
		}
		// The eight tasks wait for each other. Their tasks wait for a refusal and for
		// enough others, so that all of them are active first.
		next, done := "first", func() bool { return true }
		switch {
		case strings.Contains(last.Content, "first"):
			next, done = "second", func() bool { return most >= 1+width }
		case strings.Contains(last.Content, "second"):
			done = func() bool { return most >= concurrent && refused > 0 }
		}
		for changed.Broadcast(); !done() && !stuck; changed.Wait() {
		}
		tasks := strings.TrimSuffix(strings.Repeat(`{"agent":"crab","message":"`+next+`"},`, width), ",")
		return modeltest.Call("delegate", `{"tasks":[`+tasks+`]}`)
	})
	s = serve(t, home(t), scripted(m)+"[tools.delegate]\nmax_depth = 2\n[system.tasks]\nmax_concurrent = 8\n")
	if r := s.one(send(&pb.SendMsg{Content: "go"})).GetResponse(); r.GetContent() != "enough" {
		t.Fatalf("answered %v", r)
	}
	if most > maxTasks+1 || most < concurrent || refused == 0 {
		t.Errorf("%d sessions at one time, %d calls refused", most, refused)
	}
	// The limit permits new tasks after the others end.
	refused = 0
	if r := s.one(send(&pb.SendMsg{Content: "go", NewChat: true})).GetResponse(); r.GetContent() != "enough" {
		t.Errorf("answered %v", r)
	}
}

func TestNewAndResume(t *testing.T) {
	m := modeltest.New(t)
	m.Func(func(r modeltest.Request) modeltest.Reply { return modeltest.Say(fmt.Sprint(len(r.Messages))) })
	s := serve(t, home(t), scripted(m))
	ask := func(m *pb.SendMsg) *pb.SendResponse {
		t.Helper()
		r := s.one(send(m))
		if r.GetResponse() == nil {
			t.Fatal(r)
		}
		return r.GetResponse()
	}
	one := ask(&pb.SendMsg{Content: "a"})
	two := ask(&pb.SendMsg{Content: "b", NewChat: true})
	if s.stored(one.Session) != "crab_user_1" || s.stored(two.Session) != "crab_user_2" || one.Session == two.Session {
		t.Fatalf("%v, %v", one, two)
	}
	// A client that names no session continues its latest one.
	if r := ask(&pb.SendMsg{Content: "c"}); r.Session != two.Session {
		t.Errorf("continued in %v", r)
	}
	path := filepath.Join(s.home, "sessions", "crab_user_1.jsonl")
	for _, name := range []string{"crab_user_1", "crab_user_1.jsonl", path} {
		if r := ask(&pb.SendMsg{Content: "d", ResumeFile: &name}); r.Session != one.Session {
			t.Errorf("%s: another session, %v", name, r)
		}
	}
	for _, name := range []string{"/etc/passwd", "../memory.db", "../sessions/../config.toml", "", ".locks", filepath.Join(s.home, "config.toml")} {
		if e := s.one(send(&pb.SendMsg{Content: "d", ResumeFile: &name})).GetError(); e.GetCode() != 400 {
			t.Errorf("%q: %v", name, e)
		}
	}
	newest := s.stored(two.Session)
	// Another daemon finds the newest, and one by its name.
	s.stop()
	s = serve(t, s.home, "")
	if r := ask(&pb.SendMsg{Content: "e"}); s.stored(r.Session) != newest {
		t.Errorf("after a restart: %v", r)
	}
	name := "crab_user_1"
	r1, r2 := ask(&pb.SendMsg{Content: "f", ResumeFile: &name}), ask(&pb.SendMsg{Content: "g", ResumeFile: &name})
	if r1.Session != r2.Session || s.stored(r1.Session) != name {
		t.Errorf("resumed twice: %v, %v", r1, r2)
	}
	// Two senders with the same slug do not share a session.
	tg, other := "tg:1", "tg-1"
	if a, b := ask(&pb.SendMsg{Content: "mine", Sender: &tg}), ask(&pb.SendMsg{Content: "mine", Sender: &other}); s.stored(a.Session) == s.stored(b.Session) {
		t.Errorf("%v, %v", a, b)
	}
}

// TestRemote checks that a sender of another service gets only ask_user, also after
// a compaction.
func TestRemote(t *testing.T) {
	m := modeltest.New(t)
	m.Func(func(r modeltest.Request) modeltest.Reply {
		if r.Stream {
			return modeltest.Say(strings.Join(r.Tools, " "))
		}
		return modeltest.Say("a summary")
	})
	s := serve(t, home(t), scripted(m))
	sender := "tg:7"
	r := s.one(send(&pb.SendMsg{Content: "hi", Sender: &sender})).GetResponse()
	if r == nil || r.Content != "ask_user" {
		t.Fatalf("tools: %v", r)
	}
	if c, err := s.compact(r.Session); c.Summary != "a summary" {
		t.Fatal(c, err)
	}
	for _, m := range []*pb.SendMsg{{Content: "hi", Sender: &sender}, {Content: "hi", Session: &r.Session}} {
		if r := s.one(send(m)).GetResponse(); r == nil || r.Content != "ask_user" {
			t.Errorf("tools: %v", r)
		}
	}
}

// TestKeysAreHidden: a key that the configuration names is no file of an
// agent's, wherever it is; nor is one that a reload names.
func TestKeysAreHidden(t *testing.T) {
	m := modeltest.New(t)
	m.Func(func(r modeltest.Request) modeltest.Reply {
		if last := r.Messages[len(r.Messages)-1]; last.Role == "tool" {
			return modeltest.Say(last.Content)
		} else if name, ok := strings.CutPrefix(r.LastUser(), "read "); ok {
			return modeltest.Call("read", `{"path":"`+name+`"}`)
		}
		return modeltest.Say("?")
	})
	work := t.TempDir()
	for _, name := range []string{"provider", "server", "later", "other"} {
		if err := os.WriteFile(filepath.Join(work, name), []byte("sk-in-a-file"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := strings.Replace(scripted(m), `api_key = "sk-planted"`, `api_key_file = "`+filepath.Join(work, "provider")+`"`, 1) +
		"[mcps.a]\nurl = \"http://127.0.0.1:1/mcp\"\ntoken_file = \"" + filepath.Join(work, "server") + "\"\n"
	s := serve(t, home(t), config)
	shown := func(name string) bool {
		t.Helper()
		r := s.one(send(&pb.SendMsg{Content: "read " + name, Cwd: &work})).GetResponse()
		if r == nil {
			t.Fatalf("%s: no answer", name)
		}
		return strings.Contains(r.Content, "sk-in-a-file")
	}
	if shown("provider") || shown("server") {
		t.Error("a key is shown")
	}
	if !shown("later") || !shown("other") {
		t.Error("a value that is not a key is hidden")
	}
	config += "[tcp]\ntoken_file = \"" + filepath.Join(work, "later") + "\"\n"
	if err := os.WriteFile(filepath.Join(s.home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if shown("later") || !shown("other") {
		t.Error("a reload hides the wrong files")
	}
}

// TestArchive: a summary is in the store, and is found there after a restart.
func TestArchive(t *testing.T) {
	m := modeltest.New(t, modeltest.Say("hello"), modeltest.Say("they spoke of walruses"))
	s := serve(t, home(t), scripted(m))
	r := s.one(send(&pb.SendMsg{Content: "hi"})).GetResponse()
	c, err := s.compact(r.Session)
	if err != nil || c.Archive != "crab_user_1-1" || c.Summary != "they spoke of walruses" {
		t.Fatalf("compacted: %v, %v", c, err)
	}
	e, err := s.store.Get("crab_user_1-1")
	if err != nil || e.Kind != crmem.Archive || e.Content != c.Summary || strings.Join(e.Aliases, " ") != "crab user" {
		t.Errorf("the entry is %+v, %v", e, err)
	}
	s.stop()
	m.Queue(modeltest.Call("recall", `{"query":"walruses"}`), modeltest.Say("yes"))
	s = serve(t, s.home, "")
	if r := s.one(send(&pb.SendMsg{Content: "hi"})).GetResponse(); r.GetContent() != "yes" {
		t.Fatal(r)
	}
	lines := s.lines("crab_user_1")
	if last := lines[len(lines)-2]; !strings.Contains(last, "## crab_user_1-1") || !strings.Contains(last, "they spoke of walruses") {
		t.Errorf("recall gave %q", last)
	}
}

// TestHandOff is RFC 0078's: a summary of one session goes to another agent,
// and the session does not change.
func TestHandOff(t *testing.T) {
	m := modeltest.New(t, modeltest.Say("hello"), modeltest.Say("what was said"), modeltest.Say("I see"))
	s := serve(t, home(t), scripted(m))
	a := s.one(send(&pb.SendMsg{Content: "hi"})).GetResponse()
	summary := s.one(&pb.ClientMessage{Msg: &pb.ClientMessage_Compact{Compact: &pb.CompactMsg{Session: a.Session}}}).GetCompact().GetSummary()
	if summary != "what was said" {
		t.Fatalf("summary %q", summary)
	}
	b := s.one(send(&pb.SendMsg{Content: summary + "\n\nand now?", NewChat: true})).GetResponse()
	if b.GetContent() != "I see" || b.Session == a.Session {
		t.Fatal(b)
	}
	if got := strings.Join(s.lines(s.stored(a.Session)), "|"); got != "user hi|assistant hello" || s.store.Len() != 0 {
		t.Errorf("it changed the session: %s", got)
	}
	for _, id := range []uint64{77, b.Session} {
		if e := s.one(&pb.ClientMessage{Msg: &pb.ClientMessage_Compact{Compact: &pb.CompactMsg{Session: id}}}).GetError(); e.GetCode() != 500 {
			t.Errorf("session %d: %v", id, e)
		}
	}
}

// TestNoTools checks that the requests of an agent without tools have no field for
// tools, which some models refuse, and that the fix of a refusal names the setting.
func TestNoTools(t *testing.T) {
	m := modeltest.New(t, modeltest.Status(400, "gemma does not support tools"), modeltest.Say("yes"))
	refused := serve(t, home(t), scripted(m)).one(callMessage(t, "runs.send", op.Message{Content: "hi"}))
	if e := failure(t, refused); !strings.Contains(e.Remedy, "tools = []") || e.Kind != "model_tools" {
		t.Errorf("with tools: %+v", e)
	}
	s := serve(t, home(t), strings.Replace(scripted(m), "[system.crab]\n", "[system.crab]\ntools = []\n", 1))
	if answer := s.one(send(&pb.SendMsg{Content: "hi"})).GetResponse(); answer.GetContent() != "yes" {
		t.Errorf("without tools: %v", answer)
	}
	for i, q := range m.Requests() {
		if has := bytes.Contains(q.Body, []byte(`"tool`)); has != (i == 0) {
			t.Errorf("request %d: %s", i, q.Body)
		}
	}
}

// TestFailureIsReported: an answer that failed is an error, of both kinds.
func TestFailureIsReported(t *testing.T) {
	m := modeltest.New(t)
	m.Func(func(modeltest.Request) modeltest.Reply { return modeltest.Status(401, "bad key sk-planted") })
	s := serve(t, home(t), scripted(m))
	e := failure(t, s.one(callMessage(t, "runs.send", op.Message{Content: "hi"})))
	if e.Code != 502 || !strings.Contains(e.Message, "401") || strings.Contains(e.Message, "sk-planted") || e.Remedy == "" {
		t.Errorf("send: %+v", e)
	}
	all := s.ask(stream(&pb.StreamMsg{Content: "hi"}))
	if end := all[len(all)-1].GetStream().GetEnd(); !strings.Contains(end.GetError(), "401") {
		t.Errorf("stream: %v", end)
	}
	var failed error
	for _, err := range op.StreamMessage.All(t.Context(), s.client(), op.Message{Content: "hi"}) {
		failed = err
	}
	if !client.IsKind(failed, "model_key") {
		t.Errorf("stream: %v", failed)
	}
}

// TestReloadInARun checks that a reload keeps active runs and subscribers, and
// that the next run uses the new configuration.
func TestReloadInARun(t *testing.T) {
	m := modeltest.New(t, modeltest.Reply{}.Text("one ").Stall(0), modeltest.Say("two"))
	s := serve(t, home(t), scripted(m))
	end := s.follow()
	dir := t.TempDir()
	f := s.begin(&pb.StreamMsg{Content: "hi", Cwd: &dir})
	id := f.start().Session
	f.chunk("one ")
	config := scripted(m) + "description = \"changed\"\n"
	if err := os.WriteFile(filepath.Join(s.home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := s.one(&pb.ClientMessage{Msg: &pb.ClientMessage_Reload{Reload: &pb.ReloadMsg{}}}); r.GetPong() == nil {
		t.Fatal(r)
	}
	m.Release()
	f.end()
	if r := s.one(send(&pb.SendMsg{Content: "and?", Session: &id})).GetResponse(); r.GetContent() != "two" {
		t.Error(r)
	}
	if n := len(end(2)); n < 4 {
		t.Errorf("%d events", n)
	}
	if last := fmt.Sprint(m.Requests()[1].Messages); !strings.Contains(last, "working_directory: "+dir) || !strings.Contains(last, "time_zone: ") {
		t.Errorf("the directory or the time zone was lost: %s", last)
	}
	if a, err := op.ListAgents.Do(t.Context(), s.client(), op.AgentNames{}); err != nil || a[0].Description != "changed" {
		t.Errorf("agents: %v, %v", a, err)
	}
	// An invalid configuration changes nothing.
	if err := os.WriteFile(filepath.Join(s.home, "config.toml"), []byte("x = "), 0o600); err != nil {
		t.Fatal(err)
	}
	if e := s.one(&pb.ClientMessage{Msg: &pb.ClientMessage_Reload{Reload: &pb.ReloadMsg{}}}).GetError(); e.GetCode() != 400 || !strings.Contains(e.Message, "config.toml:1") {
		t.Errorf("reload: %v", e)
	}
	if a, err := op.ListAgents.Do(t.Context(), s.client(), op.AgentNames{}); err != nil || a[0].Description != "changed" {
		t.Errorf("agents: %v, %v", a, err)
	}
}

// TestSlowSubscriber checks that a subscriber that does not read gets the
// number of missed events, and that others miss no event.
func TestSlowSubscriber(t *testing.T) {
	m := modeltest.New(t)
	m.Func(func(modeltest.Request) modeltest.Reply {
		return modeltest.Reply{}.Text(strings.Split(strings.Repeat("x ", 3000), " ")...)
	})
	s := serve(t, home(t), scripted(m))
	slow, err := s.events.add(op.EventFilter{}, everybody, 16, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer s.events.remove(slow)
	var wg sync.WaitGroup
	wg.Go(func() { s.ask(stream(&pb.StreamMsg{Content: "hi"})) })
	wg.Wait()
	if n := slow.lost.Load(); n < 2900 || len(slow.queue) != 16 {
		t.Errorf("%d lost, %d queued", n, len(slow.queue))
	}
}

// TestManySessions limits the memory of loaded sessions.
func TestManySessions(t *testing.T) {
	if testing.Short() {
		t.Skip()
	}
	const n = 300
	s := serve(t, home(t), "")
	runtime.GC() // the figures count objects that the collector did not free yet
	before := s.figures()
	for i := range n {
		sender := fmt.Sprint("user", i)
		if r := s.one(send(&pb.SendMsg{Content: "hello", Sender: &sender})); r.GetResponse() == nil {
			t.Fatal(r)
		}
	}
	runtime.GC()
	after := s.figures()
	if after.LoadedSessions != n {
		t.Errorf("%d loaded sessions", after.LoadedSessions)
	}
	t.Logf("%d sessions: %d KiB over %d, %d goroutines over %d", n, int64(after.MemoryBytes-before.MemoryBytes)>>10, before.MemoryBytes>>10, after.Goroutines, before.Goroutines)
	if grown := int64(after.MemoryBytes) - int64(before.MemoryBytes); grown > n*16<<10 {
		t.Errorf("%d bytes", grown)
	}
}
