package lint_test

import (
	"slices"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/lint"
)

// TestUnread finds the old entries that neither a search nor Get returned.
func TestUnread(t *testing.T) {
	clock := now.Add(-40 * 24 * time.Hour)
	s := crmem.New(&crmem.Options{CountReads: true, Now: func() time.Time { return clock }})
	defer s.Close()
	for _, name := range []string{"searched", "read", "never read", "old"} {
		add(t, s, name, "text of "+name)
	}
	clock = now.Add(-29 * 24 * time.Hour)
	add(t, s, "young", "a new text")
	if list, counted := lint.Unread(s, now); list != nil || counted {
		t.Errorf("without counts: %v, %v", list, counted)
	}
	if _, err := s.Get("read"); err != nil {
		t.Fatal(err)
	}
	r, err := s.Search(t.Context(), crmem.Query{Text: "searched"})
	if err != nil || len(r.Hits) != 1 {
		t.Fatalf("search: %v, %v", r.Hits, err)
	}
	var got []string
	list, counted := lint.Unread(s, now)
	for _, f := range list {
		got = append(got, format(f))
	}
	want := []string{
		"unread never read:0 no search found it in its 40 days [] | run crabmem show 'never read', and run crabmem forget 'never read' if it is not needed",
		"unread old:0 no search found it in its 40 days [] | run crabmem show old, and run crabmem forget old if it is not needed",
	}
	if !slices.Equal(got, want) || !counted {
		t.Errorf("counted %v, got\n%q, want\n%q", counted, got, want)
	}
}
