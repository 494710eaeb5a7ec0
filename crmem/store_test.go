package crmem_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

// open opens a store. A cleanup checks the files.
func open(t *testing.T, path string, o *crmem.Options) *crmem.Store {
	t.Helper()
	s, err := crmem.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
			t.Errorf("close: %v", err)
		}
		if _, err := os.Stat(path); err != nil {
			return // never written
		}
		r, err := crmem.Check(vfs.OS{}, path, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Problems) > 0 {
			t.Errorf("after the test: %+v", r.Problems)
		}
	})
	return s
}

func at(sec int64) func() time.Time { return func() time.Time { return time.Unix(sec, 0) } }

// TestOps runs operations in sequence on one store, and compares each result
// and the entries after it.
func TestOps(t *testing.T) {
	long := strings.Repeat("n", crmem.MaxName)
	table := []struct {
		name string
		ops  []crmem.Op
		err  error
		want string // id:name/kind=content[aliases], as in show
	}{
		{"add", []crmem.Op{crmem.Add{Name: "a", Content: "one", Aliases: []string{"x"}}}, nil, "1:a/note=one[x]"},
		{"add again", []crmem.Op{crmem.Add{Name: "a", Content: "two"}}, crmem.ErrExists, "1:a/note=one[x]"},
		{"add archive", []crmem.Op{crmem.Add{Name: "b", Content: "old", Kind: crmem.Archive}}, nil, "1:a/note=one[x] 2:b/archive=old[]"},
		{"update keeps id and kind", []crmem.Op{crmem.Update{Name: "b", Content: "new", Aliases: []string{"y", "z"}}}, nil, "1:a/note=one[x] 2:b/archive=new[y z]"},
		{"update of nothing", []crmem.Op{crmem.Update{Name: "c"}}, crmem.ErrNotFound, "1:a/note=one[x] 2:b/archive=new[y z]"},
		{"alias replaces", []crmem.Op{crmem.Alias{Name: "b", Aliases: []string{"w"}}}, nil, "1:a/note=one[x] 2:b/archive=new[w]"},
		{"alias of nothing", []crmem.Op{crmem.Alias{Name: "c"}}, crmem.ErrNotFound, "1:a/note=one[x] 2:b/archive=new[w]"},
		{"remove", []crmem.Op{crmem.Remove{Name: "b"}}, nil, "1:a/note=one[x]"},
		{"remove of nothing", []crmem.Op{crmem.Remove{Name: "b"}}, crmem.ErrNotFound, "1:a/note=one[x]"},
		{"ids are not used again", []crmem.Op{crmem.Add{Name: "b"}}, nil, "1:a/note=one[x] 3:b/note=[]"},
		{"a batch sees itself", []crmem.Op{crmem.Add{Name: "c"}, crmem.Update{Name: "c", Content: "c2"}, crmem.Remove{Name: "b"}, crmem.Add{Name: "b", Content: "b2"}}, nil,
			"1:a/note=one[x] 4:c/note=c2[] 5:b/note=b2[]"},
		{"a batch is all or nothing", []crmem.Op{crmem.Remove{Name: "a"}, crmem.Add{Name: "b"}}, crmem.ErrExists, "1:a/note=one[x] 4:c/note=c2[] 5:b/note=b2[]"},
		{"no operation", nil, nil, "1:a/note=one[x] 4:c/note=c2[] 5:b/note=b2[]"},
		{"restore keeps id and time", []crmem.Op{crmem.Restore{Entry: crmem.Entry{ID: 9, Name: "r", CreatedAt: 7}}}, nil,
			"1:a/note=one[x] 4:c/note=c2[] 5:b/note=b2[] 9:r/note=[]"},
		{"restore of a used id", []crmem.Op{crmem.Restore{Entry: crmem.Entry{ID: 2, Name: "s"}}}, nil,
			"1:a/note=one[x] 4:c/note=c2[] 5:b/note=b2[] 9:r/note=[] 10:s/note=[]"},
		{"restore of a taken name", []crmem.Op{crmem.Restore{Entry: crmem.Entry{ID: 20, Name: "s"}}}, crmem.ErrExists,
			"1:a/note=one[x] 4:c/note=c2[] 5:b/note=b2[] 9:r/note=[] 10:s/note=[]"},
		{"empty all", []crmem.Op{crmem.Remove{Name: "a"}, crmem.Remove{Name: "b"}, crmem.Remove{Name: "c"}, crmem.Remove{Name: "r"}, crmem.Remove{Name: "s"}}, nil, ""},
		{"restore into an empty store keeps ids", []crmem.Op{crmem.Restore{Entry: crmem.Entry{ID: 5, Name: "five"}}, crmem.Restore{Entry: crmem.Entry{ID: 3, Name: "three"}},
			crmem.Restore{Entry: crmem.Entry{ID: 3, Name: "again"}}}, nil, "3:three/note=[] 5:five/note=[] 11:again/note=[]"},
		{"empty name", []crmem.Op{crmem.Add{}}, crmem.ErrInvalid, "3:three/note=[] 5:five/note=[] 11:again/note=[]"},
		{"NUL in a name", []crmem.Op{crmem.Add{Name: "a\x00b"}}, crmem.ErrInvalid, "3:three/note=[] 5:five/note=[] 11:again/note=[]"},
		{"invalid UTF-8", []crmem.Op{crmem.Add{Name: "u", Content: "\xff"}}, crmem.ErrInvalid, "3:three/note=[] 5:five/note=[] 11:again/note=[]"},
		{"invalid alias", []crmem.Op{crmem.Alias{Name: "five", Aliases: []string{""}}}, crmem.ErrInvalid, "3:three/note=[] 5:five/note=[] 11:again/note=[]"},
		{"name too long", []crmem.Op{crmem.Add{Name: long + "n"}}, crmem.ErrInvalid, "3:three/note=[] 5:five/note=[] 11:again/note=[]"},
		{"too many aliases", []crmem.Op{crmem.Alias{Name: "five", Aliases: slices.Repeat([]string{"a"}, crmem.MaxAliases+1)}}, crmem.ErrInvalid, "3:three/note=[] 5:five/note=[] 11:again/note=[]"},
		{"content too long", []crmem.Op{crmem.Update{Name: "five", Content: strings.Repeat("c", crmem.MaxContent+1)}}, crmem.ErrInvalid, "3:three/note=[] 5:five/note=[] 11:again/note=[]"},
		{"unknown kind", []crmem.Op{crmem.Add{Name: "k", Kind: 2}}, crmem.ErrInvalid, "3:three/note=[] 5:five/note=[] 11:again/note=[]"},
		{"no id above", []crmem.Op{crmem.Restore{Entry: crmem.Entry{ID: math.MaxUint64, Name: "k"}}}, crmem.ErrInvalid, "3:three/note=[] 5:five/note=[] 11:again/note=[]"},
	}
	variants := map[string]*crmem.Options{
		"log": {}, "literal": {Literal: true}, "small log": {LogLimit: 1}, "reopened": {CheckpointOnClose: crmem.CheckpointNever},
	}
	for _, v := range slices.Sorted(maps.Keys(variants)) {
		t.Run(v, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "memory.db")
			o := variants[v]
			o.Now = at(100)
			s := open(t, path, o)
			ram := crmem.New(o)
			for _, c := range table {
				for _, st := range []*crmem.Store{s, ram} {
					if err := st.Apply(c.ops...); !errors.Is(err, c.err) || c.err == nil && err != nil {
						t.Fatalf("%s: %v, want %v", c.name, err, c.err)
					}
				}
				if v == "reopened" {
					ok(t, s.Close())
					s = open(t, path, o)
				}
				if got := show(s); got != c.want {
					t.Fatalf("%s:\n got %s\nwant %s", c.name, got, c.want)
				}
				if got := show(ram); got != c.want {
					t.Fatalf("%s, in RAM:\n got %s\nwant %s", c.name, got, c.want)
				}
			}
			ok(t, s.Checkpoint())
			b, err := os.ReadFile(path)
			ok(t, err)
			sn, err := crmem.Decode(b)
			ok(t, err)
			if diff := cmp.Diff(slices.Collect(sn.All()), slices.Collect(s.All())); diff != "" {
				t.Errorf("the file is not the store: %s", diff)
			}
		})
	}
}

