package search_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/bm25/analysis"
	"crabmem/fuzz/race"
	"crabmem/fuzz/seed"
	"crabmem/sessionlog"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/search"

	"github.com/google/go-cmp/cmp"
)

func openSearchDir(t testing.TB, dir string) *sessionlog.Dir {
	t.Helper()
	d, err := sessionlog.OpenDir(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// TestSearchEqualsBruteForce compares 2,000 random searches, or 10,000 with
// CRABMEM_GATE, with a scan of every message: hits, order, scores, and windows.
func TestSearchEqualsBruteForce(t *testing.T) {
	race.Skip(t)
	queries, sessions := 200, 32
	if gate.Enforced() {
		queries = 2500
	}
	if testing.Short() {
		queries = 100
	}
	for _, a := range []analysis.Analyzer{analysis.Plain, analysis.Standard} {
		for _, tools := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v-tools-%t", a, tools), func(t *testing.T) {
				t.Parallel()
				r := seed.Random(t)
				dir := t.TempDir()
				m := newSearchModel(t, a, tools, searchFolder(t, r, dir, sessions))
				x := newIndex(t, openSearchDir(t, dir), &search.IndexOptions{Analyzer: a, Tools: tools})
				if x.Len() != len(m.at) || len(m.at) < 250 {
					t.Fatalf("%d documents, want %d", x.Len(), len(m.at))
				}
				hits := 0
				for range queries {
					q := randomSearch(r)
					got, err := search.SearchWithout(x, q, search.WithoutAll)
					if err != nil {
						t.Fatal(err)
					}
					if err := compareResults(got, m.search(q, true)); err != nil {
						t.Fatalf("%+v: %v", q, err)
					}
					hits += len(got.Hits)
					if a == analysis.Plain {
						continue
					}
					if err := compareResults(mustSearch(t, x, q), m.search(q, false)); err != nil {
						t.Fatalf("%+v: %v", q, err)
					}
				}
				if hits < queries {
					t.Errorf("%d queries found %d hits: too few", queries, hits)
				}
			})
		}
	}
}

