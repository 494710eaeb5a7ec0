package crmem_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// decompressed returns the content of a zstd file, up to the first error.
func decompressed(z string) string {
	d, err := zstd.NewReader(strings.NewReader(z), zstd.WithDecoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	defer d.Close()
	b, _ := io.ReadAll(d)
	return string(b)
}

// everything returns all changes, the state after each, and the changes of each name.
func (p *past) everything() string {
	p.t.Helper()
	var b strings.Builder
	for c, err := range p.s.Changes() {
		b.WriteString(changeText(c, err))
		if err == nil && c.Seq > 0 {
			sn, err := p.s.At(crmem.Point{Seq: c.Seq})
			p.must(err)
			b.WriteString(stateText(slices.Collect(sn.All())...))
		}
	}
	for _, list := range ofAll(p.changesOf) {
		b.WriteString(list + "\n")
	}
	return b.String()
}

// TestCompressedHistory executes the same operations in a store that compresses
// segments and in one that does not. Changes, states, purges, and prunes are equal.
func TestCompressedHistory(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	synctest.Test(t, testCompressedHistory)
}

func testCompressedHistory(t *testing.T) {
	files, purged, pruned := 0, 0, 0
	for seed := range uint64(histories()) {
		var texts [2]string
		for i := range texts {
			r := rand.New(rand.NewPCG(seed, 9))
			p := newPast(t)
			p.plain, p.segmentLimit = i == 1, 100+r.Int64N(500)
			p.reopen()
			var b strings.Builder
			for range 3 {
				p.randomSteps(r, 3+r.IntN(12))
				b.WriteString(p.everything())
				if i == 0 {
					files += len(p.history(".zst"))
				}
				switch name := randomNames[r.IntN(5)]; r.IntN(3) {
				case 0:
					_, err := p.s.Purge(name)
					fmt.Fprintln(&b, "purge", name, err)
					purged += len(p.history(".zst"))
				case 1:
					_, err := p.s.Prune(time.Unix(p.now-r.Int64N(12), 0))
					fmt.Fprintln(&b, "prune", err)
					pruned += len(p.history(".zst"))
				}
				b.WriteString(p.everything())
				if r.IntN(2) == 0 {
					p.reopen()
				}
			}
			if list := p.history(".zst"); i == 1 && len(list) > 0 {
				t.Fatalf("compressed segments %q", list)
			}
			report, err := crmem.Check(p.m, "/m.db", 0)
			p.must(err)
			fmt.Fprintf(&b, "%+v %d warnings", report.Problems, len(p.warn))
			texts[i] = b.String()
		}
		if texts[0] != texts[1] {
			t.Fatalf("seed %d: compressed\n%s\nnot compressed\n%s", seed, texts[0], texts[1])
		}
	}
	t.Logf("%d compressed segments, %d after purges, %d after prunes", files, purged, pruned)
	if files < histories() || purged < histories()/10 || pruned < histories()/20 {
		t.Errorf("%d compressed segments, %d after purges, %d after prunes", files, purged, pruned)
	}
}

// TestCompressedFiles decodes compressed segments with the library.
func TestCompressedFiles(t *testing.T) {
	p := newSegments(t, 5)
	before := p.copyFiles()
	p.must(crmem.Compress(p.s))
	after := p.copyFiles()
	for n := 1; n <= 5; n++ {
		name := segmentPath(n)
		want, got := before[name], decompressed(after[name+".zst"])
		if n == 5 {
			got = after[name]
		}
		if _, both := after[name]; both != (n == 5) || got != want || want == "" {
			t.Errorf("segment %d: %d bytes, want %d; files %q", n, len(got), len(want), p.files())
		}
	}
}

// segmentState describes the files of segment 1.
func (p *past) segmentState() string {
	var state []string
	for _, suffix := range []string{"", ".zst"} {
		if _, err := p.m.Lstat(segmentPath(1) + suffix); err == nil {
			state = append(state, "log"+suffix)
		}
	}
	return strings.Join(state, " ")
}

// TestNotCompressed begins segments after damaged ones, and after one with a second
// name. They remain.
func TestNotCompressed(t *testing.T) {
	p := newSegmentsOf(t, 5, true)
	p.flip(segmentPath(1), 150)
	p.put(segmentPath(2), p.copyFiles()[segmentPath(2)]+"torn")
	p.must(p.m.Link(segmentPath(3), "/second"))
	p.plain = false
	p.reopen()
	before := p.copyFiles()
	for i := 0; i < 100 && (i < 6 || p.segmentFile(4) == segmentPath(4)); i++ {
		p.do(crmem.Add{Name: fmt.Sprint("b", i)})
		list := p.history(".log")
		p.must(p.m.Link(list[len(list)-1], "/link"))
		p.must(p.s.Checkpoint())
		p.must(p.m.Remove("/link"))
	}
	after := p.copyFiles()
	for n := 1; n <= 4; n++ {
		_, compressed := after[segmentPath(n)+".zst"]
		if compressed != (n == 4) || !compressed && after[segmentPath(n)] != before[segmentPath(n)] {
			t.Errorf("segment %d is compressed: %t", n, compressed)
		}
	}
}

// TestBothForms adds compressed files next to segments: of an earlier state, and
// invalid. They do not count, and the next fold replaces them. A purge removes them.
func TestBothForms(t *testing.T) {
	for _, purge := range []bool{false, true} {
		p, secret := secretStore(t)
		p.must(p.s.Checkpoint())
		p.must(p.m.Link(segmentPath(1), "/link"))
		p.do(crmem.Add{Name: "c"})
		p.must(p.s.Checkpoint())
		p.must(p.m.Remove("/link"))
		plain := p.copyFiles()[segmentPath(1)]
		p.must(crmem.Compress(p.s))
		z := p.copyFiles()[segmentPath(1)+".zst"]
		for _, other := range []string{z, "", "first secret", z[:len(z)/2]} {
			p.put(segmentPath(1), plain)
			p.put(segmentPath(1)+".zst", other)
			if got := p.log(); strings.Contains(got, "error") || strings.Count(got, "\n") < 3 {
				t.Errorf("changes %s", got)
			}
			if !purge {
				p.must(crmem.Compress(p.s))
				if got := p.copyFiles()[segmentPath(1)+".zst"]; decompressed(got) != plain || p.segmentState() != "log.zst" {
					t.Errorf("finished as %s", p.segmentState())
				}
			}
		}
		if purge {
			if _, err := p.s.Purge("a"); err != nil {
				t.Fatal(err)
			}
			p.wantAbsent(secret)
			if got := p.segmentState(); got != "log" {
				t.Errorf("after the purge: %s", got)
			}
		}
	}
}

// TestPurgeCompressed purges an entry of compressed segments, of which one is damaged.
func TestPurgeCompressed(t *testing.T) {
	for _, damage := range []int{-1, 10, 200, -10} { // the seek table ends the file
		p := newPast(t)
		p.segmentLimit = 120
		p.reopen()
		of := map[uint64]secrets{}
		for i := range 8 {
			p.do(crmem.Add{Name: fmt.Sprint("n", i), Content: strings.Repeat(fmt.Sprint("secret ", i, " "), 30)})
			p.keep(of)
			p.must(p.s.Checkpoint())
		}
		name := p.history(".zst")[2]
		if damage != -1 {
			b := p.copyFiles()[name]
			p.flip(name, (damage+len(b))%len(b))
		}
		deleted, err := p.s.Purge("n3")
		p.must(err)
		if len(deleted) == 0 != (damage == -1) || len(deleted) > 0 && !strings.HasPrefix(deleted[0], name) {
			t.Errorf("damage at %d: deleted %q", damage, deleted)
		}
		p.wantAbsent(of[4])
		if damage == -1 {
			if got := p.brief(); strings.Contains(got, "error") || len(p.history(".zst")) == 0 {
				t.Errorf("changes %s, files %q", got, p.files())
			}
			for i := range 3 { // later folds compress the rewritten segments
				p.do(crmem.Add{Name: fmt.Sprint("m", i), Content: strings.Repeat("text ", 50)})
				p.must(p.s.Checkpoint())
			}
			if got := len(p.history(".zst")); got < 9 {
				t.Errorf("%d compressed segments: %q", got, p.files())
			}
		}
	}
}

// TestCompressedDamage changes each byte of a compressed segment and cuts it after each
// byte. Changes returns the same changes, or an error with the path and an offset, which
// verify reports.
func TestCompressedDamage(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	synctest.Test(t, testCompressedDamage)
}

func testCompressedDamage(t *testing.T) {
	p := newSegmentsOf(t, 3, false)
	name := segmentPath(2) + ".zst"
	z := p.copyFiles()[name]
	reported := 0
	check := func(what string, at int) {
		t.Helper()
		var errs []error
		for c, err := range p.s.Changes() {
			if err != nil {
				errs = append(errs, err)
			} else if c.Seq != 1 && c.Seq != 2 && c.Seq != 3 {
				t.Fatalf("%s %d: change %d", what, at, c.Seq)
			}
		}
		r, err := crmem.Check(p.m, "/m.db", 0)
		p.must(err)
		if len(errs) == 0 {
			if len(r.Problems) > 0 || p.brief() != "1 2 3" {
				t.Fatalf("%s %d: changes %s, %+v", what, at, p.brief(), r.Problems)
			}
			return
		}
		reported++
		f, ok := errors.AsType[*crmem.FormatError](errs[0])
		if !ok || f.Path != name || f.Offset < 0 || f.Offset > int64(len(z)) {
			t.Fatalf("%s %d: %v", what, at, errs)
		}
		if len(r.Problems) == 0 || r.Problems[0].File != name {
			t.Fatalf("%s %d: %+v", what, at, r.Problems)
		}
	}
	for at := range z {
		for _, bit := range []byte{1, 0xff} {
			b := bytes.Clone([]byte(z))
			b[at] ^= bit
			p.put(name, string(b))
			check("change", at)
		}
		p.put(name, z[:at])
		check("cut", at)
	}
	if reported < 2*len(z) {
		t.Errorf("%d of %d changes are reported", reported, 3*len(z))
	}
}

// TestCompressedDuringRead compresses segments while a reader has listed them.
func TestCompressedDuringRead(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	p := newSegmentsOf(t, 4, true)
	read := func(p *past) string { return p.log() + p.changesOf("a1") + p.changesOf("a2") }
	want := read(p)
	reader, err := crmem.Open("/m.db", &crmem.Options{FS: p.m, ReadOnly: true})
	p.must(err)
	for at := 0; ; at++ {
		calls, done := 0, false
		p.m.Hook = func(faultfs.Call) error {
			if calls++; calls > at && !done {
				done = true
				p.m.Hook = nil
				p.must(crmem.Compress(p.s))
			}
			return nil
		}
		q := *p
		q.s = reader
		if got := read(&q); got != want {
			t.Fatalf("compressed at call %d:\n%s\nwant\n%s", at, got, want)
		}
		p.m.Hook = nil
		if !done {
			break
		}
		for n, name := range p.history(".zst") {
			p.put(segmentPath(n+1), decompressed(p.copyFiles()[name]))
			p.must(p.m.Remove(name))
		}
	}
}
