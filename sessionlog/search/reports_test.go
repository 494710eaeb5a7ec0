package search_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/golden"
	"crabmem/sessionlog"
	"crabmem/sessionlog/search"
)

var reportWords = strings.Fields("port port port needle needle hay deploy deployment staging café 記憶 question answer getUserName HTTP404 why what 😀 longword misspeled misspelled alpha beta gamma")

func reportText(r *rand.Rand, n int) string {
	var b strings.Builder
	for range r.IntN(n + 1) {
		b.WriteString(reportWords[min(r.IntN(len(reportWords)), r.IntN(len(reportWords)))] + []string{" ", " ", ", ", "? ", "\n"}[r.IntN(5)])
	}
	return b.String()
}

// reportLine returns a random line of a session.
func reportLine(r *rand.Rand) string {
	quote := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	switch r.IntN(14) {
	case 0:
		return `{"compact":` + quote(reportText(r, 12)) + `}`
	case 1:
		return `{"meta":{"title":` + quote(reportText(r, 3)) + `,"uptime_secs":` + fmt.Sprint(r.IntN(100)) + `}}`
	case 2:
		return []string{"bad", `{"note":"port"}`, "", `{"role":"user","content":3}`, `{"role":"us{"role":"user","content":"joined needle"}`}[r.IntN(5)]
	case 3, 4:
		return `{"role":"assistant","content":` + quote(reportText(r, 5)) + `,"tool_calls":[{"id":"c1","type":"function","function":{"name":"recall","arguments":"{\"port\":1}"}},{"id":"c2","function":{"name":"read"}}]}`
	case 5, 6:
		return `{"role":"tool","content":` + quote(reportText(r, 30)) + `,"tool_call_id":"` + []string{"c1", "c2", "c3", ""}[r.IntN(4)] + `"}`
	case 7:
		return `{"role":"` + []string{"system", "judge", "function", strings.Repeat("r", 300)}[r.IntN(4)] + `","content":` + quote(reportText(r, 6)) + `}`
	case 8:
		return `{"role":"user","content":` + quote(strings.Repeat("filler text ", 10+r.IntN(200))+" needle "+strings.Repeat("more text ", r.IntN(200))) + `}`
	default:
		return `{"role":"` + []string{"user", "assistant"}[r.IntN(2)] + `","content":` + quote(reportText(r, 12)) + `}`
	}
}

func reportSession(r *rand.Rand, n int) string {
	text := fmt.Sprintf(`{"agent":%q,"created_by":%q,"created_at":%q,"title":%q}`, []string{"crab", "helper", ""}[r.IntN(3)], []string{"user", "cron", "café"}[r.IntN(3)],
		[]string{"2026-01-02T03:04:05Z", "2026-02-02T03:04:05.123Z", "soon", "2025-12-31T23:59:59+02:00"}[r.IntN(4)], reportText(r, 3)) + "\n"
	for range n {
		text += reportLine(r) + "\n"
	}
	return text
}

// reportQuery returns a random query.
func reportQuery(r *rand.Rand) search.Query {
	q := search.Query{Text: reportText(r, 4), Limit: []int{0, -1, 1, 3, 20, 21}[r.IntN(6)], Window: []int{0, -1, 1, 2, 3, 16, 17}[r.IntN(7)], Bare: r.IntN(6) == 0}
	if r.IntN(4) == 0 {
		q.Agent = []string{"crab", "none"}[r.IntN(2)]
	}
	if r.IntN(4) == 0 {
		q.Sender = []string{"user", "café", "nobody"}[r.IntN(3)]
	}
	if r.IntN(3) == 0 {
		q.Roles = [][]string{{"user"}, {"tool", "judge"}, {"session", "compact"}, {strings.Repeat("r", 300)}, {"none"}, {}, {"system", "assistant"}}[r.IntN(7)]
	}
	if r.IntN(5) == 0 {
		q.Since = time.Unix(1_760_000_000+int64(r.IntN(100)), 0)
	}
	if r.IntN(5) == 0 {
		q.Until = time.Date(2026, 1, 1+r.IntN(40), 3, 4, 5, 0, time.UTC)
	}
	return q
}

// describeSearch describes a result. Long texts are cut.
func describeSearch(t *testing.T, x *search.Index, q search.Query) string {
	t.Helper()
	result, err := x.Search(t.Context(), q)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%d of %d, %v\n", result.Total, result.Searched, result.Corrections)
	for _, h := range result.Hits {
		text += fmt.Sprintf("%s %s %q %q %q %.20s %d %.6f %.60q %d\n", h.ID, h.File, h.Agent, h.CreatedBy, h.Title, h.Role, h.Line, h.Score, h.Snippet, len(h.Snippet))
		for _, w := range h.Window {
			text += fmt.Sprintf(" %d %.9s %.12q %d", w.Line, w.Role, w.Text, len(w.Text))
		}
		text += "\n"
	}
	return text
}