// writeSession writes a file of a sessions folder.
func writeSession(t testing.TB, dir, name string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mustSearch(t testing.TB, x *search.Index, q search.Query) *search.Result {
	t.Helper()
	r, err := x.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSearchKeepsSecrets plants words in everything that is not indexed, in
// every form that a line permits, searches for them, and examines the windows.
func TestSearchKeepsSecrets(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("hunter2 ", 40_000)
	quoted := func(s string) string {
		return string(line.AppendMarker(nil, s)[len(`{"compact":`) : len(s)+len(`{"compact":""`)])
	}
	writeSession(t, dir, "crab_user_1.jsonl",
		`{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00","title":"","uptime_secs":0}`,
		`{"role":"user","content":"visible one"}`,
		`{"role":"assistant","content":"visible","reasoning_content":"hunter2","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"hunter2\":1}"}}]}`,
		`{"role":"tool","content":"hunter2","tool_call_id":"c1"}`,
		`{"role":"function","content":"hunter2 here"}`,
		`{"role":"user","content":"hunter2 in a result of another role","tool_call_id":"c1"}`,
		`{"role":"visible","content":"visible two"}`,
		`{"tool_call_id":"c1","content":"hunter2","role":"tool"}`,
		`{"content":`+quoted(long)+`,"role":"tool"}`,
		`{"content":`+quoted(long)+`,"role":"user","tool_call_id":"c9"}`,
		`{"reasoning_content":`+quoted(long)+`,"role":"assistant","content":"visible three"}`,
		`{"role":"tool","content":`+quoted(long)+`,"tool_call_id":"c1"}`,
		`{"role":"user","conte{"role":"tool","content":"hunter2"}`,
		`{"role":"\u0074ool","content":"hunter2"}`,
		`{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"visible_tool","arguments":"hunter2"}},{"type":"hunter2"}]}`,
		`{"role":"user","content":"visible four","x":"hunter2"}`,
		`{"hunter2":"hunter2"}`,
		`{"role":"user","content":"visible five hunter2`,
	)
	x := newIndex(t, openSearchDir(t, dir), nil)
	for _, text := range []string{"hunter2", "hunter2 1"} {
		for _, hit := range mustSearch(t, x, search.Query{Text: text}).Hits {
			if strings.Contains(hit.Snippet, "hunter2") || hit.Role == "tool" {
				t.Errorf("%s is found: %+v", text, hit)
			}
		}
	}
	if r := mustSearch(t, x, search.Query{Text: "hunter2"}); r.Total != 0 {
		t.Errorf("%d hits of secrets: %+v", r.Total, r.Hits)
	}
	r := mustSearch(t, x, search.Query{Text: "visible", Limit: 20, Window: 16})
	if r.Total != 6 {
		t.Errorf("%d messages are found, want 6", r.Total)
	}
	shown := make(map[int64]string)
	for _, hit := range r.Hits {
		for _, s := range append(hit.Window, search.Windowed{Line: hit.Line, Text: hit.Snippet}) {
			if strings.Contains(s.Text, "hunter2") {
				t.Errorf("a window shows a secret: %+v", s)
			}
			shown[s.Line] = s.Text
		}
	}
	want := map[int64]string{
		2: "visible one", 3: "visible\n[calls bash]", 4: "[result of bash, 7 bytes]", 5: "[result, 12 bytes]",
		6: "[result, 35 bytes]", 7: "visible two", 8: "[result, 7 bytes]", 9: "[result, over 65523 bytes]", 10: "",
		11: "", 12: "[result, over 65509 bytes]", 13: "[result, 7 bytes]", 14: "[result, 7 bytes]",
		15: "[calls visible_tool, ]", 16: "visible four",
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("windows (-want +got):\n%s", diff)
	}
	x.Close()

	all := newIndex(t, openSearchDir(t, dir), &search.IndexOptions{Tools: true})
	if r := mustSearch(t, all, search.Query{Text: "hunter2", Limit: 20}); r.Total != 13 {
		t.Errorf("with tools %d are found, want 13: %+v", r.Total, r.Hits)
	}
	for _, hit := range mustSearch(t, all, search.Query{Text: "visible", Limit: 20}).Hits {
		if hit.Line == 11 && strings.Contains(hit.Snippet, "hunter2") {
			t.Error("reasoning is shown")
		}
	}
}

// TestSearchFindsSessions searches for words that are only in the meta line.
func TestSearchFindsSessions(t *testing.T) {
	dir := t.TempDir()
	writeSession(t, dir, "crab_telegram-42_1.jsonl",
		`{"agent":"crab","created_by":"telegram:Zebedee","created_at":"2026-04-14T10:23:45+00:00","title":"first","uptime_secs":0}`,
		`{"role":"user","content":"hello"}`,
		`{"meta":{"title":"Quarterly budget","uptime_secs":1}}`)
	writeSession(t, dir, "empty.jsonl", `{"agent":"walrus","created_by":"x","created_at":""}`)
	writeSession(t, dir, "none.jsonl", `{"role":"user","content":"orphaned words"}`)
	writeSession(t, dir, ".hidden.jsonl", `{"role":"user","content":"orphaned words"}`)
	x := newIndex(t, openSearchDir(t, dir), nil)
	session := search.Hit{ID: "crab_telegram-42_1", File: "crab_telegram-42_1.jsonl", Agent: "crab",
		CreatedBy: "telegram:Zebedee", Title: "Quarterly budget", Role: "session", Line: 1,
		Snippet: "Quarterly budget · crab · telegram:Zebedee", Window: []search.Windowed{{Line: 2, Role: "user", Text: "hello"}}}
	for _, text := range []string{"budget", "zebedee", "crab", "QUARTERLY"} {
		r := mustSearch(t, x, search.Query{Text: text})
		for i := range r.Hits {
			r.Hits[i].Score = 0
		}
		if diff := cmp.Diff([]search.Hit{session}, r.Hits); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	if r := mustSearch(t, x, search.Query{Text: "first"}); r.Total != 0 {
		t.Errorf("an old title is found: %+v", r.Hits)
	}
	if r := mustSearch(t, x, search.Query{Text: "walrus", Roles: []string{"session"}}); r.Total != 1 || r.Searched != 3 || len(r.Hits[0].Window) != 0 {
		t.Errorf("walrus: %+v", r)
	}
	if r := mustSearch(t, x, search.Query{Text: "orphaned"}); r.Total != 1 || r.Hits[0].ID != "none" || r.Hits[0].Line != 1 {
		t.Errorf("a file without a meta line: %+v", r)
	}
	if r := mustSearch(t, x, search.Query{Text: "hello", Roles: []string{"nobody"}}); r.Total != 0 || r.Searched != 0 {
		t.Errorf("an unused role: %+v", r)
	}
	if r := mustSearch(t, x, search.Query{Text: "", Roles: []string{"user"}}); r.Total != 0 || r.Searched != 2 || len(r.Hits) != 0 {
		t.Errorf("an empty query: %+v", r)
	}
}

// rewrite changes a part of a file in its place.
func rewrite(path, old, new string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(b), old) {
		return fmt.Errorf("%s has no %s", path, old)
	}
	later := time.Now().Add(time.Minute)
	return errors.Join(os.WriteFile(path, []byte(strings.Replace(string(b), old, new, 1)), 0o600), os.Chtimes(path, later, later))
}

// TestSearchStale examines hits whose files were removed, moved, or changed.
func TestSearchStale(t *testing.T) {
	meta := `{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00","title":"","uptime_secs":0}`
	for name, change := range map[string]func(path string) error{
		"removed": os.Remove,
		"renamed": func(path string) error {
			return os.Rename(path, filepath.Join(filepath.Dir(path), "crab_user_1_t.jsonl"))
		},
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"shorter": func(path string) error { return os.Truncate(path, 130) },
		"replaced": func(path string) error {
			return os.WriteFile(path, []byte(meta+"\n"+`{"role":"tool","content":"xxxxxxx needle hunter2"}`+"\n"), 0o600)
		},
		"another role": func(path string) error {
			return rewrite(path, `{"role":"user","content":"a needle"}`, `{"role":"tool","content":"a needle"}`)
		},
		"shifted": func(path string) error {
			return rewrite(path, "\n"+`{"role":"user","content":"a needle"}`, " {\"role\":\"user\",\"content\":\"a needle\"}")
		},
		"a folder": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"a link":   func(path string) error { return errors.Join(os.Rename(path, path+".x"), os.Symlink(path+".x", path)) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "a link" && runtime.GOOS == "windows" {
				t.Skip("SKIPPED: links take a privilege")
			}
			dir := t.TempDir()
			path := filepath.Join(dir, "crab_user_1.jsonl")
			writeSession(t, dir, "crab_user_1.jsonl", meta, `{"role":"user","content":"a needle"}`, `{"role":"user","content":"hay"}`)
			writeSession(t, dir, "crab_user_2.jsonl", meta, `{"role":"user","content":"needle two"}`)
			x := newIndex(t, openSearchDir(t, dir), nil)
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			r := mustSearch(t, x, search.Query{Text: "needle"})
			// Hits in unreadable files rank after others.
			if r.Total != 3 || r.Hits[1].ID != "crab_user_1" || r.Hits[1].Snippet != "" || r.Hits[0].Snippet != "needle two" {
				t.Errorf("before: %+v", r)
			}
			if err := x.Refresh(); err != nil {
				t.Fatal(err)
			}
			want := 1
			if name == "renamed" || name == "shifted" { // records in a bad line are still read
				want = 3 // with the message after the first
			}
			r = mustSearch(t, x, search.Query{Text: "needle"})
			if r.Total != want || !slices.ContainsFunc(r.Hits, func(h search.Hit) bool { return h.Snippet == "needle two" }) {
				t.Errorf("after: %+v", r)
			}
			if bad := name == "a folder" || name == "a link"; bad != (len(x.Unread()) == 1) {
				t.Errorf("unread: %v", x.Unread())
			}
		})
	}
}
