// Package snapshot compares the snapshot codec of package crmem with package
// refdec. The input is generated stores, their mutations, and fuzzed bytes.
package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"crabmem/crmem"
	"crabmem/fuzz/refdec"
	"crabmem/fuzz/seed"
	"crabmem/fuzz/vectors"
)

var (
	stores = flag.Int("stores", 10_000, "number of stores")
)

// agree returns an error if the two decoders differ. accepted reports whether both
// accepted the bytes.
func agree(b []byte) (accepted bool, err error) {
	snapshot, err := crmem.Decode(b)
	ref, refused := refdec.Snapshot(b)
	if (err == nil) != (refused == nil) {
		return false, fmt.Errorf("crmem returns %v, the independent decoder %v", err, refused)
	}
	if err != nil {
		f, ok := errors.AsType[*crmem.FormatError](err)
		g := refused.(*refdec.Fault)
		if !ok || f.Field != g.Field || f.Offset != g.Offset || f.Entry != g.Entry {
			return false, fmt.Errorf("crmem returns %v, the independent decoder %v", err, refused)
		}
		return false, nil
	}
	var list []crmem.Entry
	for e := range snapshot.All() {
		list = append(list, e)
	}
	if err := equal(snapshot.NextID, list, ref); err != nil {
		return true, err
	}
	if snapshot.Len() != len(list) {
		return true, fmt.Errorf("Len returns %d, want %d", snapshot.Len(), len(list))
	}
	out, err := snapshot.AppendBinary(nil)
	if err != nil || !bytes.Equal(out, b) {
		return true, fmt.Errorf("crmem encodes other bytes (%v)", err)
	}
	if !bytes.Equal(ref.Bytes(), b) {
		return true, errors.New("the independent encoder returns other bytes")
	}
	made, err := crmem.NewSnapshot(snapshot.NextID, list)
	if err != nil {
		return true, fmt.Errorf("NewSnapshot fails for decoded entries: %w", err)
	}
	if out, err = made.AppendBinary(nil); err != nil || !bytes.Equal(out, b) {
		return true, fmt.Errorf("NewSnapshot encodes other bytes (%v)", err)
	}
	return true, nil
}

func equal(next uint64, list []crmem.Entry, ref *refdec.Store) error {
	if next != ref.NextID || len(list) != len(ref.Entries) {
		return fmt.Errorf("next_id %d and %d entries, the independent decoder has %d and %d",
			next, len(list), ref.NextID, len(ref.Entries))
	}
	for i, e := range ref.Entries {
		want := crmem.Entry{ID: e.ID, Name: e.Name, Kind: crmem.Kind(e.Kind), CreatedAt: crmem.UnixTime(e.CreatedAt), Content: e.Content, Aliases: e.Aliases}
		if !list[i].Equal(want) {
			return fmt.Errorf("entry %d is %+v, the independent decoder has %+v", i, list[i], want)
		}
	}
	return nil
}

// TestGeneratedStores checks that the two codecs agree on 10,000 valid stores and
// on mutations of them.
func TestGeneratedStores(t *testing.T) {
	s := seed.Of(t)
	rng := rand.New(rand.NewPCG(s, 0))
	accepted, refused := 0, 0
	for i := range *stores {
		b := generate(rng).Bytes()
		ok, err := agree(b)
		if err != nil || !ok {
			t.Fatalf("seed %d, store %d (accepted: %v): %v", s, i, ok, err)
		}
		for range 10 {
			m := mutate(rng, slices.Clone(b))
			ok, err := agree(m)
			if err != nil {
				t.Fatalf("seed %d, store %d, mutation %x: %v", s, i, m, err)
			}
			if ok {
				accepted++
			} else {
				refused++
			}
		}
	}
	if accepted < *stores || refused < *stores {
		t.Errorf("seed %d: %d mutations accepted and %d refused: want at least one of each per store", s, accepted, refused)
	}
	t.Logf("%d stores; both codecs accepted %d mutations and refused %d (seed %d)", *stores, accepted, refused, s)
}

var scraps = []string{
	"", "a", "b", "deploy", "../x", "\x00", "\r\n", " ", "\ufeff", "\ufffd", "日本", "é", "é", "🦀", "<div id=\"meta\">",
	"\U0010ffff", "\ud7ff", "-", "](x)", "the quick brown fox",
}

