package crmem_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// damageScene is a store with a snapshot of several blocks, a log, and index files.
func damageScene(t *testing.T, rng *rand.Rand) *indexScene {
	c := newIndexScene(t)
	c.write(rng, 60, crmem.Options{CheckpointOnClose: crmem.CheckpointNever})
	c.apply(writeAll, crmem.Remember{Name: "long", Content: strings.Repeat(randomText(rng, 100), 200)})
	c.fold()
	c.write(rng, 5, crmem.Options{CheckpointOnClose: crmem.CheckpointNever})
	c.save(analysis.Standard, analysis.Plain)
	return c
}

// footerOf returns the footer of an index file.
func footerOf(t *testing.T, b []byte) *format.IndexFooter {
	t.Helper()
	f, err := format.ReadIndexFooter(b[len(b)-format.IndexFooterSize:], int64(len(b)))
	noErr(t, err)
	return f
}

// sealed replaces the checksums of the blocks and of the footer by those of the present
// bytes. The footer is the one of b, with the changes of change.
func sealed(t *testing.T, b []byte, change func(f *format.IndexFooter)) []byte {
	t.Helper()
	f := footerOf(t, b)
	sums := []byte{}
	for at := uint64(0); at < f.Data; at += 64 << 10 {
		sums = binary.LittleEndian.AppendUint32(sums, crc32.Checksum(b[at:min(at+64<<10, f.Data)], format.Castagnoli()))
	}
	f.SumsCRC = crc32.Checksum(sums, format.Castagnoli())
	if change != nil {
		change(f)
	}
	return f.Append(append(append([]byte{}, b[:f.Data]...), sums...))
}

// bitFlips returns copies of an index file with one changed bit, some for each region.
func bitFlips(t *testing.T, rng *rand.Rand, b []byte, each int) map[string][]byte {
	f := footerOf(t, b)
	list := map[string][]byte{}
	flip := func(region string, off, n uint64) {
		for range each {
			if n > 0 {
				at := off + rng.Uint64N(n)
				list[fmt.Sprintf("bit of %s at %d", region, at)] = flipBit(b, at, rng.IntN(8))
			}
		}
	}
	for i, s := range f.Sections {
		flip(fmt.Sprint("section ", i), s.Off, s.Len)
	}
	flip("the checksums", f.Data, uint64(len(b))-format.IndexFooterSize-f.Data)
	flip("the seed", uint64(len(b))-format.IndexFooterSize+136, 16)
	flip("the footer", uint64(len(b))-format.IndexFooterSize, format.IndexFooterSize)
	return list
}

func flipBit(b []byte, at uint64, bit int) []byte {
	b = append([]byte{}, b...)
	b[at] ^= 1 << bit
	return b
}

