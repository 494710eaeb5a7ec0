package search_test

import (
	"fmt"
	"strings"
	"testing"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/crmem/vfs"
	"crabmem/fuzz/race"
	"crabmem/sessionlog"
	"crabmem/sessionlog/search"
)

func headLine(agent, created string) string {
	return fmt.Sprintf(`{"agent":%q,"created_by":"user","created_at":%q}`, agent, created)
}

// TestSearchCorrects searches for misspelled words, and with a filter by agent.
func TestSearchCorrects(t *testing.T) {
	dir := t.TempDir()
	hay := strings.Repeat("hay and straw ", 200)
	writeSession(t, dir, "crab_user_1.jsonl", headLine("crab", "2026-01-01T00:00:00Z"),
		`{"role":"user","content":"`+hay+`autovacuum of kubernetes `+hay+`"}`, `{"role":"assistant","content":"kubectl"}`)
	writeSession(t, dir, "walrus_user_1.jsonl", headLine("walrus", "2026-01-01T00:00:00Z"),
		`{"role":"user","content":"kubernikus moons"}`)
	x := newIndex(t, openSearchDir(t, dir), nil)
	for _, c := range []struct {
		q     search.Query
		total int
		want  string
	}{
		{search.Query{Text: "kubernetse"}, 2, "[{kubernetse typo [kubernetes] 0.7}]"},
		{search.Query{Text: "kubern"}, 3, "[{kubern prefix [kubernetes kubernikus] 0.35}]"},
		{search.Query{Text: "auto vacuum"}, 2, "[{auto vacuum joined [autovacuum] 0.7}]"},
		{search.Query{Text: "kubernetes"}, 2, "[]"},
		{search.Query{Text: "zzzzzzz"}, 0, "[]"},
		// Words of other agents are not disclosed.
		{search.Query{Text: "kubern", Agent: "crab"}, 2, "[{kubern prefix [kubernetes] 0.35}]"},
		{search.Query{Text: "kubernets", Agent: "walrus"}, 0, "[]"},
		{search.Query{Text: "kubern", Roles: []string{"assistant"}}, 0, "[]"},
		{search.Query{Text: "kubern", Roles: []string{"user"}}, 2, "[{kubern prefix [kubernetes kubernikus] 0.35}]"},
	} {
		r := mustSearch(t, x, c.q)
		if got := fmt.Sprint(r.Corrections); got != c.want || r.Total != c.total {
			t.Errorf("%+v: %d matches, corrected %s; want %d, %s", c.q, r.Total, got, c.total, c.want)
		}
	}
	if r := mustSearch(t, x, search.Query{Text: "kubernetse"}); !strings.Contains(r.Hits[0].Snippet, "kubernetes") {
		t.Errorf("the snippet lacks the match: %q", r.Hits[0].Snippet)
	}
	plain := newIndex(t, openSearchDir(t, dir), &search.IndexOptions{Analyzer: analysis.Plain})
	if r := mustSearch(t, plain, search.Query{Text: "kubernetse"}); r.Total != 0 || r.Corrections != nil {
		t.Errorf("plain: %+v", r)
	}
}

// TestAnswerGetsBoost checks that an answer ranks before its question and before
// equal messages without a question. The boost crosses calls but not a summary.
func TestAnswerGetsBoost(t *testing.T) {
	dir := t.TempDir()
	user := func(s string) string { return fmt.Sprintf(`{"role":"user","content":%q}`, s) }
	says := func(s string) string { return fmt.Sprintf(`{"role":"assistant","content":%q}`, s) }
	call := `{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{}"}}]}`
	result := `{"role":"tool","content":"x","tool_call_id":"c1"}`
	writeSession(t, dir, "crab_user_1.jsonl", headLine("crab", "2026-01-01T00:00:00Z"),
		user("where does the walrus listen now?"), says("on loopback it is now"), user("fine then, thank you all"))
	writeSession(t, dir, "crab_user_2.jsonl", headLine("crab", "2026-01-02T00:00:00Z"),
		user("and what about the seal now?"), says("on loopback it is now"), user("fine then, thank you all"))
	writeSession(t, dir, "crab_user_3.jsonl", headLine("crab", "2026-01-03T00:00:00Z"),
		user("where does the otter listen now?"), call, result, call, result, call, result, says("on loopback it is now"))
	writeSession(t, dir, "crab_user_4.jsonl", headLine("crab", "2026-01-04T00:00:00Z"),
		user("where does the beaver listen now?"), `{"compact":"they spoke about something"}`, says("on loopback it is now"))
	x := newIndex(t, openSearchDir(t, dir), nil)
	for query, want := range map[string]string{
		"walrus loopback": "crab_user_1 line 3",
		"seal loopback":   "crab_user_2 line 3",
		"otter loopback":  "crab_user_3 line 9",
		"beaver loopback": "crab_user_4 line 2", // which the answer does not know of
		"loopback":        "crab_user_4 line 4", // the newest of equals
	} {
		for _, bare := range []bool{false, true} {
			r := mustSearch(t, x, search.Query{Text: query, Bare: bare})
			if got := fmt.Sprintf("%s line %d", r.Hits[0].ID, r.Hits[0].Line); got != want {
				t.Errorf("%q, bare %t: first is %s, want %s", query, bare, got, want)
			}
		}
	}
	// A neighbor boosts even if it does not pass the filters.
	r := mustSearch(t, x, search.Query{Text: "walrus loopback", Roles: []string{"assistant"}})
	if r.Total != 4 || r.Hits[0].ID != "crab_user_1" {
		t.Errorf("of assistants: %+v", r)
	}
}

// TestReadIsBounded counts the bytes that a search reads of long messages.
func TestReadIsBounded(t *testing.T) {
	race.Skip(t)
	dir := t.TempDir()
	long := `{"role":"user","content":"` + strings.Repeat("alpha beta ", 100_000) + `"}`
	for i := range 40 {
		writeSession(t, dir, fmt.Sprintf("crab_user_%d.jsonl", i+1), headLine("crab", ""), long)
	}
	fsys := &countingFS{FS: vfs.OS{}}
	d, err := sessionlog.OpenDir(dir, &sessionlog.Options{FS: fsys})
	noErr(t, err)
	x := newIndex(t, d, nil)
	for _, c := range []struct {
		bare bool
		most int64
	}{{true, 0}, {false, bm25.RerankLimit*32<<10 + 256<<10}} {
		fsys.bytes.Store(0)
		if r := mustSearch(t, x, search.Query{Text: "alpha beta", Limit: 1, Bare: c.bare}); len(r.Hits) != 1 || r.Total != 40 {
			t.Fatalf("%+v", r)
		}
		if n := fsys.bytes.Load(); n > c.most || !c.bare && n < c.most/2 {
			t.Errorf("bare %t: read %d bytes, want at most %d", c.bare, n, c.most)
		}
	}
}
