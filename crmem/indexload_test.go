package crmem_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
)

// TestIndexLoadsStore opens a store through an index file and loads it in the background.
// Answers before, during, and after that, with changes between them, are those of a
// complete store.
func TestIndexLoadsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newIndexScene(t)
		c.apply(writeAll, few(30)...)
		c.fold()
		c.save(analysis.Standard, analysis.Plain)
		c.apply(writeAll, few(3)...)
		s := c.open(writeLazily)
		change := func(content string) {
			noErr(t, s.Apply(crmem.Remember{Name: "deploy 3", Content: content}, crmem.Add{Name: content, Content: "tea"}))
		}
		if !crmem.UsesIndexFile(s) {
			t.Fatal("the store does not use the index file")
		}
		change("changed before Index")
		hits(t, s, crmem.Query{Text: "tea", Analyzer: analysis.Plain}) // opens the other index
		c.want("before", s)
		noErr(t, s.Close())

		s = c.open(writeLazily)
		hits(t, s, crmem.Query{Text: "tea", Analyzer: analysis.Plain})
		change("changed before loading")
		s.Index(analysis.Standard)
		s.Index(analysis.Standard)
		for i := range 20 {
			change(string(rune('a' + i)))
			hits(t, s, crmem.Query{Text: "tea coffee"})
		}
		if synctest.Wait(); !crmem.InMemory(s) {
			t.Error("the store is not loaded")
		}
		c.want("loaded", s)
		change("changed after loading")
		c.want("changed", s)
		noErr(t, s.Checkpoint())
		c.want("after a checkpoint", s)
		noErr(t, s.Close())
		c.compareAll("at the end")

		// Close during the loading.
		for range 20 {
			s := c.open(writeLazily)
			s.Index(analysis.Standard)
			noErr(t, s.Close())
		}
	})
}

// TestIndexLoadFails loads a store whose snapshot was changed after it was opened. The
// store stops, and Close returns the reason.
func TestIndexLoadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newIndexScene(t)
		c.apply(writeAll, few(4)...)
		c.fold()
		c.save(analysis.Standard)
		s := c.open(writeLazily)
		if !crmem.UsesIndexFile(s) {
			t.Fatal("the store does not use the index file")
		}
		b, at := c.bytes("/m.db"), c.clock
		c.clock = at.Add(-time.Minute) // the times of the file stay
		c.fs.WriteFile("/m.db", flipBit(b, uint64(len(b)-1), 0), 0o600)
		c.clock = at
		s.Index(analysis.Standard)
		if synctest.Wait(); s.Apply(crmem.Remember{Name: "x", Content: "y"}) == nil {
			t.Error("the store takes writes")
		}
		if err := s.Close(); !errors.Is(err, crmem.ErrStopped) || !errors.Is(err, crmem.ErrForeign) {
			t.Errorf("Close: %v", err)
		}
		if len(c.warn) != 1 || !strings.Contains(c.warn[0], "/m.db changed after it was opened") {
			t.Errorf("warnings %q", c.warn)
		}
	})
}
