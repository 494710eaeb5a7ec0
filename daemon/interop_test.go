package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"crabmem/daemon/agent"
	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/op"
	"crabmem/daemon/session"
	"crabmem/daemon/wire/pb"
	"crabmem/sessionlog/record"
)

// These tests check the behavior that clients of the reference implementation
// depend on: codes, texts, the order of events, and session files. Package wire
// tests the frames.

func TestReferenceUnknownAgent(t *testing.T) {
	s := serve(t, home(t), "")
	e := s.one(stream(&pb.StreamMsg{Agent: "x", Content: "hi"})).GetError()
	if e.GetCode() != 500 || e.GetMessage() != "agent 'x' not registered" {
		t.Errorf("answered %v", e)
	}
}

func TestReferenceStreamUnknownSession(t *testing.T) {
	s := serve(t, home(t), "")
	n := uint64(999)
	all := s.ask(stream(&pb.StreamMsg{Agent: "crab", Content: "hi", Session: &n}))
	first, last := all[0].GetStream().GetStart(), all[len(all)-1].GetStream().GetEnd()
	if first == nil || first.Session != 999 || first.Agent != "crab" || last == nil || last.Error != "session 999 not found" {
		t.Errorf("answered %v", all)
	}
}

func TestReferenceSendUnknownSession(t *testing.T) {
	s := serve(t, home(t), "")
	for _, n := range []uint64{999, 0} {
		e := s.one(send(&pb.SendMsg{Agent: "crab", Content: "hi", Session: &n})).GetError()
		if e.GetCode() != 500 || e.GetMessage() != fmt.Sprintf("session %d not found", n) {
			t.Errorf("session %d: %v", n, e)
		}
	}
}

func TestReferenceNotFound(t *testing.T) {
	s := serve(t, home(t), "")
	for text, m := range map[string]*pb.ClientMessage{
		"session 7 not found":               {Msg: &pb.ClientMessage_Kill{Kill: &pb.KillMsg{Session: 7}}},
		"cron 7 not found":                  {Msg: &pb.ClientMessage_DeleteCron{DeleteCron: &pb.DeleteCronMsg{Id: 7}}},
		"no pending ask_user for session 7": {Msg: &pb.ClientMessage_ReplyToAsk{ReplyToAsk: &pb.ReplyToAsk{Session: 7}}},
		"session 8 not found":               callMessage(t, "runs.cancel", op.SessionNumber{Number: 8}),
	} {
		if e := failure(t, s.one(m)); e.Code != 404 || e.Message != text {
			t.Errorf("%q: %v", text, e)
		}
	}
}

func TestReferenceToolStartTwice(t *testing.T) {
	m := modeltest.New(t, modeltest.Call("recall", `{"query":"tea"}`).Call("forget", `{"name":"tea"}`), modeltest.Say("done"))
	s := serve(t, home(t), scripted(m))
	var starts []*pb.ToolStartEvent
	var kinds []string
	for _, a := range s.ask(stream(&pb.StreamMsg{Content: "go"})) {
		e := a.GetStream()
		if start := e.GetToolStart(); start != nil {
			starts = append(starts, start)
		}
		kinds = append(kinds, strings.TrimPrefix(strings.TrimPrefix(typeName(e.Event), "*pb.StreamEvent_"), "StreamEvent_"))
	}
	if len(starts) != 2 || starts[0].Calls[0].Arguments != "" || starts[0].Calls[0].Name != "recall" {
		t.Fatalf("tool starts: %v", starts)
	}
	if c := starts[1].Calls; len(c) != 2 || c[0].Arguments != `{"query":"tea"}` || c[1].Name != "forget" {
		t.Errorf("the second: %v", c)
	}
	want := "Start ToolStart ToolStart ToolResult ToolResult ToolsComplete Chunk End"
	if got := strings.ReplaceAll(strings.Join(kinds, " "), "Usage ", ""); strings.ReplaceAll(got, " Usage", "") != want {
		t.Errorf("events %s, want %s", got, want)
	}
}

