package crmem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/check"
	"crabmem/fuzz/race"
	"crabmem/fuzz/vectors"
)

// The defects of the reference, R1 to R19, and the hostile inputs that a
// store must withstand. R11, R12 and R14 to R17 are about the tree.

func vector(t *testing.T, dir, name string) *vectors.Vector {
	t.Helper()
	for _, v := range load(t, dir, 1) {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("no vector %s/%s", dir, name)
	return nil
}

// refuses opens a vector every way and wants the fault at that place.
func refuses(t *testing.T, name, field string, offset int64, says string) {
	t.Helper()
	v := vector(t, "snapshot", name)
	path := Place(t, map[string][]byte{"db": v.DB()})
	_, decoded := crmem.Decode(v.DB())
	_, opened := crmem.Open(path, nil)
	_, read := crmem.Open(path, &crmem.Options{ReadOnly: true})
	for _, err := range []error{decoded, opened, read} {
		f, isFormat := errors.AsType[*crmem.FormatError](err)
		if !isFormat || f.Field != field || f.Offset != offset || !strings.Contains(f.Msg, says) {
			t.Errorf("%s: %v, want %s at %d: %s", name, err, field, offset, says)
		}
	}
	if got := filesIn(t, filepath.Dir(path))["memory.db"]; got != string(v.DB()) {
		t.Errorf("%s: the refused file was changed", name)
	}
}

// modest fails if f allocates more than 4 MiB.
func modest(t *testing.T, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	f()
	gate.Time(t, "it", start, time.Second)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("%d bytes allocated", n)
	}
}

func TestR01EntryCountBeyondTheFile(t *testing.T) {
	if v := vector(t, "snapshot", "count-max"); len(v.DB()) != 28 {
		t.Errorf("the file has %d bytes, want 28", len(v.DB()))
	}
	modest(t, func() { refuses(t, "count-max", "entry_count", 24, "4294967295 entries do not fit") })
	refuses(t, "count-wraps", "entry_count", 24, "134217729 entries do not fit")
}

func TestR02AliasCountBeyondTheFile(t *testing.T) {
	if v := vector(t, "snapshot", "alias-count-max"); len(v.DB()) != 60 {
		t.Errorf("the file has %d bytes, want 60", len(v.DB()))
	}
	modest(t, func() { refuses(t, "alias-count-max", "alias_count", 56, "4294967295 aliases do not fit") })
	refuses(t, "alias-count-wraps", "alias_count", 56, "1073741825 aliases do not fit")
}

func TestR03BytesAfterTheLastEntry(t *testing.T) {
	refuses(t, "trailing-7", "trailing", 62, "1 bytes after the last entry")
	refuses(t, "trailing-zeros", "trailing", 62, "64 bytes after the last entry")
	r, err := crmem.Check(check.NewDisk(vector(t, "snapshot", "trailing-zeros").DB(), nil), rotPath, 0)
	ok(t, err)
	if len(r.Problems) != 1 || r.Problems[0].Offset != 62 || r.Problems[0].Length != 64 {
		t.Errorf("check: %+v, want 64 bytes at 62", r.Problems)
	}
}

func TestR04ReservedBytes(t *testing.T) {
	for i := range 4 {
		refuses(t, fmt.Sprintf("reserved-%d", i), "reserved", 12, "not zero")
	}
}

func TestR05DuplicateName(t *testing.T) {
	refuses(t, "dup-name", "name", 90, `duplicate name "a"`)
}

func TestR06DuplicateID(t *testing.T) {
	refuses(t, "dup-id", "id", 66, "duplicate id 1")
}

