package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/bench/gate"
	"crabmem/crmem/embed/embedtest"
	"crabmem/crmem/fusion"
	"crabmem/daemon/op"
	"crabmem/daemon/tool"
)

// TestSearchSessionsByMeaning searches sessions with words that no message contains,
// over the socket and as the tool of an agent.
func TestSearchSessionsByMeaning(t *testing.T) {
	dir := home(t)
	write := func(name, by, text string) {
		t.Helper()
		file := filepath.Join(dir, "sessions", name)
		err := os.MkdirAll(filepath.Dir(file), 0o700)
		if err == nil {
			err = os.WriteFile(file, []byte(`{"agent":"crab","created_by":"`+by+`","created_at":"2026-04-14T10:23:45+00:00","title":"","uptime_secs":0}`+"\n"+
				`{"role":"user","content":"`+text+`"}`+"\n"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("crab_user_1.jsonl", "user", "the automobile is in the garage")
	write("crab_tg-7_1.jsonl", "tg:7", "an automobile in the street")
	s := serve(t, dir, "")
	q := op.SessionQuery{Query: "car", Limit: 1, Semantic: true}
	found, err := op.SearchSessions.Do(t.Context(), s.client(), q)
	if err != nil || found.Meaning == nil || found.Meaning.Used || !strings.HasPrefix(found.Meaning.Reason, "the daemon has no embedding model") || len(found.Hits) > 0 {
		t.Fatalf("without a model: %+v, %+v, %v", found, found.Meaning, err)
	}
	s.stop()
	s = serve(t, dir, "")
	s.model, _ = embedtest.New("car automobile")
	s.semantic = &fusion.Request{}
	gate.Until(t, "all sessions have vectors", func() bool {
		if found, err = op.SearchSessions.Do(t.Context(), s.client(), q); err != nil {
			t.Fatalf("%+v, %v", found.Meaning, err)
		}
		return found.Meaning.Used && found.Meaning.Missing == 0
	})
	if len(found.Hits) != 1 || !strings.Contains(found.Hits[0].Snippet, "automobile") || found.Hits[0].Fused == nil || found.Hits[0].Score != found.Hits[0].Fused.Score() {
		t.Errorf("%+v", found)
	}
	call := tool.Call{Agent: "crab", Scope: s.setup().agents["crab"].Scope}
	text, err := s.searchTool(t.Context(), call, searchArgs{Query: "car"})
	if err != nil || !strings.Contains(text, "the automobile is in the garage") || strings.Contains(text, "street") || strings.Contains(text, "words only") {
		t.Errorf("%s, %v", text, err)
	}
	if text, err = s.searchTool(t.Context(), call, searchArgs{Query: "…"}); err != nil || !strings.Contains(text, "by words only: "+fusion.UnknownWords) {
		t.Errorf("%s, %v", text, err)
	}
}
