package search_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"crabmem/crmem/vfs"
	"crabmem/fuzz/race"
	"crabmem/sessionlog"
	"crabmem/sessionlog/search"
)

// hostileFolder has files that no writer of this package made.
func hostileFolder(t testing.TB, dir string) {
	meta := `{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00","title":"` + strings.Repeat("Title ", 1000) + `","uptime_secs":0}`
	user := func(s string) string { return `{"role":"user","content":"` + s + `"}` }
	long := strings.Repeat("alpha beta ", 30_000)
	writeSession(t, dir, "crab_user_1.jsonl", meta, user("alpha"), `{"role":"user","cont`+user("glued alpha"), "", user(long), user("beta gamma"),
		`{"compact":"`+long+`"}`, user(strings.Repeat("東京都庁", 50_000)), user(strings.Repeat("x", 1<<20)), user(`\ud83e\udd80 alpha`))
	writeSession(t, dir, "nul.jsonl", meta, strings.Repeat("\x00", 1<<17), "\x00\x00"+user("alpha behind NULs"), user("alpha \x00"), user("\xff alpha"), "\xef\xbb\xbf"+user("alpha"))
	writeSession(t, dir, "deep.jsonl", strings.Repeat(`[`, 1<<16), strings.Repeat(`{"role":`, 1<<14), user("alpha deep"))
	writeSession(t, dir, "roles.jsonl", `{"agent":"`+strings.Repeat("a", 1<<16)+`","created_by":"`+strings.Repeat("ü", 1<<15)+`","created_at":"`+strings.Repeat("9", 1<<12)+`"}`,
		`{"role":"`+strings.Repeat("rôle", 1<<14)+`","content":"alpha"}`, `{"role":"","content":"alpha beta"}`, `{"role":"\u0000","content":"alpha"}`,
		`{"role":"assistant","tool_calls":[`+strings.TrimSuffix(strings.Repeat(`{"id":"1","function":{"name":"alpha"}},`, 5000), ",")+`]}`,
		`{"role":"tool","content":"alpha","tool_call_id":"1"}`)
	writeSession(t, dir, "empty.jsonl")
	many := make([]string, 2000)
	for i := range many {
		many[i] = `{"role":"r` + strings.Repeat("x", i%700) + `","content":"alpha beta"}`
	}
	writeSession(t, dir, "many.jsonl", many...)
	writeSession(t, dir, strings.Repeat("n", 240)+".jsonl", meta, user("alpha of a long name"))
	if err := os.WriteFile(filepath.Join(dir, "torn.jsonl"), []byte(meta+"\n"+user("alpha")+"\n"+user("alpha torn")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// FuzzSearch runs any query on a folder of hostile files. The result must be
// within its limits and consistent.
func FuzzSearch(f *testing.F) {
	race.Skip(f)
	dir := f.TempDir()
	hostileFolder(f, dir)
	var xs []*search.Index
	for _, tools := range []bool{false, true} {
		d, err := sessionlog.OpenDir(dir, &sessionlog.Options{FS: vfs.OS{}, MaxLine: 900_000})
		if err != nil {
			f.Fatal(err)
		}
		x := newIndex(f, d, &search.IndexOptions{Tools: tools})
		if len(x.Unread()) != 0 {
			f.Fatal(x.Unread())
		}
		xs = append(xs, x)
	}
	f.Add("alpha beta", 5, 5, "", "", "", int64(0), int64(0), false, false)
	f.Add("東京 titles", -1, 16, "crab", "user", "user", int64(1), int64(1<<40), true, false)
	f.Add("alpha", 20, 1000, "", "", "\x00", int64(0), int64(0), false, false)
	f.Add("crab \xff", 1<<30, -1<<30, "", "", "compact,session", int64(-1), int64(0), false, true)
	f.Add(strings.Repeat("alpha ", 5000), 3, 3, "", "", "", int64(0), int64(0), true, true)
	f.Fuzz(func(t *testing.T, text string, limit, window int, agent, sender, roles string, since, until int64, tools, bare bool) {
		q := search.Query{Text: text, Limit: limit, Window: window, Agent: agent, Sender: sender, Bare: bare}
		if roles != "" {
			q.Roles = strings.Split(roles, ",")
		}
		if since != 0 {
			q.Since = time.Unix(since, 0)
		}
		if until != 0 {
			q.Until = time.Unix(until, 0)
		}
		x := xs[0]
		if tools {
			x = xs[1]
		}
		checkBounds(t, mustSearch(t, x, q), &q)
	})
}

// checkBounds checks the invariants of every result.
func checkBounds(t testing.TB, r *search.Result, q *search.Query) {
	t.Helper()
	limit := 5
	if q.Limit > 0 {
		limit = min(q.Limit, 20)
	}
	if len(r.Hits) != min(limit, r.Total) || r.Total > r.Searched {
		t.Errorf("%d hits of %d in %d, limit %d", len(r.Hits), r.Total, r.Searched, q.Limit)
	}
	size := 0
	for i, h := range r.Hits {
		if i > 0 && h.Score > r.Hits[i-1].Score || h.Score <= 0 || h.Line < 1 {
			t.Errorf("hit %d: %+v", i, h)
		}
		texts := []string{h.Snippet, h.Title, h.Agent, h.CreatedBy}
		if len(h.Window) > 16 || q.Window > 0 && len(h.Window) > q.Window || q.Window < 0 && len(h.Window) > 0 {
			t.Errorf("a window of %d for %d", len(h.Window), q.Window)
		}
		in := len(h.Window) == 0 || h.Role == search.RoleSession
		for j, w := range h.Window {
			if j > 0 && w.Line <= h.Window[j-1].Line {
				t.Errorf("lines of a window: %+v", h.Window)
			}
			in = in || w.Line == h.Line && w.Role == h.Role && w.Text == h.Snippet
			texts = append(texts, w.Text, w.Role+strings.Repeat(" ", 1<<10-64))
		}
		if !in {
			t.Errorf("the hit is not in its window: %+v", h)
		}
		for _, s := range texts {
			if len(s) > 1<<10 || !utf8.ValidString(s) {
				t.Errorf("%d bytes: %.80q", len(s), s)
			}
			size += len(s)
		}
	}
	if size > 20*20*1<<10 {
		t.Errorf("%d bytes in all", size)
	}
}

func TestSearchBounds(t *testing.T) {
	dir := t.TempDir()
	hostileFolder(t, dir)
	x := newIndex(t, openSearchDir(t, dir), nil)
	q := search.Query{Text: "alpha beta title", Limit: 1 << 30, Window: 1 << 30}
	r := mustSearch(t, x, q)
	checkBounds(t, r, &q)
	if len(r.Hits) != 20 || r.Total < 2000 {
		t.Errorf("%d hits of %d: too few", len(r.Hits), r.Total)
	}
	q = search.Query{Text: "alpha", Limit: 20, Window: 16, Roles: []string{"user", "assistant", "tool", "compact", "session"}}
	r = mustSearch(t, x, q)
	checkBounds(t, r, &q)
	full := 0
	for _, h := range r.Hits {
		for _, w := range h.Window {
			if len(w.Text) > 1<<10-8 {
				full++
			}
		}
	}
	if full == 0 {
		t.Errorf("no text of a window was cut: %+v", r.Hits)
	}
}