func TestReferenceEndAfterTheFile(t *testing.T) {
	m := modeltest.New(t, modeltest.Say("hello"))
	s := serve(t, home(t), scripted(m))
	all := s.ask(stream(&pb.StreamMsg{Content: "hi"}))
	id := s.stored(all[0].GetStream().GetStart().Session)
	b, err := os.ReadFile(filepath.Join(s.home, "sessions", id+".jsonl"))
	if err != nil || !strings.Contains(string(b), `{"role":"user","content":"hi"}`+"\n"+`{"role":"assistant","content":"hello"}`+"\n") {
		t.Errorf("the file has %s, %v", b, err)
	}
}

func TestReferenceLines(t *testing.T) {
	m := modeltest.New(t, modeltest.Call("recall", ""), modeltest.Say("done"))
	s := serve(t, home(t), scripted(m))
	id := s.stored(s.ask(stream(&pb.StreamMsg{Content: "<b> & \u2028"}))[0].GetStream().GetStart().Session)
	b, err := os.ReadFile(filepath.Join(s.home, "sessions", id+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	if !regexp.MustCompile(`^\{"agent":"crab","created_by":"user","created_at":"[^"]*\+00:00","title":"","uptime_secs":0\}$`).MatchString(lines[0]) {
		t.Errorf("line 1: %s", lines[0])
	}
	if lines[1] != `{"role":"user","content":"<b> & `+"\u2028"+`"}` {
		t.Errorf("line 2: %s", lines[1])
	}
	if !strings.Contains(lines[2], `"arguments":""`) && !strings.Contains(lines[2], `"arguments":"{}"`) || strings.Contains(lines[2], "index") {
		t.Errorf("line 3: %s", lines[2])
	}
}

func TestReferenceTitle(t *testing.T) {
	m := modeltest.New(t, modeltest.Say("hello"), modeltest.Say("again"))
	s := serve(t, home(t), scripted(m))
	id := s.stored(s.ask(stream(&pb.StreamMsg{Content: "hi"}))[0].GetStream().GetStart().Session)
	if id != "crab_user_1" {
		t.Fatalf("id %s", id)
	}
	if err := s.loaded.With(t.Context(), 1, func(_ context.Context, _ session.Setup, _ *agent.Agent, h *agent.Session) error {
		return h.Log.SetTitle("My Title!")
	}); err != nil {
		t.Fatal(err)
	}
	if r := s.one(send(&pb.SendMsg{Content: "and?"})).GetResponse(); r.GetContent() != "again" || s.stored(r.Session) != id {
		t.Errorf("answered %v", r)
	}
	if b, err := os.ReadFile(filepath.Join(s.home, "sessions", "crab_user_1_my-title.jsonl")); err != nil || !strings.Contains(string(b), "again") {
		t.Errorf("%s, %v", b, err)
	}
}

func TestReferenceMarker(t *testing.T) {
	m := modeltest.New(t, modeltest.Say("hello"))
	dir := home(t)
	if err := os.MkdirAll(filepath.Join(dir, "sessions"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := `{"agent":"crab","created_by":"user","created_at":"2026-03-28T10:00:00+00:00","title":"","uptime_secs":0}
{"role":"user","content":"old"}
{"compact":"what was said"}
{"role":"user","content":"one"}
{"role":"assistant","content":"two"}
`
	if err := os.WriteFile(filepath.Join(dir, "sessions", "crab_user_1.jsonl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir, scripted(m))
	s.ask(stream(&pb.StreamMsg{Content: "three"}))
	var got []string
	for _, m := range m.Requests()[0].Messages {
		for text := range strings.SplitSeq(m.Content, "\n\n") { // messages of a user are joined
			if !strings.HasPrefix(text, "<") && m.Role != record.RoleSystem {
				got = append(got, text)
			}
		}
	}
	if strings.Join(got, ", ") != "what was said, one, two, three" {
		t.Errorf("the model was sent %q", got)
	}
	if n := s.one(&pb.ClientMessage{Msg: &pb.ClientMessage_Sessions{Sessions: &pb.Sessions{}}}).GetSessions().Sessions[0].MessageCount; n != 5 {
		t.Errorf("%d messages", n)
	}
}

var chronoTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}|\.\d{6}|\.\d{9})?\+00:00$`)

func TestReferenceTimestamps(t *testing.T) {
	m := modeltest.New(t, modeltest.Call("recall", `{"query":"x"}`), modeltest.Say("a", "b"), modeltest.Status(400, "no"))
	s := serve(t, home(t), scripted(m))
	end := s.follow()
	s.ask(stream(&pb.StreamMsg{Content: "hi"}))
	s.ask(stream(&pb.StreamMsg{Content: "hi"}))
	var got []string
	for _, e := range end(2) {
		if !chronoTime.MatchString(e.Timestamp) {
			t.Errorf("timestamp %q", e.Timestamp)
		}
		if e.Kind == pb.AgentEventKind_TOOL_RESULT {
			e.Content = regexp.MustCompile(`^\d+ms$`).ReplaceAllString(e.Content, "Nms")
		}
		got = append(got, e.Kind.String()+" "+e.Content)
	}
	want := "TOOL_START recall|TOOL_RESULT Nms|TOOLS_COMPLETE |TEXT_DELTA |TEXT_DELTA |DONE |DONE "
	if text := strings.Join(got, "|"); !strings.HasPrefix(text, want) || !strings.Contains(text, "400") {
		t.Errorf("events %s, want %s and the error", text, want)
	}
}

func TestReferenceConfig(t *testing.T) {
	m := modeltest.New(t)
	s := serve(t, home(t), scripted(m))
	get := func() string {
		return s.one(&pb.ClientMessage{Msg: &pb.ClientMessage_GetConfig{GetConfig: &pb.GetConfig{}}}).GetConfig().GetConfig()
	}
	js := get()
	var c struct {
		Provider map[string]struct {
			APIKey string `json:"api_key"`
			Models []string
		}
		System struct{ Crab struct{ Model string } }
		Agents map[string]any
		Env    map[string]string
	}
	if err := json.Unmarshal([]byte(js), &c); err != nil || c.System.Crab.Model != "script" || c.Provider["test"].Models[0] != "script" {
		t.Fatalf("%s: %v", js, err)
	}
	if strings.Contains(js, "sk-planted") {
		t.Errorf("the key is in %s", js)
	}
	set := func(js string) *pb.ServerMessage {
		return s.one(&pb.ClientMessage{Msg: &pb.ClientMessage_SetConfig{SetConfig: &pb.SetConfigMsg{Config: js}}})
	}
	changed := strings.Replace(js, `"max_iterations":16`, `"max_iterations":5`, 1)
	if changed == js {
		t.Fatalf("no max_iterations in %s", js)
	}
	if r := set(changed); r.GetPong() == nil {
		t.Fatalf("set: %v", r)
	}
	b, err := os.ReadFile(filepath.Join(s.home, "config.toml"))
	if err != nil || !strings.Contains(string(b), "sk-planted") {
		t.Errorf("the key was lost: %s, %v", b, err)
	}
	for _, bad := range []string{"{", `{"system":{"crab":{"model":"nobody"}}}`, `[]`} {
		if e := set(bad).GetError(); e == nil || e.Message == "" {
			t.Errorf("%s was taken", bad)
		}
		if after, err := os.ReadFile(filepath.Join(s.home, "config.toml")); err != nil || string(after) != string(b) {
			t.Errorf("after %s the file is %s, %v", bad, after, err)
		}
	}
	if get() != changed {
		t.Error("a refused configuration changed the daemon")
	}
}
