package crmem_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

var (
	readLazily  = crmem.Options{ReadOnly: true, Lazy: true}
	writeLazily = crmem.Options{Lazy: true, CheckpointOnClose: crmem.CheckpointNever}
	readAll     = crmem.Options{ReadOnly: true}
	writeAll    = crmem.Options{CheckpointOnClose: crmem.CheckpointNever}
)

// apply applies operations, one at a time, and closes the store.
func (c *indexScene) apply(o crmem.Options, ops ...crmem.Op) {
	c.t.Helper()
	s := c.open(o)
	for _, op := range ops {
		noErr(c.t, s.Apply(op))
	}
	noErr(c.t, s.Close())
}

// fold makes a checkpoint. Afterwards the files are old enough to be trusted.
func (c *indexScene) fold() {
	c.t.Helper()
	s := c.open(crmem.Options{})
	noErr(c.t, s.Checkpoint())
	noErr(c.t, s.Close())
	c.clock = c.clock.Add(time.Minute)
}

// save writes the index files of analyzers, of the present state.
func (c *indexScene) save(list ...analysis.Analyzer) {
	c.t.Helper()
	for _, a := range list {
		name := indexFiles[0]
		if a == analysis.Plain {
			name = indexFiles[1]
		}
		hidden := c.take()
		c.find(readLazily, crmem.Query{Text: "tea", Analyzer: a})
		b := c.bytes(name)
		c.put(hidden)
		c.fs.WriteFile(name, b, 0o600)
	}
}

// take removes the index files and returns them by name.
func (c *indexScene) take() map[string][]byte {
	data := map[string][]byte{}
	for _, name := range indexFiles {
		if c.hasFile(name) {
			data[name] = c.bytes(name)
		}
	}
	c.removeIndexes()
	return data
}

// put replaces the index files.
func (c *indexScene) put(data map[string][]byte) {
	c.removeIndexes()
	for name, b := range data {
		c.fs.WriteFile(name, b, 0o600)
	}
}

func (c *indexScene) bytes(name string) []byte {
	c.t.Helper()
	b, err := vfs.ReadFile(c.fs, name, 1<<30)
	noErr(c.t, err)
	return b
}

// find opens a store, searches it, and describes the hits.
func (c *indexScene) find(o crmem.Options, q crmem.Query) string {
	c.t.Helper()
	s := c.open(o)
	found := hits(c.t, s, q)
	noErr(c.t, s.Close())
	return found
}

// hits searches a store, and describes the hits.
func hits(t *testing.T, s *crmem.Store, q crmem.Query) string {
	t.Helper()
	r, err := s.Search(context.Background(), q)
	noErr(t, err)
	var b strings.Builder
	for _, h := range r.Hits {
		fmt.Fprintf(&b, "%d %q %q %v %v %v\n", h.ID, h.Name, h.Content, h.Aliases, h.Score, h.Marks.Notes())
	}
	return b.String()
}

// want compares the answers and the entries of a store with those of a store that uses
// no index files.
func (c *indexScene) want(what string, s *crmem.Store) {
	c.t.Helper()
	got := append(answers(c.t, s, 7), stateOf(c.t, s))
	hidden := c.take()
	warned := len(c.warn)
	plain := c.open(readAll)
	want := append(answers(c.t, plain, 7), stateOf(c.t, plain))
	noErr(c.t, plain.Close())
	c.warn = c.warn[:warned]
	c.put(hidden)
	compareAnswers(c.t, 7, what, got, want)
}

// stateOf loads a store and describes its entries.
func stateOf(t *testing.T, s *crmem.Store) string {
	t.Helper()
	noErr(t, s.Load())
	return fmt.Sprint(s.NextID(), " ", s.Len(), "\n") + stateText(slices.Collect(s.All())...)
}

// compareAll opens the store in each way and compares it with a store that uses no
// index files.
func (c *indexScene) compareAll(what string) {
	c.t.Helper()
	hidden := c.take()
	for name, o := range map[string]crmem.Options{"lazy reader": readLazily, "reader": readAll, "lazy writer": writeLazily, "writer": writeAll} {
		c.put(hidden)
		s := c.open(o)
		c.want(what+": "+name, s)
		noErr(c.t, s.Close())
	}
	c.put(hidden)
}

// few are entries with shared words.
func few(n int) (ops []crmem.Op) {
	for i := range n {
		ops = append(ops, crmem.Remember{Name: fmt.Sprintf("deploy %d", i), Content: fmt.Sprintf("tea coffee entry%d %s", i, strings.Repeat("canary ", i)), Aliases: []string{fmt.Sprint("ship ", i)}})
	}
	return ops
}

