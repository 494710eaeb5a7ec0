package crmem_test

import (
	"testing"

	"crabmem/crmem"
)

// TestStatsCountEntries compares the figures with those of the entries.
func TestStatsCountEntries(t *testing.T) {
	s := crmem.New(nil)
	var want crmem.Stats
	for i, e := range []crmem.Entry{
		{Name: "a", Content: "abc", Aliases: []string{"x", "y"}, CreatedAt: 5}, {Name: "b", Kind: crmem.Archive, Content: "de", CreatedAt: 3},
		{Name: "c", Aliases: []string{"z"}, CreatedAt: 9}, {Name: "d", Content: "f", CreatedAt: 7},
	} {
		e.ID = uint64(i + 1)
		ok(t, s.Apply(crmem.Restore{Entry: e}))
		want.NextID = e.ID + 1
		want.Entries++
		want.LogOps++
		if want.Notes++; e.Kind == crmem.Archive {
			want.Notes--
			want.Archives++
		}
		want.Aliases += len(e.Aliases)
		want.ContentBytes += int64(len(e.Content))
		want.Oldest, want.Newest = []crmem.UnixTime{5, 3, 3, 3}[i], []crmem.UnixTime{5, 5, 9, 9}[i]
		if got := s.Stats(); got != want {
			t.Errorf("after %s: %+v, want %+v", e.Name, got, want)
		}
	}
}