func show(s *crmem.Store) string {
	var out []string
	for e := range s.All() {
		out = append(out, fmt.Sprintf("%d:%s/%v=%s%v", e.ID, e.Name, e.Kind, e.Content, e.Aliases))
	}
	return strings.Join(out, " ")
}

func TestRememberAndForget(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "memory.db"), &crmem.Options{Now: at(5)})
	e, err := s.Remember("a", "one", []string{"x"})
	ok(t, err)
	if want := (crmem.Entry{ID: 1, Name: "a", CreatedAt: 5, Content: "one", Aliases: []string{"x"}}); !e.Equal(want) {
		t.Errorf("%+v", e)
	}
	if e, err = s.Remember("a", "two", nil); err != nil || e.Content != "two" || len(e.Aliases) != 1 || e.ID != 1 {
		t.Errorf("aliases are kept: %+v, %v", e, err)
	}
	if e, err = s.Remember("a", "two", []string{}); err != nil || len(e.Aliases) != 0 {
		t.Errorf("aliases are cleared: %+v, %v", e, err)
	}
	ok(t, s.Apply(crmem.Add{Name: "old", Kind: crmem.Archive}))
	if _, err := s.Remember("old", "", nil); !errors.Is(err, crmem.ErrKind) {
		t.Errorf("remember on an archive: %v", err)
	}
	if err := s.Forget("old"); !errors.Is(err, crmem.ErrKind) {
		t.Errorf("forget of an archive: %v", err)
	}
	if err := s.Forget("none"); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("forget of a missing entry: %v", err)
	}
	ok(t, s.Forget("a"))
	if _, err := s.Get("a"); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("forgotten, and found: %v", err)
	}
}

