package daemon

import (
	"strings"
	"testing"

	"crabmem/daemon/model/modeltest"
	"crabmem/daemon/wire/pb"
)

// toolResult runs one turn in which the model makes a call and returns the
// result that the model is sent.
func toolResult(t *testing.T, s *served, m *modeltest.Server, name, args string) string {
	t.Helper()
	m.Queue(modeltest.Call(name, args), modeltest.Say("done"))
	r := s.one(send(&pb.SendMsg{Content: "go", NewChat: true})).GetResponse()
	if r.GetContent() != "done" {
		t.Fatal(r)
	}
	for _, l := range s.lines(r.StoredId) {
		if result, ok := strings.CutPrefix(l, "tool "); ok {
			return result
		}
	}
	t.Fatalf("no result of %s", name)
	return ""
}

// TestRememberExactText: the tool stores the text that the model wrote or
// refuses it.
func TestRememberExactText(t *testing.T) {
	m := modeltest.New(t)
	s := serve(t, home(t), scripted(m))
	got := toolResult(t, s, m, "remember", `{"name":"a","content":"x","aliases":["y","\ud800z"]}`)
	if want := `invalid arguments: argument aliases[1]: lone surrogate \ud800: send each character as a whole`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if n := s.store.Len(); n != 0 {
		t.Errorf("%d entries after a refusal", n)
	}
	if got := toolResult(t, s, m, "remember", `{"name":"a","content":"\ud83d\ude00 \\ud800"}`); got != "remembered: a" {
		t.Error(got)
	}
	if e, err := s.store.Get("a"); err != nil || e.Content != `😀 \ud800` {
		t.Errorf("stored %q, %v", e.Content, err)
	}
}