func TestR07NextIDNotAboveEveryID(t *testing.T) {
	refuses(t, "next-id-equal", "id", 28, "id 7 is not below next_id 7")
	refuses(t, "next-id-below", "id", 61, "id 9 is not below next_id 2")
	// Repair assigns ids above the highest.
	m := check.NewDisk(vector(t, "snapshot", "next-id-below").DB(), nil)
	_, err := crmem.Repair(rotPath, &crmem.RepairOptions{FS: m})
	ok(t, err)
	s, err := crmem.Open(rotPath, &crmem.Options{FS: m})
	ok(t, err)
	if s.Len() != 2 || s.NextID() != 10 {
		t.Errorf("repaired: %d entries, next_id %d, want 2 and 10", s.Len(), s.NextID())
	}
	ok(t, s.Close())
}

func TestR08NoIDLeft(t *testing.T) {
	m := check.NewDisk(vector(t, "snapshot", "ok-next-id-max").DB(), nil)
	s, err := crmem.Open(rotPath, &crmem.Options{FS: m})
	ok(t, err)
	for _, op := range []crmem.Op{crmem.Add{Name: "one more"}, crmem.Restore{Entry: crmem.Entry{ID: 3, Name: "one more"}}} {
		if err := s.Apply(op); !errors.Is(err, crmem.ErrInvalid) || !strings.Contains(err.Error(), "no ID left") {
			t.Errorf("%T: %v", op, err)
		}
	}
	if s.NextID() != math.MaxUint64 || s.Len() != 1 {
		t.Errorf("next_id %d, %d entries", s.NextID(), s.Len())
	}
	ok(t, s.Apply(crmem.Update{Name: "last", Content: "still works"}))
	ok(t, s.Close())
}

// TestR09FailedWrite checks that memory and disk agree after a failed write.
func TestR09FailedWrite(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	for _, c := range []struct {
		fail error
		want error
	}{{full, crmem.ErrNotApplied}, {syscall.EIO, crmem.ErrUnknown}} {
		m := faultfs.NewMem()
		ok(t, m.Mkdir("/d", 0o700))
		s, err := crmem.Open(rotPath, &crmem.Options{FS: m})
		ok(t, err)
		ok(t, s.Apply(crmem.Add{Name: "a"}))
		m.Hook = func(c2 faultfs.Call) error {
			if c2.Op == "write" && c2.Name == rotPath+"-wal" {
				return c.fail
			}
			return nil
		}
		if err := s.Apply(crmem.Add{Name: "b"}); !errors.Is(err, c.want) {
			t.Errorf("%v: %v, want %v", c.fail, err, c.want)
		}
		m.Hook = nil
		if _, err := s.Get("b"); !errors.Is(err, crmem.ErrNotFound) || s.Len() != 1 || s.NextID() != 2 {
			t.Errorf("%v: get of the failed entry: %v, %d entries, next_id %d", c.fail, err, s.Len(), s.NextID())
		}
		again := s.Apply(crmem.Add{Name: "b"})
		if c.want == crmem.ErrNotApplied && again != nil {
			t.Errorf("%v: again: %v", c.fail, again)
		}
		if c.want == crmem.ErrUnknown && !errors.Is(again, crmem.ErrStopped) {
			t.Errorf("%v: again: %v, want ErrStopped", c.fail, again)
		}
		if err := s.Close(); errors.Is(err, crmem.ErrStopped) != errors.Is(again, crmem.ErrStopped) {
			t.Errorf("%v: close: %v", c.fail, err)
		}
		s, err = crmem.Open(rotPath, &crmem.Options{FS: m})
		ok(t, err)
		if _, err := s.Get("b"); (err == nil) != (again == nil) {
			t.Errorf("%v: after a reopen: %v", c.fail, err)
		}
		ok(t, s.Close())
	}
}

func TestR10TwoWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	first := open(t, path, &crmem.Options{Command: "first"})
	ok(t, first.Apply(crmem.Add{Name: "a"}))
	_, err := crmem.Open(path, nil)
	l, isLocked := errors.AsType[*vfs.LockedError](err)
	if !isLocked || !errors.Is(err, vfs.ErrLocked) || l.Holder.PID != os.Getpid() || l.Holder.Command != "first" {
		t.Errorf("a second writer: %v", err)
	}
	// Two that found no file: the second write finds the first's store.
	path = filepath.Join(t.TempDir(), "new", "memory.db")
	one, two := open(t, path, nil), open(t, path, nil)
	ok(t, one.Apply(crmem.Add{Name: "a"}))
	if err := two.Apply(crmem.Add{Name: "b"}); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("a second first write: %v", err)
	}
	ok(t, one.Close())
	ok(t, two.Apply(crmem.Add{Name: "b"}))
	if got := names(two.All()); got != "a b" {
		t.Errorf("entries %q", got)
	}
}

