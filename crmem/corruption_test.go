package crmem_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/check"
	"crabmem/fuzz/race"
	"crabmem/fuzz/refdec"
	"crabmem/fuzz/vectors"
)

// These tests corrupt a store of 2 KiB and its log in every way. The check must
// agree with the independent decoder. After Repair the store must be valid, and
// the report must account for every byte of the corrupt files.
//
// A run tests an evenly spread part of the flips and truncations.
// CRABMEM_ROT=full tests all of them.

const rotPath = check.Path

// every returns n, or 1 if CRABMEM_CRASH=full selects all cases of a test.
func every(n int) int {
	if os.Getenv("CRABMEM_CRASH") == "full" {
		return 1
	}
	return n
}

// rotStep returns the step between cases of a run.
func rotStep(part int) int {
	if os.Getenv("CRABMEM_ROT") == "full" {
		return 1
	}
	return part
}

// rotStore returns the files of a store: the snapshot and a log of several
// writes on it.
func rotStore(t testing.TB, salt string) (db, wal []byte) {
	t.Helper()
	m := faultfs.NewMem()
	m.Mkdir("/d", 0o700)
	now := func() time.Time { return time.Unix(1_776_162_225, 0) }
	o := &crmem.Options{FS: m, Now: now, CheckpointOnClose: crmem.CheckpointNever}
	s := must(crmem.Open(rotPath, o))
	for i := range 18 {
		e := crmem.Add{Name: fmt.Sprintf("entry %s %d", salt, i), Kind: crmem.Kind(i % 2), Content: strings.Repeat(fmt.Sprintf("line %d of the whole text; ", i), 3)}
		if i%3 == 0 {
			e.Aliases = []string{fmt.Sprint("alias ", i), "x"}
		}
		ok(t, s.Apply(e))
	}
	ok(t, s.Checkpoint())
	ok(t, s.Apply(crmem.Add{Name: "in the log", Content: "first"}))
	ok(t, s.Apply(crmem.Remove{Name: fmt.Sprintf("entry %s 3", salt)}))
	ok(t, s.Apply(crmem.Alias{Name: "in the log", Aliases: []string{"a", "b"}}))
	ok(t, s.Apply(
		crmem.Add{Name: "batch 1", Content: "one"},
		crmem.Update{Name: fmt.Sprintf("entry %s 4", salt), Content: "rewritten"},
		crmem.Add{Name: "batch 2", Content: "two", Aliases: []string{"z"}},
	))
	ok(t, s.Apply(crmem.Update{Name: "in the log", Content: "second", Aliases: []string{"c"}}))
	ok(t, s.Apply(crmem.Add{Name: "last", Content: "of all"}))
	ok(t, s.Close())
	return memFile(t, m, rotPath), memFile(t, m, rotPath+"-wal")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func memFile(t testing.TB, m *faultfs.Mem, name string) []byte {
	t.Helper()
	return must(vfs.ReadFile(m, name, 1<<30))
}

// rotTally counts results by kind.
type rotTally map[string]int

func (r rotTally) String() string {
	sum := 0
	for _, n := range r {
		sum += n
	}
	all := []string{fmt.Sprintf("%d cases", sum)}
	for _, k := range []string{"whole", "torn", "rot", "format", "foreign", "missing"} {
		all = append(all, fmt.Sprintf("%s %d", k, r[k]))
	}
	return strings.Join(all, ", ")
}

func TestRotFlips(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	db, wal := rotStore(t, "s")
	if len(db) < 2048 || len(db) > 2300 || len(wal) < 500 {
		t.Fatalf("a store of %d bytes and a log of %d", len(db), len(wal))
	}
	t.Run("db", func(t *testing.T) {
		// Alone: a flip inside a text is a store like any other.
		tally, fewest := flips(t, db, rotStep(7), func(b []byte) ([]byte, []byte) { return b, nil })
		if fewest < 16 {
			t.Errorf("a repair of one bit left %d of 18 entries", fewest)
		}
		t.Logf("bits of a snapshot flipped: %v; fewest entries salvaged: %d of 18", tally, fewest)
	})
	t.Run("db-with-log", func(t *testing.T) {
		// With a log: its digest sees every flip.
		tally, _ := flips(t, db, rotStep(17), func(b []byte) ([]byte, []byte) { return b, wal })
		if tally["whole"] != 0 {
			t.Errorf("%d flips were not detected", tally["whole"])
		}
		t.Logf("bits of a snapshot with a log flipped: %v", tally)
	})
	t.Run("log", func(t *testing.T) {
		tally, fewest := flips(t, wal, rotStep(3), func(b []byte) ([]byte, []byte) { return db, b })
		if tally["whole"] != 0 {
			t.Errorf("%d flips were not detected", tally["whole"])
		}
		if fewest < 17 {
			t.Errorf("a repair of one bit left %d entries", fewest)
		}
		t.Logf("bits of a log flipped: %v", tally)
	})
}

// flips flips the bits of file, one at a time, every step-th of them.
func flips(t *testing.T, file []byte, step int, put func(b []byte) (db, wal []byte)) (rotTally, int) {
	tally, fewest := rotTally{}, 1<<30
	synctest.Test(t, func(t *testing.T) {
		for bit := 0; bit < 8*len(file); bit += step {
			b := slices.Clone(file)
			b[bit/8] ^= 1 << (bit % 8)
			v, left, err := check.Store(put(b))
			if err != nil {
				t.Fatalf("bit %d of byte %d: %v", bit%8, bit/8, err)
			}
			tally[v.Kind]++
			fewest = min(fewest, len(left))
		}
	})
	return tally, fewest
}

func TestRotTruncations(t *testing.T) {
	race.Skip(t)
	db, wal := rotStore(t, "s")
	l, err := refdec.ReadLog(wal)
	if err != nil {
		t.Fatal(err)
	}
	ends := 1 // the header's
	for _, f := range l.Frames {
		if !f.More {
			ends++
		}
	}
	tally := rotTally{}
	synctest.Test(t, func(t *testing.T) {
		for n := 0; n < len(db); n += rotStep(3) {
			for _, log := range [][]byte{nil, wal} {
				v, _, err := check.Store(db[:n:n], log)
				if err != nil {
					t.Fatalf("%d bytes of the snapshot, log %v: %v", n, log != nil, err)
				}
				if v.Kind != "format" {
					t.Fatalf("%d bytes of the snapshot are %s", n, v.Kind)
				}
				tally[v.Kind]++
			}
		}
		whole := 0
		for n := range len(wal) + 1 {
			v, _, err := check.Store(db, wal[:n:n])
			if err != nil {
				t.Fatalf("%d bytes of the log: %v", n, err)
			}
			if tally[v.Kind]++; v.Kind == "whole" {
				whole++
			}
		}
		// A log that ends with a write is one that ended there.
		if whole != ends {
			t.Errorf("%d lengths of the log are complete, want %d", whole, ends)
		}
	})
	t.Logf("truncations: %v", tally)
}

// pieces returns the writes of a log: its header, then each batch.
func pieces(t *testing.T, wal []byte) [][]byte {
	l, err := refdec.ReadLog(wal)
	if err != nil {
		t.Fatal(err)
	}
	from := int64(112)
	all := [][]byte{wal[:from]}
	for _, f := range l.Frames {
		if end := f.Offset + 32 + int64(len(f.Context)+len(f.Payload)); !f.More {
			all = append(all, wal[from:end])
			from = end
		}
	}
	return all
}

func TestRotMixtures(t *testing.T) {
	db, wal := rotStore(t, "s")
	otherDB, otherWAL := rotStore(t, "t")
	parts := pieces(t, wal)
	tally := rotTally{}
	synctest.Test(t, func(t *testing.T) {
		is := func(what, want string, db, wal []byte) {
			t.Helper()
			v, _, err := check.Store(db, wal)
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if want == "" && v.Kind == "whole" || want != "" && v.Kind != want {
				t.Errorf("%s is %s, want %s", what, v.Kind, want)
			}
			tally[v.Kind]++
		}
		const noticed = "" // torn or rot, as the independent decoder decides
		for i := 1; i < len(parts); i++ {
			for j := i + 1; j < len(parts); j++ {
				p := slices.Clone(parts)
				p[i], p[j] = p[j], p[i]
				is(fmt.Sprintf("a log with writes %d and %d swapped", i, j), noticed, db, bytes.Join(p, nil))
			}
			twice := bytes.Join(slices.Insert(slices.Clone(parts), i, parts[i]), nil)
			is(fmt.Sprintf("a log with write %d twice", i), noticed, db, twice)
			if i < len(parts)-1 {
				gone := bytes.Join(slices.Delete(slices.Clone(parts), i, i+1), nil)
				is(fmt.Sprintf("a log without write %d", i), "torn", db, gone)
				hole := slices.Clone(parts)
				hole[i] = make([]byte, len(parts[i]))
				is(fmt.Sprintf("a log with a hole for write %d", i), "rot", db, bytes.Join(hole, nil))
			}
		}
		is("the log of another store", "foreign", db, otherWAL)
		is("another store under the log", "foreign", otherDB, wal)
		// Frames of another log after the header of this log.
		is("the frames of another store", "torn", db, slices.Concat(wal[:112], otherWAL[112:]))

		// A later snapshot of the same store under the old log, and the old
		// snapshot under the later log.
		m := check.NewDisk(db, wal)
		s := must(crmem.Open(rotPath, &crmem.Options{FS: m, CheckpointOnClose: crmem.CheckpointNever}))
		ok(t, s.Apply(crmem.Add{Name: "newer", Content: "x"}))
		ok(t, s.Checkpoint())
		ok(t, s.Apply(crmem.Add{Name: "newest", Content: "y"}))
		ok(t, s.Close())
		newDB, newWAL := memFile(t, m, rotPath), memFile(t, m, rotPath+"-wal")
		is("a new snapshot under an old log", "foreign", newDB, wal)
		is("an old snapshot under a new log", "foreign", db, newWAL)
		is("the new pair", "whole", newDB, newWAL)

		// The log is selected, because a copy of its base exists.
		m = check.NewDisk(otherDB, wal)
		m.WriteFile("/d/base.db", db, 0o600)
		if _, err := crmem.Repair(rotPath, &crmem.RepairOptions{FS: m, KeepLog: "/d/base.db"}); err != nil {
			t.Errorf("repair with the log's base: %v", err)
		}
		whole, _, _, err := refdec.Recover(db, wal)
		ok(t, err)
		s, err = crmem.Open(rotPath, &crmem.Options{FS: m})
		ok(t, err)
		if err := check.CompareEntries(slices.Collect(s.All()), whole); err != nil {
			t.Errorf("repair with the log's base: %v", err)
		}
		ok(t, s.Close())
		if !slices.ContainsFunc(must(m.ReadDir("/d")), func(e fs.DirEntry) bool {
			b, _ := vfs.ReadFile(m, "/d/"+e.Name(), 1<<30)
			return e.Name() != "memory.db" && bytes.Equal(b, otherDB)
		}) {
			t.Error("repair with the log's base: the other snapshot is missing")
		}
	})
	t.Logf("swaps, copies, holes and strangers: %v", tally)
}

// TestCheckVectors compares the result of the check of every vector with the
// expected one.
func TestCheckVectors(t *testing.T) {
	n := 0
	synctest.Test(t, func(t *testing.T) {
		for _, v := range load(t, "snapshot", snapshotVectors) {
			r, err := crmem.Check(check.NewDisk(v.DB(), nil), rotPath, 0)
			ok(t, err)
			n++
			if v.Expect == "ok" {
				if len(r.Problems) != 0 {
					t.Errorf("%s: %+v", v.Name, r.Problems)
				}
				continue
			}
			if len(r.Problems) != 1 {
				t.Errorf("%s: %+v", v.Name, r.Problems)
				continue
			}
			p := r.Problems[0]
			if p.Kind != "format" || p.File != rotPath || p.Offset != v.Offset || p.Length != int64(len(v.DB()))-v.Offset {
				t.Errorf("%s: %+v, want format at %d", v.Name, p, v.Offset)
			}
			if err := faultOf(v, r.Err(), rotPath); err != nil {
				t.Errorf("%s: %v", v.Name, err)
			}
		}
		for _, v := range load(t, "log", logVectors) {
			n++
			checkLogVector(t, v)
		}
	})
	t.Logf("vectors checked: %d", n)
}

func checkLogVector(t *testing.T, v *vectors.Vector) {
	db := v.Files["db"]
	kind := map[string]string{"ok": "whole", "torn": "torn", "rotten": "rot", "format": "rot", "foreign": "foreign"}[v.Expect]
	if v.More["db"] == "missing" {
		db, kind = nil, "missing"
	}
	m := check.NewDisk(db, v.Files["wal"])
	r, err := crmem.Check(m, rotPath, 0)
	ok(t, err)
	if strings.HasPrefix(v.Name, "header-version-") {
		kind = "format"
	}
	if v.Name == "ok-foreign-empty" {
		kind = "foreign" // no operation is lost, but the snapshot has changed
	}
	if kind == "whole" {
		if len(r.Problems) != 0 {
			t.Errorf("%s: %+v", v.Name, r.Problems)
		}
		return
	}
	if len(r.Problems) != 1 {
		t.Errorf("%s: %+v, want %s", v.Name, r.Problems, kind)
		return
	}
	p := r.Problems[0]
	if p.Kind != kind {
		t.Errorf("%s: %+v, want %s", v.Name, p, kind)
	}
	if inLog := kind == "torn" || kind == "rot"; inLog && (p.File != rotPath+"-wal" || p.Offset != v.Offset || p.Length != int64(len(v.Files["wal"]))-v.Offset) {
		t.Errorf("%s: %+v, want offset %d of the log", v.Name, p, v.Offset)
	}
}