func TestOverwrite(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "memory.db"), nil)
	for _, row := range []struct{ text, before string }{{"one", ""}, {"", "one"}, {"three", ""}, {"three", "three"}} {
		after, before, err := s.Overwrite(crmem.Remember{Name: "a", Content: row.text})
		if err != nil || after.Content != row.text || before.Content != row.before || (before.ID == 0) != (row.text == "one") {
			t.Errorf("%q: after %+v, before %+v, %v", row.text, after, before, err)
		}
	}
	ok(t, s.Forget("a"))
	if after, before, err := s.Overwrite(crmem.Remember{Name: "a", Content: "new"}); err != nil || after.ID != 2 || before.ID != 0 {
		t.Errorf("after a removal: after %+v, before %+v, %v", after, before, err)
	}
}

// TestRename renames entries, which keep the old names as aliases, and compares the
// store with a reopened one.
func TestRename(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	s := open(t, path, &crmem.Options{Now: at(5)})
	ok(t, s.Apply(crmem.Add{Name: "a", Content: "one", Aliases: []string{"x"}}, crmem.Add{Name: "b", Kind: crmem.Archive}))
	list, err := s.Do(crmem.Rename{Name: "a", To: "c"}, crmem.Rename{Name: "b", To: "a"}, crmem.Rename{Name: "a", To: "a"})
	ok(t, err)
	if len(list) != 2 || !list[0].Equal(crmem.Entry{ID: 1, Name: "c", CreatedAt: 5, Content: "one", Aliases: []string{"x", "a"}}) {
		t.Errorf("renamed: %+v", list)
	}
	for _, row := range []struct {
		op   crmem.Rename
		want error
	}{{crmem.Rename{Name: "c", To: "a"}, crmem.ErrExists}, {crmem.Rename{Name: "b", To: "d"}, crmem.ErrNotFound}, {crmem.Rename{Name: "a", To: ""}, crmem.ErrInvalid}} {
		if err := s.Apply(crmem.Add{Name: "new"}, row.op); !errors.Is(err, row.want) {
			t.Errorf("%+v: %v, want %v", row.op, err, row.want)
		}
	}
	want := "1:c/note=one[x a] 2:a/archive=[b]"
	if got := show(s); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	r, err := s.Search(t.Context(), crmem.Query{Text: "c"})
	if err != nil || len(r.Hits) != 1 || r.Hits[0].ID != 1 {
		t.Errorf("search of the new name: %+v, %v", r, err)
	}
	ok(t, s.Close())
	if got := show(open(t, path, nil)); got != want {
		t.Errorf("reopened: %s, want %s", got, want)
	}
}

// TestRenameAliases renames between names and aliases up to the limit of aliases.
func TestRenameAliases(t *testing.T) {
	s := crmem.New(nil)
	aliases := func(want ...string) {
		t.Helper()
		if e, err := s.Get("a"); err != nil || !slices.Equal(e.Aliases, want) {
			t.Errorf("aliases %q, %v; want %q", e.Aliases, err, want)
		}
	}
	ok(t, s.Apply(crmem.Restore{Entry: crmem.Entry{Name: "bad\x00name"}}, crmem.Rename{Name: "bad\x00name", To: "a"}))
	aliases() // no alias may have a NUL
	ok(t, s.Apply(crmem.Rename{Name: "a", To: "b"}, crmem.Rename{Name: "b", To: "a"}))
	aliases("b")
	ok(t, s.Apply(crmem.Rename{Name: "a", To: "b"}))
	aliases("a")
	var many []string
	for i := range crmem.MaxAliases {
		many = append(many, fmt.Sprint("alias ", i))
	}
	ok(t, s.Apply(crmem.Alias{Name: "b", Aliases: many}))
	if err := s.Apply(crmem.Rename{Name: "b", To: "c"}); !errors.Is(err, crmem.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprint(crmem.MaxAliases, " aliases, and the old name")) {
		t.Errorf("with the largest number of aliases: %v", err)
	}
}