// dumpedTree is a store of one note, dumped.
func dumpedTree(t *testing.T, e ...crmem.Entry) (s *crmem.Store, dir string) {
	t.Helper()
	base := t.TempDir()
	s = open(t, filepath.Join(base, "memory.db"), nil)
	for _, e := range e {
		ok(t, s.Apply(crmem.Restore{Entry: e}))
	}
	dir = filepath.Join(base, "brain")
	_, err := tree.Dump(s, dir, nil)
	ok(t, err)
	return s, dir
}

// loaded loads a tree into an empty store and returns the entries.
func loaded(t *testing.T, dir string) []crmem.Entry {
	t.Helper()
	s := open(t, filepath.Join(t.TempDir(), "memory.db"), nil)
	_, err := tree.Load(s, dir, nil)
	ok(t, err)
	return slices.Collect(s.All())
}

func TestR11LoadThroughALink(t *testing.T) {
	s, dir := dumpedTree(t, crmem.Entry{ID: 1, Name: "a", Content: "x"})
	secret := filepath.Join(t.TempDir(), "hostname")
	ok(t, os.WriteFile(secret, []byte("the secret"), 0o600))
	ok(t, os.Symlink(secret, filepath.Join(dir, "notes", "h.md")))
	if _, err := tree.Load(s, dir, nil); err == nil || !strings.Contains(err.Error(), "h.md") {
		t.Errorf("load through a link: %v", err)
	}
	if got := names(s.All()); got != "a" {
		t.Errorf("entries %q after a refused load", got)
	}
}

func TestR12DumpThroughALink(t *testing.T) {
	s, dir := dumpedTree(t, crmem.Entry{ID: 1, Name: "a", Content: "x"})
	victim := filepath.Join(t.TempDir(), "victim")
	ok(t, os.WriteFile(victim, []byte("precious"), 0o600))
	for _, name := range []string{"SUMMARY.md", "notes/a.md"} {
		ok(t, os.Remove(filepath.Join(dir, name)))
		ok(t, os.Symlink(victim, filepath.Join(dir, name)))
		ok(t, s.Apply(crmem.Update{Name: "a", Content: "for " + name}))
		_, err := tree.Dump(s, dir, nil)
		if b, rerr := os.ReadFile(victim); rerr != nil || string(b) != "precious" {
			t.Errorf("%s: a dump wrote %q through a link (%v)", name, b, err)
		}
		if err == nil {
			fi, lerr := os.Lstat(filepath.Join(dir, name))
			if lerr != nil || !fi.Mode().IsRegular() {
				t.Errorf("%s: a dump kept the link without an error", name)
			}
		} else {
			ok(t, os.Remove(filepath.Join(dir, name)))
			_, err = tree.Dump(s, dir, nil)
			ok(t, err)
		}
	}
}

func TestR13TemporaryIsALink(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "memory.db"), filepath.Join(dir, "victim")
	ok(t, os.WriteFile(victim, []byte("precious"), 0o600))
	for _, name := range []string{"memory.db.tmp", ".memory.db", ".memory.db1", ".memory.db-wal2"} {
		ok(t, os.Symlink(victim, filepath.Join(dir, name)))
	}
	s := open(t, path, nil)
	ok(t, s.Apply(crmem.Add{Name: "a"}))
	ok(t, s.Checkpoint())
	ok(t, s.Apply(crmem.Add{Name: "b"}))
	ok(t, s.Close())
	if b, err := os.ReadFile(victim); err != nil || string(b) != "precious" {
		t.Errorf("the victim holds %q (%v)", b, err)
	}
	if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() {
		t.Errorf("the store is no regular file: %v", err)
	}
}

