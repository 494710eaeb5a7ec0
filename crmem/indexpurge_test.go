package crmem_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// wantNoWord checks that no file contains one of several words. The dictionary of an
// index omits bytes at the beginning of a word, so pass words without their beginning.
func (c *indexScene) wantNoWord(what string, words ...string) {
	c.t.Helper()
	entries, err := c.fs.ReadDir("/")
	noErr(c.t, err)
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		for _, w := range words {
			if bytes.Contains(bytes.ToLower(c.bytes("/"+e.Name())), []byte(w)) {
				c.t.Errorf("%s: %s contains the purged %q", what, e.Name(), w)
			}
		}
	}
}

// purged are the words of the purged entry, without their beginnings.
var purged = []string{"rypticname", "ardamomtext", "affronalias", "ormerword"}

// purgeScene is a store with an entry to purge, index files, and a log.
func purgeScene(t *testing.T) *indexScene {
	c := newIndexScene(t)
	c.apply(writeAll, few(4)...)
	c.apply(writeAll, crmem.Remember{Name: "crypticname", Content: "formerword tea"})
	c.fold()
	c.apply(writeAll, crmem.Remember{Name: "crypticname", Content: "Cardamomtext tea", Aliases: []string{"saffronalias"}})
	c.save(analysis.Standard, analysis.Plain)
	return c
}

// TestIndexPurge purges an entry while processes of several kinds have the store open.
// Some wrote the index before, some write it after the purge.
func TestIndexPurge(t *testing.T) {
	t.Parallel()
	q := crmem.Query{Text: "cardamomtext crypticname tea"}
	search := func(s *crmem.Store) {
		hits(t, s, q)
		hits(t, s, crmem.Query{Text: q.Text, Analyzer: analysis.Plain})
	}
	for _, lazy := range []bool{false, true} {
		for _, index := range []string{"none", "file", "built"} {
			c := purgeScene(t)
			var open []*crmem.Store
			for _, o := range []crmem.Options{readLazily, readAll} {
				open = append(open, c.open(o), c.open(o))
				search(open[len(open)-1])
			}
			files := c.take()
			builder := c.open(readLazily)
			search(builder)
			c.put(files)
			w := c.open(crmem.Options{Lazy: lazy, CheckpointOnClose: crmem.CheckpointAlways})
			switch index {
			case "built":
				c.removeIndexes()
				search(w)
				c.put(files)
			case "file":
				search(w)
			}
			_, err := w.Purge("crypticname")
			noErr(t, err)
			c.wantNoWord("after the purge", purged...)
			c.clock = c.clock.Add(time.Minute)
			for _, s := range append(open, builder) {
				if e, err := s.Get("crypticname"); err == nil && e.Name != "crypticname" {
					t.Errorf("a store that was open: %v", e)
				}
				noErr(t, s.Close())
			}
			c.wantNoWord("after the readers closed", purged...)
			noErr(t, w.Apply(crmem.Remember{Name: "later", Content: "tea"}))
			search(w)
			noErr(t, w.Apply(crmem.Remember{Name: "later", Content: "more tea"}))
			noErr(t, w.Checkpoint())
			c.wantNoWord("after a checkpoint of the process", purged...)
			noErr(t, w.Apply(crmem.Remember{Name: "last", Content: "tea"}))
			noErr(t, w.Close())
			c.wantNoWord("after the process", purged...)
			if found := c.find(readLazily, q); strings.Contains(found, "cryptic") {
				t.Errorf("found %s", found)
			}
			c.wantNoWord("after the next search", purged...)
			c.compareAll("after the purge")
		}
	}
}

// TestIndexTexts checks that an index file contains no texts, however the program opened
// the store.
func TestIndexTexts(t *testing.T) {
	for _, first := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
		c := newIndexScene(t)
		c.apply(writeAll, crmem.Remember{Name: "deploy", Content: "tea in the snapshot"})
		c.fold()
		c.apply(writeAll, crmem.Remember{Name: "logged", Content: "tea in the log"})
		c.save(first)
		// The second analyzer has no file: the store is loaded.
		c.find(readLazily, crmem.Query{Text: "tea", Analyzer: 1 - first})
		for _, name := range indexFiles {
			b := c.bytes(name)
			if bytes.Contains(b, []byte("tea in the snapshot")) || bytes.Contains(b, []byte("tea in the log")) {
				t.Errorf("%v first: %s has texts", first, name)
			}
		}
	}
}