func TestGetByAlias(t *testing.T) {
	s := crmem.New(nil)
	ok(t, s.Apply(
		crmem.Add{Name: "deploy", Aliases: []string{"ship", "out", "ship"}},
		crmem.Add{Name: "sail", Aliases: []string{"ship", "lake"}},
		crmem.Add{Name: "lake", Aliases: []string{"out"}}))
	if e, err := s.Get("lake"); err != nil || e.ID != 3 {
		t.Errorf("a name comes before an alias: %v, %v", e, err)
	}
	var amb *crmem.AmbiguousError
	if _, err := s.Get("ship"); !errors.As(err, &amb) || !slices.Equal(amb.Owners, []string{"deploy", "sail"}) {
		t.Errorf("alias of two: %v", err)
	}
	// The list of aliases exists now, and follows changes.
	ok(t, s.Forget("sail"))
	if e, err := s.Get("ship"); err != nil || e.Name != "deploy" {
		t.Errorf("alias of one: %v, %v", e, err)
	}
	ok(t, s.Apply(crmem.Alias{Name: "deploy", Aliases: []string{"go"}}))
	if _, err := s.Get("ship"); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("alias of a missing entry: %v", err)
	}
}

// TestManyWriters writes from many goroutines, while others read and fold, and
// finds every acknowledged entry, now and after a reopen.
func TestManyWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	o := &crmem.Options{LogLimit: 8 << 10, CheckpointOnClose: crmem.CheckpointNever}
	s := open(t, path, o)
	const writers, each = 16, 60
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("w%d-%d", w, i)
				if _, err := s.Remember(name, "text of "+name, []string{fmt.Sprint("w", w)}); err != nil {
					t.Error(err)
				}
				if i%7 == 3 {
					if err := s.Forget(name); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				last := uint64(0)
				for e := range s.All() {
					if e.ID <= last || e.Content != "text of "+e.Name {
						t.Errorf("after id %d: %+v", last, e)
					}
					last = e.ID
				}
				if _, err := s.Search(t.Context(), crmem.Query{Text: "text w3", Limit: 3, Analyzer: analysis.Plain}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Go(func() {
		for range 5 {
			if err := s.Checkpoint(); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	close(done)
	readers.Wait()
	want := 0
	for i := range each {
		if i%7 != 3 {
			want += writers
		}
	}
	if s.Len() != want {
		t.Errorf("%d entries, want %d", s.Len(), want)
	}
	before := slices.Collect(s.All())
	ok(t, s.Close())
	s = open(t, path, o)
	if diff := cmp.Diff(before, slices.Collect(s.All())); diff != "" {
		t.Errorf("after a reopen: %s", diff)
	}
}

func TestReadOnlyWithWriter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "memory.db")
	s := open(t, path, nil)
	_, err := s.Remember("a", "one", nil)
	ok(t, err)
	r, err := crmem.Open(path, &crmem.Options{ReadOnly: true})
	ok(t, err)
	if e, err := r.Get("a"); err != nil || e.Content != "one" {
		t.Errorf("a reader does not see the log: %v, %v", e, err)
	}
	if err := r.Apply(crmem.Add{Name: "b"}); !errors.Is(err, crmem.ErrReadOnly) {
		t.Errorf("a reader writes: %v", err)
	}
	ok(t, r.Close())
	var locked *vfs.LockedError
	if _, err := crmem.Open(path, &crmem.Options{LockWait: 20 * time.Millisecond}); !errors.As(err, &locked) || locked.Holder.PID != os.Getpid() {
		t.Errorf("a second writer: %v", err)
	}
}

func TestMissingStore(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "deep", "er", "memory.db")
	if _, err := crmem.Open(path, &crmem.Options{MustExist: true}); !errors.Is(err, crmem.ErrNoStore) {
		t.Errorf("must exist: %v", err)
	}
	s := open(t, path, nil)
	if list, _ := os.ReadDir(dir); len(list) != 0 {
		t.Errorf("opening created %v", list)
	}
	_, err := s.Remember("a", "", nil)
	ok(t, err)
	for name, mode := range map[string]os.FileMode{
		filepath.Dir(path): os.ModeDir | 0o700, path: 0o600, path + "-wal": 0o600, path + "-lock": 0o600, path + "-reserve": 0o600,
	} {
		if fi, err := os.Lstat(name); err != nil || fi.Mode() != mode {
			t.Errorf("%s: %v, %v; want %v", name, fi.Mode(), err, mode)
		}
	}
	ok(t, s.Close())
	ok(t, os.Rename(path, path+".gone"))
	if _, err := crmem.Open(path, nil); !errors.Is(err, crmem.ErrForeign) {
		t.Errorf("a log without its snapshot: %v", err)
	}
	ok(t, os.Rename(path+".gone", path))
}

func TestCheckpointOnClose(t *testing.T) {
	for _, c := range []struct {
		fold crmem.CheckpointMode
		want int // entries in the file after Close
	}{{crmem.CheckpointAlways, 1}, {crmem.CheckpointAuto, 1}, {crmem.CheckpointNever, 0}} {
		path := filepath.Join(t.TempDir(), "memory.db")
		s := open(t, path, &crmem.Options{CheckpointOnClose: c.fold})
		_, err := s.Remember("a", "", nil)
		ok(t, err)
		ok(t, s.Close())
		b, err := os.ReadFile(path)
		ok(t, err)
		if sn, err := crmem.Decode(b); err != nil || sn.Len() != c.want {
			t.Errorf("fold %d: %d entries in the file, want %d (%v)", c.fold, sn.Len(), c.want, err)
		}
	}
}

func TestFull(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "memory.db"), &crmem.Options{MaxBytes: 1000})
	_, err := s.Remember("a", strings.Repeat("x", 500), nil)
	ok(t, err)
	if _, err := s.Remember("b", strings.Repeat("x", 500), nil); !errors.Is(err, crmem.ErrFull) {
		t.Errorf("over the limit: %v", err)
	}
	ok(t, s.Forget("a"))
	_, err = s.Remember("b", strings.Repeat("x", 500), nil)
	ok(t, err)
}

