package crmem_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/crmem"
)

func TestSyntax(t *testing.T) {
	var now time.Time
	s := crmem.New(&crmem.Options{Now: func() time.Time { return now }})
	day := func(d int) crmem.UnixTime { return crmem.UnixTime(time.Date(2026, 4, d, 0, 0, 0, 0, time.UTC).Unix()) }
	for _, e := range []crmem.Entry{
		{Name: "rate", Content: "The rate-limit is 5; a letter of the green queue.", CreatedAt: day(1)},
		{Name: "limit", Content: "A limit of the RATE, and a dead letter queue", Aliases: []string{"rate limiter"}, CreatedAt: day(14)},
		{Name: "café", Content: "東京都庁のrate limit", Kind: crmem.Archive, CreatedAt: day(30)},
	} {
		now = time.Unix(int64(e.CreatedAt), 0)
		ok(t, s.Apply(crmem.Add{Name: e.Name, Content: e.Content, Kind: e.Kind, Aliases: e.Aliases}))
	}
	for query, want := range map[string]string{
		`rate limit`:                          "café limit rate",
		`"rate limit"`:                        "café rate",
		`"RATE LIMIT"`:                        "café rate",
		`"rate limi"`:                         "",
		`"東京都庁"`:                              "café",
		`rate -dead`:                          "café rate",
		`rate -"rate limit"`:                  "limit",
		`rate -"dead letter" -東京`:             "rate",
		`rate kind:archive`:                   "café",
		`rate kind:archive kind:note`:         "café limit rate",
		`name:rate`:                           "limit rate",
		`name:CAFE rate`:                      "café",
		`rate after:2026-04-14`:               "café limit",
		`rate before:2026-04-14`:              "rate",
		`rate after:2026-04-02 before:2027`:   "café limit",
		`rate after:2026-05`:                  "",
		`rate "after:soon" kind:page x:y -`:   "",
		`rate kind:page x:y -after:soon`:      "café limit rate",
		`rate before:1970-01-01`:              "café limit rate", // no clause: entries without a time have 0
		`rate before:1970-01-02`:              "",
		`"dead letter" "queue`:                "limit",
		`-rate`:                               "",
		`""`:                                  "",
		`"" rate`:                             "café limit rate",
		`:"`:                                  "",
		"rate " + strings.Repeat("-x ", 5000): "café limit rate",
		// The clauses after the 64th are text.
		strings.Repeat("-x ", 62) + "rate -dead":     "café rate",
		strings.Repeat("-x ", 63) + "rate -dead":     "café limit rate",
		strings.Repeat("-x ", 63) + "-dead rate":     "café rate",
		strings.Repeat("-x ", 64) + "-dead rate":     "café limit rate",
		strings.Repeat("-x ", 64) + "東京都庁":           "café",
		strings.Repeat("-x ", 65) + "kind:note 東京都庁": "café",
	} {
		r, err := s.Search(t.Context(), crmem.Query{Text: query, Syntax: true, Count: true})
		ok(t, err)
		var names []string
		for _, h := range r.Hits {
			names = append(names, h.Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != want || r.Total != len(names) {
			t.Errorf("%.60q finds %q, %d in all, want %q", query, got, r.Total, want)
		}
	}
}

// dated matches a query that can be refused: one with a clause that wants a date.
var dated = regexp.MustCompile(`(?i)(after|before):`)

func FuzzSyntax(f *testing.F) {
	s := crmem.New(nil)
	ok(f, s.Apply(crmem.Add{Name: "one", Content: "a rate limit, and 東京都庁 in the café"}))
	for _, q := range []string{`"rate limit" -dead`, `name:"one" kind:note after:2026`, `-"" : "`, "\xff\"\xff\" -\xff", `"東京`} {
		f.Add(q)
	}
	f.Add("rate after: before:x")
	f.Fuzz(func(t *testing.T, q string) {
		_, err := s.Search(t.Context(), crmem.Query{Text: q, Syntax: true, Limit: 3})
		if err != nil && !(errors.Is(err, crmem.ErrInvalid) && dated.MatchString(q)) {
			t.Fatal(err)
		}
	})
}

// TestQueryWithoutDate searches and explains queries with after: or before: and no valid date.
func TestQueryWithoutDate(t *testing.T) {
	s := crmem.New(nil)
	ok(t, s.Apply(crmem.Add{Name: "a", Content: "rate"}))
	for _, query := range []string{"rate after:soon", "before: rate", "after:2026-13", `after:"a day" rate`, "after:2026-04-31", "before:26", "after:" + strings.Repeat("x", 1<<16)} {
		q := crmem.Query{Text: query, Syntax: true}
		_, err := s.Search(t.Context(), q)
		_, _, explained := s.Explain(t.Context(), q, 1)
		for _, err := range []error{err, explained} {
			if !errors.Is(err, crmem.ErrInvalid) || !strings.Contains(err.Error(), ":2026-04, or ") || len(err.Error()) > 400 {
				t.Errorf("%.60q: %.500v", query, err)
			}
		}
		q.Syntax = false
		if _, err := s.Search(t.Context(), q); err != nil {
			t.Errorf("%.60q without clauses: %v", query, err)
		}
	}
}

// TestIndexingProgress builds an index and checks the reported steps.
func TestIndexingProgress(t *testing.T) {
	var mu sync.Mutex
	var calls, highest int
	s := crmem.New(&crmem.Options{Indexing: func(done, total int) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		if highest = max(highest, done); done < 1 || done > total || total != 300 {
			t.Errorf("%d of %d", done, total)
		}
	}})
	var ops []crmem.Op
	for i := range 300 {
		ops = append(ops, crmem.Add{Name: fmt.Sprint("entry ", i)})
	}
	ok(t, s.Apply(ops...))
	_, err := s.Search(t.Context(), crmem.Query{Text: "entry"})
	ok(t, err)
	if calls < 4 || highest != 300 {
		t.Errorf("%d calls, %d entries", calls, highest)
	}
}
