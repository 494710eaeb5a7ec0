package crmem_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// twoSnapshots returns a store without a log, and two snapshots of it of one size.
func twoSnapshots(t *testing.T) (c *indexScene, first, second []byte) {
	c = newIndexScene(t)
	c.apply(writeAll, few(30)...)
	c.fold()
	first = c.bytes("/m.db")
	c.apply(writeAll, crmem.Remember{Name: "deploy 0", Content: "pot coffee entry0 "}, crmem.Rename{Name: "deploy 1", To: "deploy X"},
		crmem.Alias{Name: "deploy X", Aliases: []string{"ship 1"}})
	c.fold()
	second = c.bytes("/m.db")
	if len(first) != len(second) || bytes.Equal(first, second) {
		t.Fatal("the snapshots have other sizes, or are equal")
	}
	for _, name := range []string{"/m.db-wal", "/m.db-wal.held", "/m.db-lock"} {
		noErr(t, c.fs.Remove(name))
	}
	return c, first, second
}

// TestIndexTrust opens an index file that was written some time after the last change of
// the snapshot. The snapshot is hashed again unless that was two seconds, and its times
// and its size are those of the file.
func TestIndexTrust(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, 2*time.Second - 1, 2 * time.Second, time.Hour} {
		c, first, second := twoSnapshots(t)
		changed := c.clock
		c.fs.WriteFile("/m.db", first, 0o600)
		c.clock = changed.Add(after)
		c.save(analysis.Standard)
		file := c.take()
		read := func() (n int) {
			c.put(file)
			c.fs.Hook = func(call faultfs.Call) error {
				if call.Op == "read" && call.Name == "/m.db" {
					n += min(call.Size, len(first))
				}
				return nil
			}
			s := c.open(readLazily)
			c.fs.Hook = nil
			if !crmem.UsesIndexFile(s) {
				t.Errorf("after %v: the file is not used", after)
			}
			noErr(t, s.Close())
			return n
		}
		if n := read(); n < len(first) != (after >= 2*time.Second) {
			t.Errorf("after %v: read %d bytes of %d", after, n, len(first))
		}
		c.clock = changed.Add(time.Minute)
		c.fs.WriteFile("/m.db", first, 0o600) // now its time differs
		if n := read(); n < len(first) {
			t.Errorf("after %v, with another time: read %d bytes of %d", after, n, len(first))
		}
		c.clock = changed
		c.fs.WriteFile("/m.db", second, 0o600)
		c.clock = changed.Add(time.Minute)
		c.put(file)
		if s := c.open(readLazily); after < 2*time.Second {
			c.want("another snapshot with the same time", s)
			noErr(t, s.Close())
		} else {
			_ = s.Load() // an error: programs do not overwrite a snapshot in place within its time
			_ = s.Close()
		}
		// The next close makes the file trusted.
		c.clock = changed
		c.fs.WriteFile("/m.db", first, 0o600)
		c.clock = changed.Add(time.Minute)
		read()
		if after < 2*time.Second {
			file = c.take()
		}
		if n := read(); n >= len(first) {
			t.Errorf("after %v, confirmed: read %d bytes of %d", after, n, len(first))
		}
	}
}

// TestIndexChangeTime overwrites a snapshot in place and restores its modification time.
func TestIndexChangeTime(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("SKIPPED: no time of change")
	}
	_, first, second := twoSnapshots(t)
	path := filepath.Join(t.TempDir(), "m.db")
	noErr(t, os.WriteFile(path, first, 0o600))
	later := time.Now().Add(time.Hour)
	o := &crmem.Options{ReadOnly: true, Lazy: true, Now: func() time.Time { return later }}
	found := func() string {
		s, err := crmem.Open(path, o)
		noErr(t, err)
		text := hits(t, s, crmem.Query{Text: "deploy"})
		noErr(t, s.Load())
		noErr(t, s.Close())
		return text
	}
	found()
	fi, err := os.Stat(path)
	noErr(t, err)
	for now := fi; vfs.ChangeTime(now).Equal(vfs.ChangeTime(fi)); { // its granularity may be coarse
		noErr(t, os.WriteFile(path, second, 0o600))
		noErr(t, os.Chtimes(path, time.Time{}, fi.ModTime()))
		now, err = os.Stat(path)
		noErr(t, err)
		if !now.ModTime().Equal(fi.ModTime()) || now.Size() != fi.Size() {
			t.Fatal("the modification time or the size differs")
		}
	}
	got := found()
	noErr(t, errors.Join(os.Remove(path+"-index-standard"), os.Chtimes(path, later, later)))
	if want := found(); got != want {
		t.Errorf("found\n%swant\n%s", got, want)
	}
}