func TestR14NamesThatNoFileHas(t *testing.T) {
	var all []crmem.Entry
	for i, name := range []string{"a/b", "../../etc/passwd", strings.Repeat("n", 300), strings.Repeat("日", 300), "..", ".", "con", "a\\b", "x\ny"} {
		all = append(all, crmem.Entry{ID: uint64(i + 1), Name: name, Content: fmt.Sprint("of ", i)})
	}
	_, dir := dumpedTree(t, all...)
	if got := loaded(t, dir); !slices.EqualFunc(got, all, crmem.Entry.Equal) {
		t.Errorf("loaded %+v", got)
	}
}

func TestR15DumpOverAForeignPage(t *testing.T) {
	s, dir := dumpedTree(t, crmem.Entry{ID: 1, Name: "a", Content: "x"})
	mine := filepath.Join(dir, "notes", "mine.md")
	ok(t, os.WriteFile(mine, []byte("written by hand\n"), 0o600))
	_, err := tree.Dump(s, dir, nil)
	if !errors.Is(err, tree.ErrEdited) || !strings.Contains(err.Error(), "mine.md") {
		t.Errorf("dump over a page that dump did not write: %v", err)
	}
	if b, err := os.ReadFile(mine); err != nil || string(b) != "written by hand\n" {
		t.Errorf("the page holds %q (%v)", b, err)
	}
	if _, err := tree.Dump(s, dir, &tree.DumpOptions{Force: true}); err != nil {
		t.Errorf("dump by force: %v", err)
	}
	found := false
	ok(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if b, _ := os.ReadFile(path); string(b) == "written by hand\n" {
			found = true
		}
		return err
	}))
	if !found {
		t.Error("the page is missing after a forced dump")
	}
}

func TestR16EdgeBlanks(t *testing.T) {
	var all []crmem.Entry
	for i, content := range []string{"    code\n    block", "\n\nlines", "end\n\n\n", " \t ", "", "\r\n", "no newline", "\ufeffmark"} {
		all = append(all, crmem.Entry{ID: uint64(i + 1), Name: fmt.Sprint("n", i), Content: content, Aliases: []string{" sp ", "\tt", "a\nb"}})
	}
	_, dir := dumpedTree(t, all...)
	if got := loaded(t, dir); !slices.EqualFunc(got, all, crmem.Entry.Equal) {
		t.Errorf("loaded %+v", got)
	}
}

func TestR17LastSecond(t *testing.T) {
	all := []crmem.Entry{
		{ID: 1, Name: "zero", CreatedAt: 0, Content: "x"},
		{ID: 2, Name: "last", CreatedAt: math.MaxUint64, Content: "x"},
		{ID: 3, Name: "year 10000", CreatedAt: 253402300800, Content: "x"},
		{ID: 4, Name: "sign", CreatedAt: 1 << 63, Content: "x"},
	}
	_, dir := dumpedTree(t, all...)
	if got := loaded(t, dir); !slices.EqualFunc(got, all, crmem.Entry.Equal) {
		t.Errorf("loaded %+v", got)
	}
}

func TestR18Modes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes are of unix")
	}
	dir := filepath.Join(t.TempDir(), "home", "deep")
	path := filepath.Join(dir, "memory.db")
	s := open(t, path, nil)
	ok(t, s.Apply(crmem.Add{Name: "a"}))
	ok(t, s.Checkpoint())
	ok(t, s.Apply(crmem.Add{Name: "b"}))
	seen := 0
	for _, name := range []string{path, path + "-wal", path + "-lock", path + "-reserve", path + "-id", path + "-wal.held"} {
		fi, err := os.Stat(name)
		ok(t, err)
		if seen++; fi.Mode() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", name, fi.Mode())
		}
	}
	list, err := os.ReadDir(dir)
	ok(t, err)
	if len(list) != seen+1 {
		t.Errorf("files %v, want %d and the history", list, seen)
	}
	for _, d := range []string{dir, filepath.Dir(dir), path + "-history"} {
		fi, err := os.Stat(d)
		ok(t, err)
		if fi.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v, want 0700", d, fi.Mode())
		}
	}
}