// TestIndexOlderFile uses an index file of the snapshot together with one of a later
// state of the log.
func TestIndexOlderFile(t *testing.T) {
	c := newIndexScene(t)
	c.apply(writeAll, few(5)...)
	c.fold()
	c.save(analysis.Standard, analysis.Plain)
	c.apply(writeAll, crmem.Remember{Name: "deploy 1", Content: "tea pot"}, crmem.Remove{Name: "deploy 2"}, crmem.Remember{Name: "new", Content: "tea"})
	for _, later := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
		old := c.take()
		c.put(old)
		c.save(later)
		mixed := c.take()
		for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
			want := c.find(readAll, crmem.Query{Text: "tea", Analyzer: a})
			c.put(mixed)
			if got := c.find(readLazily, crmem.Query{Text: "tea", Analyzer: a}); got != want {
				t.Errorf("%v file later, search with %v:\n%s\nwant\n%s", later, a, got, want)
			}
			c.removeIndexes()
		}
		c.put(mixed)
		c.compareAll(fmt.Sprint(later, " file later"))
		c.put(old)
	}
}

// TestIndexMismatchedLog replaces the snapshot by that of another store, which has an
// index file, and keeps the log.
func TestIndexMismatchedLog(t *testing.T) {
	other := newIndexScene(t)
	other.apply(writeAll, crmem.Remember{Name: "other", Content: "tea of the other store"})
	other.fold()

	c := newIndexScene(t)
	c.apply(writeAll, few(3)...)
	c.fold()
	c.apply(writeAll, crmem.Remember{Name: "logged", Content: "tea in the log"}, crmem.Remember{Name: "deploy 1", Content: "tea changed"})
	c.fs.WriteFile("/m.db", other.bytes("/m.db"), 0o600)
	c.clock = c.clock.Add(time.Minute)
	c.save(analysis.Standard)
	s := c.open(readLazily)
	c.want("a mismatched log", s)
	noErr(t, s.Close())
	if len(c.warn) == 0 {
		t.Error("no warning")
	}
}

// TestIndexOtherIdentity gives the store another identity after its index file was
// written. The operations of the log are then those of another store.
func TestIndexOtherIdentity(t *testing.T) {
	c := newIndexScene(t)
	c.apply(writeAll, few(3)...)
	c.fold()
	c.apply(writeAll, crmem.Remember{Name: "logged", Content: "tea in the log"}, crmem.Remember{Name: "deploy 1", Content: "tea changed"})
	c.save(analysis.Standard)
	other := newIndexScene(t)
	other.apply(writeAll, few(1)...)
	c.fs.WriteFile("/m.db-id", other.bytes("/m.db-id"), 0o600)
	for _, o := range []crmem.Options{readLazily, readAll} {
		s := c.open(o)
		c.want(fmt.Sprint("another identity, lazy ", o.Lazy), s)
		noErr(t, s.Close())
	}
}

// TestIndexAliasesAfterLoad searches a store that was loaded after its index file was
// opened. A relation names an alias.
func TestIndexAliasesAfterLoad(t *testing.T) {
	c := newIndexScene(t)
	c.apply(writeAll, crmem.Remember{Name: "old", Content: "deploy tea", Aliases: []string{"before"}},
		crmem.Remember{Name: "next", Content: "---\ncrabmem: 1\nsupersedes: \"[[before]]\"\n---\ndeploy tea coffee canary"})
	c.fold()
	c.save(analysis.Standard)
	q := crmem.Query{Text: "deploy " + strings.Repeat("tea ", 200)} // too long for a name
	want := c.find(readAll, q)
	s := c.open(readLazily)
	hits(t, s, crmem.Query{Text: "tea"})
	noErr(t, s.Load())
	if got := hits(t, s, q); got != want {
		t.Errorf("after Load:\n%swant\n%s", got, want)
	}
	noErr(t, s.Close())
}

// TestIndexClosesFiles counts the open files after uses of index files.
func TestIndexClosesFiles(t *testing.T) {
	change := func(sn *crmem.Snapshot) (*crmem.Snapshot, error) {
		list := slices.Collect(sn.All())
		return crmem.NewSnapshot(sn.NextID, list[1:])
	}
	for i, use := range []func(s *crmem.Store) error{
		func(s *crmem.Store) error { return s.Update(change) },
		func(s *crmem.Store) error { return s.Load() },
		func(s *crmem.Store) error { return s.Checkpoint() },
		func(s *crmem.Store) error { _, err := s.Purge("deploy 1"); return err },
		func(s *crmem.Store) error { s.Stats(); return nil },
		func(s *crmem.Store) error { return s.NewIdentity() },
		func(s *crmem.Store) error { return s.Replace(s.Snapshot()) },
	} {
		for _, o := range []crmem.Options{writeLazily, writeAll} {
			for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
				c := newIndexScene(t)
				c.apply(writeAll, few(4)...)
				c.fold()
				c.save(analysis.Standard, analysis.Plain)
				s := c.open(o)
				q := crmem.Query{Text: "tea", Analyzer: a}
				hits(t, s, q)
				noErr(t, use(s))
				hits(t, s, q)
				c.want(fmt.Sprint("use ", i), s)
				noErr(t, s.Close())
				if n := c.fs.OpenFiles(); n != 0 {
					t.Errorf("use %d, lazy %v, %v: %d open files", i, o.Lazy, a, n)
				}
			}
		}
	}
}

