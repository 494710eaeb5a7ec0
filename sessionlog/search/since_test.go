package search_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"crabmem/sessionlog"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/search"
)

// TestSinceImported checks that the time of an imported session is that of its messages,
// and not that of its file.
func TestSinceImported(t *testing.T) {
	dir := t.TempDir()
	created := time.Date(2025, 8, 27, 10, 0, 0, 0, time.UTC)
	for name, m := range map[string]sessionlog.Meta{
		"crab_user_1":  {Agent: "crab"},
		"codex_user_1": {Agent: "codex", Source: "codex:1", UptimeSecs: 3600},
		"codex_user_2": {Agent: "codex", Source: "codex:2", UptimeSecs: 1 << 63},
	} {
		m.CreatedBy, m.CreatedAt = "user", created.Format(time.RFC3339)
		text := line.AppendMessage(line.AppendMeta(nil, &m), &sessionlog.Message{Role: "user", Content: "turbines"})
		if err := os.WriteFile(filepath.Join(dir, name+".jsonl"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := sessionlog.OpenDir(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := search.NewIndex(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		since, until time.Time
		want         int
	}{
		{want: 3},
		{since: created.Add(time.Hour), want: 3},
		{since: created.Add(time.Hour + time.Second), want: 2},
		{until: created, want: 3},
		{until: created.Add(-time.Second), want: 0},
	} {
		r, err := x.Search(t.Context(), search.Query{Text: "turbines", Since: c.since, Until: c.until})
		if err != nil || len(r.Hits) != c.want {
			t.Errorf("since %v until %v: %d hits, %v; want %d", c.since, c.until, len(r.Hits), err, c.want)
		}
	}
}