func TestR19EqualScores(t *testing.T) {
	for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
		s := crmem.New(nil)
		for i := range 200 {
			ok(t, s.Apply(crmem.Add{Name: fmt.Sprintf("n%03d", 199-i), Content: "the same words everywhere"}))
		}
		for i := range 100 { // some of them again, in another order
			ok(t, s.Apply(crmem.Update{Name: fmt.Sprintf("n%03d", (i*7)%200), Content: "the same words everywhere"}))
		}
		for _, limit := range []int{0, 5, 50} {
			for range 3 {
				r, err := s.Search(context.Background(), crmem.Query{Text: "same words", Limit: limit, Analyzer: a})
				ok(t, err)
				if limit > 0 && len(r.Hits) != limit || limit == 0 && len(r.Hits) != 200 {
					t.Fatalf("%d hits, limit %d", len(r.Hits), limit)
				}
				for i, h := range r.Hits {
					same := r.Hits[0].Score
					if a == analysis.Standard && i >= bm25.RerankLimit { // re-ranking reads no texts of these
						same = r.Hits[bm25.RerankLimit].Score
					}
					if h.Score != same || h.Entry.ID != uint64(i+1) {
						t.Fatalf("analyzer %v, limit %d: hit %d is entry %d with %v", a, limit, i, h.Entry.ID, h.Score)
					}
				}
			}
		}
	}
}

// hostileCase is a case of the checklist of hostile inputs: vectors, by
// pattern, or a separate test.
type hostileCase struct {
	what    string
	dir     string // of the vectors
	pattern string
	least   int // vectors
	test    func(t *testing.T)
}

// hostileRows is how many cases the checklist has. A case that is taken out
// is missed.
const hostileRows = 57