// TestIndexHashedLate replaces the snapshot in place, after a reader hashed it and within
// the granularity of its time of change. The reader closes later.
func TestIndexHashedLate(t *testing.T) {
	for _, saved := range []bool{false, true} {
		c := newIndexScene(t)
		c.apply(writeAll, crmem.Remember{Name: "a", Content: "tea"})
		c.fold()
		first := c.bytes("/m.db")
		c.apply(writeAll, crmem.Remember{Name: "a", Content: "pot"})
		c.fold()
		second := c.bytes("/m.db")
		if len(first) != len(second) {
			t.Fatal("the snapshots have other sizes")
		}
		noErr(t, c.fs.Remove("/m.db-wal"))
		noErr(t, c.fs.Remove("/m.db-wal.held"))
		c.fs.WriteFile("/m.db", first, 0o600)
		if saved {
			c.save(analysis.Standard)
		}
		s := c.open(readLazily)
		hits(t, s, crmem.Query{Text: "tea"})
		c.fs.WriteFile("/m.db", second, 0o600)
		c.clock = c.clock.Add(time.Minute)
		noErr(t, s.Close())
		s = c.open(readLazily)
		c.want(fmt.Sprint("saved before: ", saved), s)
		noErr(t, s.Close())
	}
}

// TestIndexAfterClose uses a closed store, which must neither panic nor give an answer
// of a part of the store.
func TestIndexAfterClose(t *testing.T) {
	c := newIndexScene(t)
	c.apply(writeAll, few(4)...)
	c.fold()
	c.save(analysis.Standard)
	s := c.open(readLazily)
	hits(t, s, crmem.Query{Text: "tea"})
	noErr(t, s.Close())
	if e, err := s.Get("deploy 3"); err == nil && e.Name != "deploy 3" || errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("Get: %v, %v", e, err)
	}
	if r, err := s.Search(context.Background(), crmem.Query{Text: "coffee"}); err == nil && len(r.Hits) != 4 {
		t.Errorf("Search: %d hits without an error", len(r.Hits))
	}
	if n := c.fs.OpenFiles(); n != 0 {
		t.Errorf("%d open files", n)
	}
}

// TestIndexStats compares the statistics of indexes.
func TestIndexStats(t *testing.T) {
	c := newIndexScene(t)
	c.apply(writeAll, few(4)...)
	c.fold()
	for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
		var list []string
		for _, o := range []crmem.Options{readAll, readLazily, readAll} {
			s := c.open(o)
			st, err := s.IndexStats(t.Context(), a)
			noErr(t, err)
			list = append(list, fmt.Sprint(st.Docs))
			noErr(t, s.Close())
			c.save(a)
		}
		if list[0] != list[1] || list[0] != list[2] {
			t.Errorf("%v: documents %v", a, list)
		}
	}
}

// TestIndexReadFailsAfterSync removes and changes an entry that cannot be read again
// when its operation is on disk.
func TestIndexReadFailsAfterSync(t *testing.T) {
	t.Parallel()
	race.Skip(t)
	c := newIndexScene(t)
	long := strings.Repeat("x", 6<<20)
	for i := range 3 {
		c.apply(writeAll, crmem.Remember{Name: fmt.Sprint("long ", i), Content: long})
	}
	c.apply(writeAll, few(3)...)
	c.fold()
	c.save(analysis.Standard)
	for _, op := range []crmem.Op{crmem.Remove{Name: "deploy 1"}, crmem.Remember{Name: "deploy 1", Content: "new"}, crmem.Rename{Name: "deploy 1", To: "new"}} {
		c := c.copyOf()
		s := c.open(writeLazily)
		c.fs.Hook = func(call faultfs.Call) error {
			if call.Op != "datasync" {
				return nil
			}
			c.fs.Hook = nil
			for i := range 3 { // more than the file keeps
				_, err := s.Get(fmt.Sprint("long ", i))
				noErr(t, err)
			}
			c.fs.Hook = func(call faultfs.Call) error {
				if call.Op == "read" && call.Name == "/m.db" {
					return syscall.EIO
				}
				return nil
			}
			return nil
		}
		noErr(t, s.Apply(op))
		if e, err := s.Get("deploy 1"); err == nil && e.Content != "new" || err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, crmem.ErrNotFound) {
			t.Errorf("%T: %v, %v", op, e, err)
		}
		c.fs.Hook = nil
		noErr(t, s.Apply(crmem.Remember{Name: "after", Content: "tea"}))
		c.want(fmt.Sprintf("%T", op), s)
		noErr(t, s.Close())
	}
}