// TestIndexFailedWrite searches while the log has an operation whose write then fails. The
// writer cuts the log and gives its number to another operation.
func TestIndexFailedWrite(t *testing.T) {
	c := newIndexScene(t)
	c.apply(writeAll, few(4)...)
	c.fold()
	w := c.open(writeAll)
	noErr(t, w.Apply(crmem.Remember{Name: "first", Content: "tea"}))
	saved := false
	c.fs.Hook = func(call faultfs.Call) error {
		switch {
		case call.Name == "/m.db-wal" && call.Op == "write" && !saved:
			return &faultfs.Fault{Err: syscall.ENOSPC, Done: true}
		case call.Name == "/m.db-wal" && call.Op == "truncate" && !saved:
			saved = true
			c.save(analysis.Standard, analysis.Plain)
		}
		return nil
	}
	if err := w.Apply(crmem.Remember{Name: "lost", Content: "tea lost"}); !errors.Is(err, crmem.ErrNotApplied) || !saved {
		t.Fatalf("the write that fails: %v, index written %v", err, saved)
	}
	c.fs.Hook = nil
	files := c.take()
	c.put(files)
	noErr(t, w.Apply(crmem.Remember{Name: "next", Content: "another text with tea"}))
	for _, o := range []crmem.Options{readLazily, readAll} {
		c.put(files)
		s := c.open(o)
		c.want(fmt.Sprint("lazy ", o.Lazy), s)
		noErr(t, s.Close())
	}
	noErr(t, w.Close())
	c.put(files)
	c.compareAll("after the writer")
}

// TestIndexRewrittenLog writes index files of states of a log that then changes: the
// log is repaired, undone, or continued by another operation of the same number.
func TestIndexRewrittenLog(t *testing.T) {
	t.Parallel()
	race.Skip(t)
	for _, change := range []string{"undo", "cut", "repair", "checkpoint", "older", "identity"} {
		for ops := range 3 {
			c := newIndexScene(t)
			c.apply(writeAll, few(5)...)
			c.fold()
			base := c.bytes("/m.db-wal")
			c.apply(writeAll, few(6)[5:]...)
			for i := range ops {
				c.apply(writeAll, crmem.Remember{Name: []string{"deploy 1", "first"}[i], Content: "tea one"})
			}
			lock := c.bytes("/m.db-lock")
			log := c.bytes("/m.db-wal")
			c.apply(writeAll, crmem.Remember{Name: "lost", Content: "tea lost"}, crmem.Rename{Name: "deploy 3", To: "deploy lost"})
			c.save(analysis.Standard, analysis.Plain)
			switch change {
			case "undo":
				s := c.open(writeAll)
				var last crmem.Change
				for ch, err := range s.Changes() {
					noErr(t, err)
					last = ch
				}
				_, err := s.Undo(last.Seq)
				noErr(t, err)
				noErr(t, s.Close())
			case "cut", "repair": // the last operations were never acknowledged
				c.fs.WriteFile("/m.db-wal", log, 0o600)
				c.fs.WriteFile("/m.db-lock", lock, 0o600)
				c.fs.Remove("/m.db-wal.held")
				if change == "repair" {
					b := slices.Concat(log, []byte("torn"))
					c.fs.WriteFile("/m.db-wal", b, 0o600)
				}
			case "older":
				c.fs.WriteFile("/m.db-wal", base, 0o600)
				c.fs.Remove("/m.db-wal.held")
				c.fs.Remove("/m.db-lock")
			case "checkpoint":
				c.fold()
			case "identity":
				s := c.open(writeAll)
				noErr(t, s.NewIdentity())
				noErr(t, s.Close())
			}
			c.compareAll(change)
			files := c.take()
			c.put(files)
			c.apply(writeAll, crmem.Remember{Name: "other", Content: "tea of another operation"}, crmem.Remember{Name: "deploy 3", Content: "tea again"})
			c.compareAll(change + ", and other operations of the same numbers")
			c.fold()
			c.compareAll(change + ", and a checkpoint")
		}
	}
}