var hostileTable = []hostileCase{
	// CRMEM
	{"R1 entry_count", "snapshot", "count-*", 3, TestR01EntryCountBeyondTheFile},
	{"R2 alias_count", "snapshot", "alias-count-*", 4, TestR02AliasCountBeyondTheFile},
	{"R3 trailing bytes", "snapshot", "trailing-*", 5, TestR03BytesAfterTheLastEntry},
	{"R4 reserved", "snapshot", "reserved-*", 4, TestR04ReservedBytes},
	{"R5 duplicate name", "snapshot", "dup-name*", 3, TestR05DuplicateName},
	{"R6 duplicate id", "snapshot", "dup-id*", 2, TestR06DuplicateID},
	{"R7 next_id", "snapshot", "next-id-*", 3, TestR07NextIDNotAboveEveryID},
	{"R8 next_id at its end", "snapshot", "ok-next-id-max", 1, TestR08NoIDLeft},
	{"R9 a failed write", "", "", 0, TestR09FailedWrite},
	{"R10 two writers", "", "", 0, TestR10TwoWriters},
	{"R11 load through a link", "", "", 0, TestR11LoadThroughALink},
	{"R12 dump through a link", "", "", 0, TestR12DumpThroughALink},
	{"R13 the temporary is a link", "", "", 0, TestR13TemporaryIsALink},
	{"R14 names no file has", "", "", 0, TestR14NamesThatNoFileHas},
	{"R15 a foreign page", "", "", 0, TestR15DumpOverAForeignPage},
	{"R16 edge blanks", "", "", 0, TestR16EdgeBlanks},
	{"R17 the last second", "snapshot", "ok-created-max", 1, TestR17LastSecond},
	{"R18 modes", "", "", 0, TestR18Modes},
	{"R19 equal scores", "", "", 0, TestR19EqualScores},
	{"offset plus length wraps in 32 bits", "snapshot", "*-len-wraps", 3, nil},
	{"count times size wraps in 32 bits", "snapshot", "*count-wraps", 2, nil},
	{"a string of 4 GiB less a byte in a small file", "snapshot", "*-len-max", 3, nil},
	{"a sparse file of 4 GiB", "", "", 0, hostileSparse},
	{"invalid UTF-8 in a name", "snapshot", "utf8-name-*", 12, nil},
	{"invalid UTF-8 in content", "snapshot", "utf8-content-*", 12, nil},
	{"invalid UTF-8 in an alias", "snapshot", "utf8-alias-*", 12, nil},
	{"lone surrogates", "snapshot", "utf8-*-surrogate", 3, nil},
	{"CESU-8", "snapshot", "utf8-*-cesu", 3, nil},
	{"NUL", "snapshot", "ok-nul", 1, nil},
	{"control characters", "snapshot", "ok-control", 1, nil},
	{"an empty name", "snapshot", "ok-smallest-entry", 1, nil},
	{"kind 2, of a newer reference", "snapshot", "kind-2", 1, hostileTopic},
	{"kind 3", "snapshot", "kind-3", 1, nil},
	{"versions 0, 2, 99", "snapshot", "version-*", 5, nil},
	{"each flag", "snapshot", "flags-*", 16, nil},
	{"header only", "snapshot", "truncated-fixed", 1, nil},
	{"ids out of order", "snapshot", "order*", 2, nil},
	{"crabdb, which has the same magic", "snapshot", "crabdb-*", 3, hostileCrabdb},
	{"a directory at the path", "", "", 0, hostileDirectory},
	{"a link at the path", "", "", 0, hostileLink},
	{"a FIFO at the path", "", "", 0, hostileFIFO},
	{"a device at the path", "", "", 0, hostileDevice},
	{"a read-only file", "", "", 0, hostileReadOnly},
	{"a file that grows while it is read", "", "", 0, hostileGrowing},
	{"a file that shrinks while it is read", "", "", 0, hostileShrinking},
	// Log
	{"verdict clean", "log", "ok-*", 17, nil},
	{"verdict torn", "log", "torn-*", 24, nil},
	{"verdict rotten", "log", "rotten-*", 8, nil},
	{"a log without its snapshot", "log", "missing-db", 1, nil},
	{"a log of another snapshot", "log", "foreign", 1, nil},
	{"a damaged header", "log", "header-*", 15, nil},
	{"a gap of sequence numbers, at the end", "log", "torn-seq-gap", 1, nil},
	{"a gap of sequence numbers, acknowledged", "log", "rotten-seq", 1, nil},
	{"a frame replayed", "log", "*-again", 2, nil},
	{"an operation on a missing entry", "log", "frame-*-missing", 2, nil},
	{"a payload that is no operation", "log", "frame-*", 27, nil},
	{"an operation of a newer program", "log", "frame-type-*", 3, nil},
}

func TestHostileInputs(t *testing.T) {
	race.Skip(t)
	if len(hostileTable) != hostileRows {
		t.Errorf("the table has %d rows, want %d", len(hostileTable), hostileRows)
	}
	seen := map[string]bool{}
	for _, row := range hostileTable {
		if seen[row.what] || row.test == nil && row.pattern == "" {
			t.Errorf("row %q is a duplicate or has no test", row.what)
		}
		seen[row.what] = true
		t.Run(row.what, func(t *testing.T) {
			if row.pattern != "" {
				hostileVectors(t, row)
			}
			// The R tests run under their own names.
			if row.test != nil && !strings.HasPrefix(row.what, "R") {
				row.test(t)
			}
		})
	}
}

