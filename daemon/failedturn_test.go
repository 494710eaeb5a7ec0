package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/tool"
	"crabmem/daemon/wire/pb"
)

// failedTurns returns the lines of failed turns in a log.
func failedTurns(log *found) (lines []string) {
	for line := range strings.Lines(log.text()) {
		if _, rest, ok := strings.Cut(line, `msg="turn failed" `); ok {
			lines = append(lines, strings.TrimSpace(rest))
		}
	}
	return lines
}

// all returns all lines of a session's file after its meta line.
func (s *served) all(id string) []string {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.home, "sessions", id+".jsonl"))
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")[1:]
}

// TestFailedTurn fails turns and retries them: each failure is in the session and,
// once, in the log, and the retry adds no second message of the user.
func TestFailedTurn(t *testing.T) {
	m := modeltest.New(t, modeltest.Status(401, "no key"), modeltest.Reply{}.Text("half").Cut(), modeltest.Say("fine"))
	var log found
	s := serve(t, home(t), scripted(m), func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	if e := s.one(send(&pb.SendMsg{Content: "hi"})).GetError(); e == nil {
		t.Fatal("the first turn did not fail")
	}
	if all := s.ask(stream(&pb.StreamMsg{Content: "hi"})); all[len(all)-1].GetStream().GetEnd().GetError() == "" {
		t.Fatalf("the second turn did not fail: %v", all)
	}
	if r := s.one(send(&pb.SendMsg{Content: "hi"})).GetResponse(); r.GetContent() != "fine" {
		t.Fatalf("retry: %v", r)
	}
	lines := s.all("crab_user_1")
	for i, prefix := range []string{`{"role":"user","content":"hi"}`, `{"turn":{"failed":"model_key","error":"`, `{"turn":{"text":"half"}}`,
		`{"turn":{"failed":"model_cut","error":"`, `{"role":"assistant","content":"fine"}`} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], prefix) {
			t.Fatalf("line %d of %q does not begin with %s", i, lines, prefix)
		}
	}
	failed := failedTurns(&log)
	if len(failed) != 2 || !strings.HasPrefix(failed[0], "session=crab_user_1 agent=crab kind=model_key error=") {
		t.Errorf("log: %q", failed)
	}
}

// TestKilledTurn opens a session whose process was killed while a model streamed.
// The next run records that once. It continues the turn, or the model receives
// the partial text.
func TestKilledTurn(t *testing.T) {
	const killed = `{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00","title":"","uptime_secs":0}
{"role":"user","content":"hi"}
{"turn":{"text":"half an "}}
{"turn":{"text":"answer"}}
`
	for content, want := range map[string][]string{
		"hi":       {"user hi", "assistant fine"},
		"continue": {"user hi", "assistant half an answer", "user continue", "assistant fine"},
	} {
		m := modeltest.New(t, modeltest.Say("fine"), modeltest.Say("well"))
		var log found
		dir := home(t)
		if err := os.MkdirAll(filepath.Join(dir, "sessions"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "sessions", "crab_user_1.jsonl"), []byte(killed), 0o600); err != nil {
			t.Fatal(err)
		}
		s := serve(t, dir, scripted(m), func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		for _, text := range []string{content, "thanks"} {
			if r := s.one(send(&pb.SendMsg{Content: text})).GetResponse(); r == nil {
				t.Fatalf("%s: no response", text)
			}
		}
		if got := s.lines("crab_user_1"); !slices.Equal(got, append(want, "user thanks", "assistant well")) {
			t.Errorf("after %q the session has %q", content, got)
		}
		var sent []string
		for _, q := range m.Requests()[0].Messages {
			if q.Role != "system" {
				// The message of the user follows blocks of the daemon.
				blocks := strings.Split(q.Content, "\n\n")
				sent = append(sent, q.Role+" "+blocks[len(blocks)-1])
			}
		}
		if !slices.Equal(sent, want[:len(want)-1]) {
			t.Errorf("after %q the model received %q", content, sent)
		}
		if failed := failedTurns(&log); len(failed) != 1 || !strings.HasPrefix(failed[0], "session=crab_user_1 agent=crab kind=interrupted ") {
			t.Errorf("log: %q", failed)
		}
		if lines := s.all("crab_user_1"); lines[3] != `{"turn":{"failed":"interrupted","error":"the daemon stopped before the turn ended"}}` {
			t.Errorf("line 5: %s", lines[3])
		}
	}
}

// TestContinuedTurnKeepsBounds fails a turn that loaded a skill with allowed-tools by
// a call. The run that continues the turn has only these tools; the next turn has all.
func TestContinuedTurnKeepsBounds(t *testing.T) {
	remember := modeltest.Call(tool.Remember, `{"name":"tea","content":"green"}`)
	m := modeltest.New(t, modeltest.Call(tool.Skill, `{"name":"reading"}`), modeltest.Status(401, "no key"),
		remember, modeltest.Say("fine"), remember, modeltest.Say("well"))
	dir := home(t)
	skill := filepath.Join(dir, "skills", "reading")
	if err := os.MkdirAll(skill, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(skill, "SKILL.md"), []byte("---\nname: reading\ndescription: reads\nallowed-tools: recall\n---\nRead.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir, scripted(m))
	if e := s.one(send(&pb.SendMsg{Content: "hi"})).GetError(); e == nil {
		t.Fatal("the first turn did not fail")
	}
	for _, content := range []string{"hi", "again"} {
		if r := s.one(send(&pb.SendMsg{Content: content})).GetResponse(); r == nil {
			t.Fatalf("%s: no response", content)
		}
	}
	var results []string
	for _, line := range s.lines("crab_user_1") {
		if text, ok := strings.CutPrefix(line, "tool "); ok {
			results = append(results, text)
		}
	}
	if len(results) != 3 || results[1] != "tool not available: remember" || strings.HasPrefix(results[2], "tool not") {
		t.Errorf("results of calls: %q", results)
	}
}