// abroad is the machine's file system, reported as a network file system.
type abroad struct{ vfs.OS }

func (abroad) Remote(string) string { return "NFS" }

func TestRemoteFileSystemWarnsOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	var said []string
	o := &crmem.Options{FS: abroad{}, Warn: func(s string) { said = append(said, s) }}
	for range 2 {
		s := open(t, path, o)
		_, err := s.Remember("a", "", nil)
		ok(t, err)
		ok(t, s.Close())
	}
	if len(said) != 1 || !strings.Contains(said[0], "NFS") {
		t.Errorf("warnings %q", said)
	}
}

// TestForeignWrite replaces the file under an open store as another program
// does: no entry of either file is lost, and repair takes the file that the
// options select.
func TestForeignWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "memory.db")
	s, err := crmem.Open(path, nil)
	ok(t, err)
	_, err = s.Remember("ours", "in the snapshot that is never installed", nil)
	ok(t, err)
	other, err := crmem.NewSnapshot(8, []crmem.Entry{{ID: 7, Name: "theirs"}})
	ok(t, err)
	b, err := other.AppendBinary(nil)
	ok(t, err)
	ok(t, os.WriteFile(path+".new", b, 0o600))
	ok(t, os.Rename(path+".new", path))

	if err := s.Checkpoint(); !errors.Is(err, crmem.ErrForeign) {
		t.Fatalf("checkpoint over a foreign file: %v", err)
	}
	if _, err := s.Remember("late", "", nil); !errors.Is(err, crmem.ErrStopped) {
		t.Errorf("a write after that: %v", err)
	}
	if err := s.Close(); !errors.Is(err, crmem.ErrStopped) {
		t.Errorf("close: %v", err)
	}
	if _, err := crmem.Open(path, nil); !errors.Is(err, crmem.ErrForeign) {
		t.Errorf("open: %v", err)
	}
	own, err := filepath.Glob(path + ".own-*")
	ok(t, err)
	if len(own) != 1 {
		t.Fatalf("own snapshots: %q", own)
	}
	r, err := crmem.Repair(path, &crmem.RepairOptions{KeepLog: own[0]})
	ok(t, err)
	if len(r.Files) != 1 || r.Entries != 1 {
		t.Errorf("%+v", r)
	}
	kept, err := os.ReadFile(r.Files[0].Kept)
	ok(t, err)
	if string(kept) != string(b) {
		t.Error("the foreign file was not kept")
	}
	ok(t, os.Remove(own[0]))
	s = open(t, path, nil)
	if got := show(s); got != "1:ours/note=in the snapshot that is never installed[]" {
		t.Error(got)
	}
}