// hostileVectors opens the vectors of a row on the disk, with bounds on time
// and memory.
func hostileVectors(t *testing.T, row hostileCase) {
	n := 0
	for _, v := range load(t, row.dir, 1) {
		match, err := filepath.Match(row.pattern, v.Name)
		ok(t, err)
		if !match {
			continue
		}
		n++
		path := Place(t, v.Files)
		if v.More["db"] == "missing" {
			ok(t, os.Remove(path))
		}
		good := v.Expect == "ok" || v.Expect == "torn"
		if good {
			s, err := crmem.Open(path, nil)
			if err != nil {
				t.Errorf("%s: %v, want %s", v.Name, err, v.Expect)
				continue
			}
			ok(t, s.Close())
			continue
		}
		modest(t, func() {
			_, err := crmem.Open(path, nil)
			if row.dir == "snapshot" {
				err = faultOf(v, err, path)
			} else {
				err = refused(v, err, path)
			}
			if err != nil {
				t.Errorf("%s: %v", v.Name, err)
			}
		})
	}
	if n < row.least {
		t.Errorf("%d vectors %s/%s, want %d", n, row.dir, row.pattern, row.least)
	}
}

// shut checks that every way to open a path returns ErrFormat quickly, with
// little memory, and without changes to the file.
func shut(t *testing.T, path, says string) {
	t.Helper()
	before, err := os.ReadDir(filepath.Dir(path))
	ok(t, err)
	modest(t, func() {
		_, write := crmem.Open(path, nil)
		_, read := crmem.Open(path, &crmem.Options{ReadOnly: true})
		for how, err := range map[string]error{"write": write, "read": read} {
			if !errors.Is(err, crmem.ErrFormat) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), filepath.Base(path)) {
				t.Errorf("open to %s: %v, want %q", how, err, says)
			}
		}
		r, err := crmem.Check(vfs.OS{}, path, 0)
		if err != nil || len(r.Problems) != 1 || r.Problems[0].Kind != "format" || !errors.Is(r.Err(), crmem.ErrFormat) {
			t.Errorf("check: %+v, %v", r, err)
		}
	})
	after, err := os.ReadDir(filepath.Dir(path))
	ok(t, err)
	if extra := len(after) - len(before); extra > 1 { // the lock file may stay
		t.Errorf("%d files were created next to it", extra)
	}
}

func hostileSparse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	f, err := os.Create(path)
	ok(t, err)
	_, err = f.Write(goldenFile(t, "empty.db"))
	ok(t, err)
	ok(t, f.Truncate(4<<30))
	ok(t, f.Close())
	shut(t, path, "4294967296")
}

func hostileDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	ok(t, os.Mkdir(path, 0o700))
	shut(t, path, "not a regular file")
}

// hostileLink checks that opening follows a link, and that the store's other
// files are next to the link's target.
func hostileLink(t *testing.T) {
	real, here := t.TempDir(), t.TempDir()
	target, path := filepath.Join(real, "store.db"), filepath.Join(here, "memory.db")
	ok(t, os.Symlink(target, path))
	if _, err := crmem.Open(path, nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a link to nothing: %v", err)
	}
	ok(t, os.WriteFile(target, goldenFile(t, "empty.db"), 0o600))
	s := open(t, path, nil)
	ok(t, s.Apply(crmem.Add{Name: "a"}))
	ok(t, s.Checkpoint())
	ok(t, s.Close())
	if fi, err := os.Lstat(path); err != nil || fi.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is no link any more: %v", err)
	}
	if fi, err := os.Lstat(target); err != nil || !fi.Mode().IsRegular() {
		t.Errorf("the target is not the store: %v", err)
	}
	if n := len(filesIn(t, here)); n != 1 {
		t.Errorf("%d files next to the link, want only the link", n)
	}
	// A link to itself is an error and not a hang.
	loop := filepath.Join(here, "loop.db")
	ok(t, os.Symlink(loop, loop))
	if _, err := crmem.Open(loop, nil); err == nil {
		t.Error("a link to itself was opened")
	}
}

func hostileTopic(t *testing.T) {
	_, err := crmem.Decode(vector(t, "snapshot", "kind-2").DB())
	if err == nil || !strings.Contains(err.Error(), "topic") {
		t.Errorf("kind 2: %v, want its name", err)
	}
}