// TestReportsOfSearches changes a folder at random, refreshes indexes, and compares
// the results of searches before and after.
func TestReportsOfSearches(t *testing.T) {
	var rep golden.Reports
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 9))
		m := faultfs.NewMem()
		clock := int64(0)
		m.Now = func() time.Time { return time.Unix(1_760_000_000+clock, 0) }
		noErr(t, m.Mkdir("/s", 0o700))
		name := func() string {
			return fmt.Sprintf("/s/%s_user_%d%s.jsonl", []string{"crab", "helper"}[r.IntN(2)], 1+r.IntN(4), []string{"", "_title"}[r.IntN(2)])
		}
		for range 6 {
			m.WriteFile(name(), []byte(reportSession(r, r.IntN(25))), 0o600)
		}
		d, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: m})
		noErr(t, err)
		x, err := search.NewIndex(d, &search.IndexOptions{Analyzer: []analysis.Analyzer{analysis.Standard, analysis.Plain}[seed%2], Tools: seed%3 == 0})
		noErr(t, err)
		for step := range 16 {
			for n := range 5 {
				rep.Add(fmt.Sprintf("seed %d, step %d.%d", seed, step, n), describeSearch(t, x, reportQuery(r)))
			}
			clock += 10
			file := name()
			old, err := vfs.ReadFile(m, file, 1<<20)
			what := ""
			switch n := r.IntN(10); {
			case err != nil || n == 0:
				what = "written"
				m.WriteFile(file, []byte(reportSession(r, r.IntN(10))), 0o600)
			case n < 4:
				what = "longer"
				m.WriteFile(file, append(old, reportLine(r)+"\n"+reportLine(r)+"\n"...), 0o600)
			case n == 4:
				what = "torn"
				m.WriteFile(file, append(old, reportLine(r)...), 0o600)
			case n == 5:
				what = "shorter"
				m.WriteFile(file, old[:r.IntN(len(old)+1)], 0o600)
			case n == 6:
				what = "removed"
				noErr(t, m.Remove(file))
			case n == 7:
				what = "renamed"
				_ = m.Rename(file, name())
			case n == 8:
				what = "changed"
				m.WriteFile(file, []byte(strings.Replace(string(old), "port", "hats", 2)), 0o600)
			default:
				what = "unreadable"
				m.Chmod(file, 0)
			}
			stale := describeSearch(t, x, search.Query{Text: "needle port", Limit: 5})
			if r.IntN(4) == 0 {
				seen, at, failing := 0, 1+r.IntN(4), name()
				m.Hook = func(c faultfs.Call) error {
					if c.Name != failing {
						return nil
					}
					if seen++; seen == at {
						return []error{syscall.EIO, fs.ErrNotExist, fs.ErrPermission}[at%3]
					}
					return nil
				}
			}
			err = x.Refresh()
			m.Hook = nil
			rep.Add(fmt.Sprintf("seed %d, step %d: %s %s", seed, step, file, what), fmt.Sprintf("%s%v %d unread %v", stale, err, x.Len(), x.Unread()))
			if what == "unreadable" {
				m.Chmod(file, 0o600)
			}
		}
		noErr(t, x.Close())
		noErr(t, d.Close())
	}
	rep.Compare(t, "testdata/reports/searches.txt.gz")
}

// TestReportsOfFailedReads compares what building, refreshing, and searching return
// if a call of the file system fails.
func TestReportsOfFailedReads(t *testing.T) {
	var rep golden.Reports
	for _, fault := range []error{syscall.EIO, fs.ErrNotExist, &faultfs.Fault{Corrupt: func(b []byte) []byte { return b[:len(b)/2] }}} {
		for n, failing := 0, 0; failing < 3; n++ {
			r := rand.New(rand.NewPCG(5, 5))
			m := faultfs.NewMem()
			m.Now = func() time.Time { return time.Unix(1_760_000_000, 0) }
			noErr(t, m.Mkdir("/s", 0o700))
			for i := range 3 {
				m.WriteFile(fmt.Sprintf("/s/crab_user_%d.jsonl", i+1), []byte(reportSession(r, 12)), 0o600)
			}
			d, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: m})
			noErr(t, err)
			seen, which := 0, ""
			var mu sync.Mutex // files are read concurrently
			m.Hook = func(c faultfs.Call) error {
				mu.Lock()
				defer mu.Unlock()
				if c.Name != []string{"/s", "/s/crab_user_1.jsonl", "/s/crab_user_3.jsonl"}[failing] {
					return nil
				}
				if seen++; seen == n {
					which = c.Op + " " + c.Name
					return fault
				}
				return nil
			}
			x, err := search.NewIndex(d, nil)
			text := fmt.Sprintln(err)
			if err == nil {
				text += fmt.Sprintf("%d %v\n", x.Len(), x.Unread()) + describeSearch(t, x, search.Query{Text: "needle port"}) + fmt.Sprintln(x.Refresh(), x.Len(), x.Unread())
				m.Hook = nil
				text += fmt.Sprintln(x.Refresh(), x.Len(), x.Unread(), x.Close())
			}
			m.Hook = nil
			rep.Add(fmt.Sprintf("%v: %s", fault, which), text)
			noErr(t, d.Close())
			if which == "" && n > 0 {
				n, failing = 0, failing+1
			}
		}
	}
	rep.Compare(t, "testdata/reports/failed.txt.gz")
}