// TestIndexWriterTrust opens a store for writing after a clean end, and after others.
// Only after a clean end of this boot it uses the index file.
func TestIndexWriterTrust(t *testing.T) {
	base := crashScene(t)
	for what, end := range map[string]func(c *indexScene){
		"clean":        func(c *indexScene) {},
		"another boot": func(c *indexScene) { c.fs = c.fs.Crash() },
		"unclean": func(c *indexScene) {
			s := c.open(writeAll)
			noErr(c.t, s.Apply(crmem.Remember{Name: "new", Content: "tea"}))
			m := c.fs.Kill()
			_ = s.Close()
			c.fs = m
		},
		"no lock file": func(c *indexScene) { noErr(c.t, c.fs.Remove("/m.db-lock")) },
		"no text":      func(c *indexScene) { c.fs.WriteFile("/m.db-lock", nil, 0o600) },
		"longer log": func(c *indexScene) {
			c.fs.WriteFile("/m.db-wal", append(c.bytes("/m.db-wal"), 1, 2, 3), 0o600)
		},
	} {
		c := base.copyOf()
		end(c)
		s := c.open(writeLazily)
		if used := crmem.UsesIndexFile(s); used != (what == "clean") {
			t.Errorf("%s: uses the index file: %v", what, used)
		}
		c.want(what, s)
		noErr(t, s.Close())
	}
}

// TestIndexDisplaced replaces files while a lazy writer has the store open. It keeps the
// complete state.
func TestIndexDisplaced(t *testing.T) {
	base := crashScene(t)
	for _, name := range []string{"/m.db", "/m.db-wal"} {
		for _, write := range []bool{false, true} {
			c := base.copyOf()
			s := c.open(writeLazily)
			noErr(t, s.Apply(crmem.Remember{Name: "acknowledged", Content: "tea"}))
			b := c.bytes(name)
			noErr(t, c.fs.Remove(name))
			c.fs.WriteFile(name, b, 0o600)
			if write {
				if err := s.Apply(crmem.Remember{Name: "deploy 2", Content: "changed"}); name == "/m.db-wal" && err == nil {
					t.Errorf("%s: the write is acknowledged", name)
				}
			}
			if err := errors.Join(s.Checkpoint(), s.Close()); err == nil {
				t.Errorf("%s: no error", name)
			}
			kept := ""
			entries, err := c.fs.ReadDir("/")
			noErr(t, err)
			for _, e := range entries {
				if ok, _ := filepath.Match("m.db.own-*", e.Name()); ok {
					kept = "/" + e.Name()
				}
			}
			if kept == "" {
				t.Fatalf("%s: no copy was kept", name)
			}
			sn, err := crmem.Decode(c.bytes(kept))
			noErr(t, err)
			if sn.Len() != 7 {
				t.Errorf("%s: the copy has %d entries", name, sn.Len())
			}
			if n := c.fs.OpenFiles(); n != 0 {
				t.Errorf("%s: %d open files", name, n)
			}
		}
	}
}

// TestIndexRot changes a bit of the snapshot, whose times stay. A lazy store gives the
// right answer, or an error: that of a complete store, if there is one. The next command
// then does what it does without an index file.
func TestIndexRot(t *testing.T) {
	t.Parallel()
	race.Skip(t)
	synctest.Test(t, testIndexRot)
}

func testIndexRot(t *testing.T) {
	c := newIndexScene(t)
	c.apply(crmem.Options{CheckpointOnClose: crmem.CheckpointAlways}, few(4)...)
	changed := c.clock
	c.clock = changed.Add(time.Minute)
	c.save(analysis.Standard)
	file, b := c.take(), c.bytes("/m.db")
	q := crmem.Query{Text: "coffee entry2"}
	right, err := c.ask(readAll, q, false)
	noErr(t, err)
	c.removeIndexes()
	for at := 0; at < len(b); at += rotStep(7) {
		c.clock = changed
		c.fs.WriteFile("/m.db", flipBit(b, uint64(at), at%8), 0o600)
		c.clock = changed.Add(time.Minute)
		c.removeIndexes()
		want, werr := c.ask(readAll, q, false)
		c.put(file)
		got, err := c.ask(readLazily, q, false)
		if err == nil && got != right {
			t.Fatalf("bit of byte %d: found\n%s", at, got)
		}
		if got, err = c.ask(readLazily, q, true); err == nil && (werr != nil || got != want) || werr != nil && !errors.Is(err, crmem.ErrFormat) {
			t.Fatalf("bit of byte %d: lazy %v, complete %v", at, err, werr)
		}
		if got, err = c.ask(readLazily, q, true); (err == nil) != (werr == nil) || err == nil && got != want {
			t.Fatalf("bit of byte %d, the next command: %v, found\n%s\nwant %v\n%s", at, err, got, werr, want)
		}
	}
}

// ask opens a store, searches it, maybe loads it, and describes the hits.
func (c *indexScene) ask(o crmem.Options, q crmem.Query, load bool) (string, error) {
	s, err := crmem.Open("/m.db", c.options(o))
	if err != nil {
		return "", err
	}
	found := ""
	r, err := s.Search(c.t.Context(), q)
	for _, h := range r.Hits {
		found += stateText(h.Entry)
	}
	if err == nil && load {
		err = s.Load()
	}
	return found, errors.Join(err, s.Close())
}