func text(rng *rand.Rand, most int) string {
	var b []byte
	for range rng.IntN(most + 1) {
		b = append(b, scraps[rng.IntN(len(scraps))]...)
	}
	return string(b)
}

func number(rng *rand.Rand) uint64 {
	switch rng.IntN(6) {
	case 0:
		return 0
	case 1:
		return math.MaxUint64
	case 2:
		return rng.Uint64()
	}
	return rng.Uint64N(1 << 31)
}

// generate returns a random valid store.
func generate(rng *rand.Rand) *refdec.Store {
	s := &refdec.Store{}
	id := uint64(0)
	taken := map[string]bool{}
	for range rng.IntN(1 + rng.IntN(30)) {
		id += 1 + rng.Uint64N(3)
		if rng.IntN(200) == 0 {
			id += 1 << 60
		}
		if id > math.MaxUint64-8 || len(taken) > 0 && id < s.Entries[len(s.Entries)-1].ID {
			break
		}
		e := refdec.Entry{ID: id, CreatedAt: number(rng), Kind: rng.Uint32N(2), Name: text(rng, 3), Content: text(rng, 1+rng.IntN(12))}
		for taken[e.Name] {
			e.Name += fmt.Sprint(rng.IntN(100))
		}
		taken[e.Name] = true
		for range max(0, rng.IntN(6)-2) {
			e.Aliases = append(e.Aliases, text(rng, 2))
		}
		s.Entries = append(s.Entries, e)
	}
	if s.NextID = id + 1; rng.IntN(4) == 0 {
		s.NextID = math.MaxUint64 - rng.Uint64N(7)
	}
	return s
}

// mutate changes a file at random. It prefers changes that make the file invalid.
func mutate(rng *rand.Rand, b []byte) []byte {
	at := rng.IntN(len(b))
	switch rng.IntN(10) {
	case 0: // a bit
		b[at] ^= 1 << rng.IntN(8)
	case 1: // a byte
		b[at] = []byte{0, 1, 2, 0x7f, 0x80, 0xff, byte(rng.Uint32())}[rng.IntN(7)]
	case 2: // a length or a number
		if at+4 <= len(b) {
			binary.LittleEndian.PutUint32(b[at:], []uint32{0, 1, math.MaxUint32, 1 << 31, uint32(len(b)), uint32(len(b) - at - 4), rng.Uint32N(64)}[rng.IntN(7)])
		}
	case 3: // truncate
		b = b[:at]
	case 4: // remove bytes
		b = append(b[:at], b[min(len(b), at+1+rng.IntN(40)):]...)
	case 5: // insert zeros
		b = append(b[:at:at], append(make([]byte, 1+rng.IntN(40)), b[at:]...)...)
	case 6: // duplicate bytes
		n := min(len(b)-at, 1+rng.IntN(64))
		b = append(b[:at+n:at+n], b[at:]...)
	case 7: // a count
		n := binary.LittleEndian.Uint32(b[24:])
		binary.LittleEndian.PutUint32(b[24:], n+rng.Uint32N(5)-2)
	case 8: // next_id
		n := binary.LittleEndian.Uint64(b[16:])
		binary.LittleEndian.PutUint64(b[16:], n+rng.Uint64N(7)-3)
	case 9: // change the case of a letter: the file mostly stays valid
		if i := bytes.IndexAny(b[at:], "abdefghiknopqrtuwxy"); i >= 0 && at+i >= 28 {
			b[at+i] ^= 0x20
		}
	}
	return b
}

func FuzzSnapshot(f *testing.F) {
	root := os.DirFS(filepath.Join("..", "..", "testdata"))
	all, err := vectors.Load(root, "vectors/snapshot", 149)
	if err != nil {
		f.Fatal(err)
	}
	for _, v := range all {
		f.Add(v.DB())
	}
	for _, name := range []string{"basic", "unicode", "history"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "golden", "crmem", name+".db"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := slices.Clone(b)
		if _, err := agree(b); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, before) {
			t.Fatal("the decoder changed its input")
		}
	})
}