// TestIndexDamaged damages index files before the store is opened. All answers are those
// without index files, and the next search that builds an index replaces the file.
func TestIndexDamaged(t *testing.T) {
	t.Parallel()
	race.Skip(t)
	rng := rand.New(rand.NewPCG(1, 1))
	other := damageScene(t, rng)
	c := damageScene(t, rng)
	files := c.take()
	damages := map[string]func(name string){
		"missing":     func(name string) {},
		"empty":       func(name string) { c.fs.WriteFile(name, nil, 0o600) },
		"directory":   func(name string) { noErr(t, c.fs.Mkdir(name, 0o700)) },
		"FIFO":        func(name string) { c.fs.Mkfifo(name) },
		"link":        func(name string) { c.fs.WriteFile("/copy", files[name], 0o600); c.fs.Symlink("/copy", name) },
		"group":       func(name string) { c.fs.WriteFile(name, files[name], 0o620) },
		"others":      func(name string) { c.fs.WriteFile(name, files[name], 0o602) },
		"unreadable":  func(name string) { c.fs.WriteFile(name, files[name], 0) },
		"other store": func(name string) { c.fs.WriteFile(name, other.bytes(name), 0o600) },
		"analyzer": func(name string) {
			c.fs.WriteFile(name, files[indexFiles[0]], 0o600)
		},
		"log": func(name string) { c.fs.WriteFile(name, c.bytes("/m.db-wal"), 0o600) },
	}
	for what, version := range map[string]byte{"newer": 9, "other terms": 7} {
		damages[what] = func(name string) {
			b := append([]byte{}, files[name]...)
			foot := b[len(b)-format.IndexFooterSize:]
			foot[8] = version
			binary.LittleEndian.PutUint32(foot[len(foot)-4:], crc32.Checksum(foot[:len(foot)-4], format.Castagnoli()))
			c.fs.WriteFile(name, b, 0o600)
		}
	}
	for _, name := range indexFiles {
		for what, b := range bitFlips(t, rng, files[name], 1) {
			damages[name+": "+what] = func(n string) {
				if c.fs.WriteFile(n, files[n], 0o600); n == name {
					c.fs.WriteFile(n, b, 0o600)
				}
			}
		}
		for range 3 {
			n := rng.IntN(len(files[name]))
			damages[fmt.Sprintf("%s: %d bytes", name, n)] = func(name string) {
				c.fs.WriteFile(name, files[name][:min(n, len(files[name]))], 0o600)
			}
		}
	}
	plain := c.open(readAll)
	want := answers(t, plain, 1)
	noErr(t, plain.Close())
	for what, damage := range damages {
		c.warn = nil
		for i, o := range []crmem.Options{readAll, writeLazily, readLazily, readLazily, readLazily} {
			if i < 3 { // else the files of the reader before it
				c.removeIndexes()
				for _, name := range indexFiles {
					damage(name)
				}
			}
			s := c.open(o)
			compareAnswers(t, 1, what, answers(t, s, 1), want)
			if version := what == "newer" || what == "other terms"; version && i == 2 && crmem.UsesIndexFile(s) {
				t.Errorf("%s: the file is used", what)
			}
			if i == 4 && what != "directory" && !crmem.UsesIndexFile(s) {
				t.Errorf("%s: the file was not replaced", what)
			}
			noErr(t, s.Close())
		}
		if len(c.warn) > 0 && !strings.Contains(what, "bit of section") && !strings.Contains(what, "analyzer") {
			t.Errorf("%s: warnings %q", what, c.warn)
		}
		for _, name := range append(indexFiles, "/copy") {
			if err := c.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
	if n := c.fs.OpenFiles(); n > 0 {
		t.Errorf("%d open files", n)
	}
}

// attempts is answers for files that change: each answer may be an error instead, except
// that a name does not exist.
func attempts(s *crmem.Store, seed uint64) (list []string) {
	rng := rand.New(rand.NewPCG(seed, 3))
	add := func(err error, v ...any) {
		if err != nil && !errors.Is(err, crmem.ErrNotFound) {
			list = append(list, "error: "+err.Error())
			return
		}
		list = append(list, fmt.Sprintf("%+v", v))
	}
	for range 6 {
		q := crmem.Query{Text: randomText(rng, 4), Limit: 3, Analyzer: analysis.Analyzer(rng.IntN(2))}
		r, err := s.Search(context.Background(), q)
		add(err, len(r.Hits), r.Searched)
		for i := range 3 { // a list of the same length
			h := append(r.Hits, crmem.Hit{}, crmem.Hit{}, crmem.Hit{})[i]
			add(err, h.Entry, h.Score)
		}
		name := fmt.Sprintf("%s %d", indexWords[rng.IntN(4)], rng.IntN(12))
		e, err := s.Get(name)
		add(err, e)
	}
	return list
}

func compareAttempts(t *testing.T, what string, got, want []string) (failed int) {
	t.Helper()
	for i := range want {
		if strings.HasPrefix(got[i], "error: ") {
			failed++
		} else if got[i] != want[i] {
			t.Fatalf("%s: answer %d\n got %s\nwant %s", what, i, got[i], want[i])
		}
	}
	return failed
}

// TestIndexChangedWhileOpen truncates and overwrites the index files and the snapshot
// while stores have them open. An answer is right, or an error. If only index files
// change, all answers are right.
func TestIndexChangedWhileOpen(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	c := damageScene(t, rng)
	files := c.take()
	files["/m.db"] = c.bytes("/m.db")
	plain := c.open(readAll)
	want := attempts(plain, 1)
	noErr(t, plain.Close())
	failed, failedIndex := 0, 0
	for round := range 90 {
		name := []string{indexFiles[0], indexFiles[1], "/m.db"}[round%3]
		for n, b := range files {
			c.fs.WriteFile(n, b, 0o600)
		}
		s := c.open([]crmem.Options{readLazily, readAll, writeLazily}[rng.IntN(3)])
		if rng.IntN(2) == 0 {
			compareAttempts(t, "before", attempts(s, 1), want)
		}
		b := append([]byte{}, files[name]...)
		var what string
		switch n := rng.IntN(len(b)); rng.IntN(4) {
		case 0:
			b, what = b[:n], fmt.Sprintf("%s cut to %d bytes", name, n)
		case 1:
			b, what = nil, name+" empty"
		case 2:
			b[n] ^= 4
			what = fmt.Sprintf("%s changed at %d", name, n)
		case 3:
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			what = name + " overwritten"
		}
		c.fs.WriteFile(name, b, 0o600)
		n := compareAttempts(t, what, attempts(s, 1), want)
		if name == "/m.db" {
			failed += n
		} else if failedIndex += n; n > 0 {
			t.Errorf("%s: %d errors", what, n)
		}
		c.fs.WriteFile("/m.db", files["/m.db"], 0o600)
		_ = s.Close() // a writer detects the change
	}
	if failed == 0 {
		t.Error("no error after a change of the snapshot")
	}
	if n := c.fs.OpenFiles(); n > 0 {
		t.Errorf("%d open files", n)
	}
}

// copyOf returns a scene with a copy of the files.
func (c *indexScene) copyOf() *indexScene {
	d := *c
	d.fs, d.warn = c.fs.Kill(), nil
	return &d
}

// TestIndexWriters writes with a lazy store whose index files change, and to a copy
// without index files. Both then contain the same.
func TestIndexWriters(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	base := damageScene(t, rng)
	refused, applied := 0, 0
	for round := range indexStores(t) / 5 {
		c, m := base.copyOf(), base.copyOf()
		m.removeIndexes()
		lazy, model := c.open(writeLazily), m.open(writeAll)
		what := fmt.Sprint("round ", round)
		if !crmem.UsesIndexFile(lazy) {
			t.Fatal("the index file is not used")
		}
		change, failing := rng.IntN(12), round%3 == 0
		for step := range 12 {
			if name := indexFiles[0]; step == change && !failing {
				b := c.bytes(name)
				c.fs.WriteFile(name, b[:rng.IntN(len(b))], 0o600)
			}
			if step == change && failing {
				left := rng.IntN(4)
				c.fs.Hook = func(call faultfs.Call) error {
					if left--; left < 0 && left > -3 && call.Op == "read" {
						return syscall.EIO
					}
					return nil
				}
			}
			if rng.IntN(3) == 0 {
				_, err := lazy.Search(t.Context(), crmem.Query{Text: "tea"})
				if err != nil && !errors.Is(err, syscall.EIO) {
					t.Fatal(err)
				}
			}
			op := randomOp(rng)
			err := lazy.Apply(op)
			if errors.Is(err, crmem.ErrNotApplied) && errors.Is(err, syscall.EIO) && failing {
				refused++
				continue
			}
			want := model.Apply(op)
			if fmt.Sprint(err) != fmt.Sprint(want) {
				t.Fatalf("%s, step %d: %+v: %v, want %v", what, step, op, err, want)
			}
			applied++
		}
		c.fs.Hook = nil
		compareAnswers(t, 1, what, answers(t, lazy, 1), answers(t, model, 1))
		noErr(t, errors.Join(lazy.Close(), model.Close()))
		c.removeIndexes()
		lazy, model = c.open(readAll), m.open(readAll)
		compareAnswers(t, 1, what, []string{stateOf(t, lazy)}, []string{stateOf(t, model)})
		noErr(t, errors.Join(lazy.Close(), model.Close()))
	}
	t.Logf("%d operations applied, %d refused", applied, refused)
}