func hostileCrabdb(t *testing.T) {
	for _, name := range []string{"crabdb-fresh", "crabdb-log", "crabdb-index"} {
		_, err := crmem.Decode(vector(t, "snapshot", name).DB())
		if err == nil || !strings.Contains(err.Error(), "crabdb") {
			t.Errorf("%s: %v, want the name of the format", name, err)
		}
		m := check.NewDisk(vector(t, "snapshot", name).DB(), nil)
		if _, err := crmem.Repair(rotPath, &crmem.RepairOptions{FS: m}); err == nil {
			t.Errorf("%s: repair made a store of it", name)
		}
	}
}

// A store file that cannot be written is still replaced; a directory that
// cannot be is a system's error, and readers do not mind either.
func hostileReadOnly(t *testing.T) {
	m := check.NewDisk(goldenFile(t, "basic.db"), nil)
	m.Chmod(rotPath, 0o400)
	s, err := crmem.Open(rotPath, &crmem.Options{FS: m})
	ok(t, err)
	ok(t, s.Apply(crmem.Add{Name: "more"}))
	ok(t, s.Close())
	m = check.NewDisk(goldenFile(t, "basic.db"), nil)
	m.Chmod("/d", 0o500)
	_, err = crmem.Open(rotPath, &crmem.Options{FS: m})
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a writer in a read-only directory: %v", err)
	}
	s, err = crmem.Open(rotPath, &crmem.Options{FS: m, ReadOnly: true})
	ok(t, err)
	if s.Len() != 3 {
		t.Errorf("%d entries, want 3", s.Len())
	}
	if err := s.Apply(crmem.Add{Name: "more"}); !errors.Is(err, crmem.ErrReadOnly) {
		t.Errorf("a write: %v", err)
	}
	ok(t, s.Close())
	m = check.NewDisk(goldenFile(t, "basic.db"), nil)
	m.Chmod(rotPath, 0)
	if _, err := crmem.Open(rotPath, &crmem.Options{FS: m, ReadOnly: true}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

// meddle changes a file's length between a reader's look at its size and the
// reading of it.
func meddle(m *faultfs.Mem, change func(f vfs.File) error) {
	busy := false
	m.Hook = func(c faultfs.Call) error {
		if c.Op != "read" || c.Name != rotPath || busy {
			return nil
		}
		busy = true
		f, err := m.OpenFile(rotPath, os.O_RDWR|os.O_APPEND, 0)
		if err == nil {
			err = errors.Join(change(f), f.Close())
		}
		return err
	}
}

func hostileGrowing(t *testing.T) {
	m := check.NewDisk(goldenFile(t, "basic.db"), nil)
	meddle(m, func(f vfs.File) error {
		_, err := io.WriteString(f, "and more")
		return err
	})
	s, err := crmem.Open(rotPath, &crmem.Options{FS: m, CheckpointOnClose: crmem.CheckpointNever})
	m.Hook = nil
	if err != nil {
		if !errors.Is(err, crmem.ErrFormat) {
			t.Errorf("open: %v", err)
		}
		return
	}
	// It was read as it had been. It is not that any more, so it is not
	// replaced.
	if err := s.Apply(crmem.Add{Name: "mine"}); !errors.Is(err, crmem.ErrUnknown) || !strings.Contains(err.Error(), rotPath+".own-") {
		t.Errorf("a write to a store whose file has changed: %v", err)
	}
	if err := s.Checkpoint(); err == nil {
		t.Error("a checkpoint replaced a file that had changed")
	}
	s.Close()
	if b := memFile(t, m, rotPath); !bytes.HasSuffix(b, []byte("and more")) {
		t.Error("the appended bytes are missing")
	}
}

func hostileShrinking(t *testing.T) {
	m := check.NewDisk(goldenFile(t, "basic.db"), nil)
	meddle(m, func(f vfs.File) error { return f.Truncate(100) })
	_, err := crmem.Open(rotPath, &crmem.Options{FS: m})
	if err == nil || !strings.Contains(err.Error(), rotPath+": read 100 of ") {
		t.Errorf("open: %v", err)
	}
}
