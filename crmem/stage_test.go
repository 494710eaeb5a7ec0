package crmem

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"crabmem/crmem/metadata"
	"crabmem/crmem/vfs/faultfs"
)

// TestStageCounts stages random batches, one or several before a commit, and
// compares the numbers of the group with the table after the commit.
func TestStageCounts(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	s := New(nil)
	name := func() string { return fmt.Sprint("name ", random.IntN(12)) }
	for n := range 1500 {
		var g *group
		for range 1 + random.IntN(3) {
			var ops []Op
			for range 1 + random.IntN(3) + 9*random.IntN(2) {
				content, aliases := fmt.Sprint(random.IntN(1<<random.IntN(30))), slices.Repeat([]string{"alias"}, random.IntN(3))
				ops = append(ops, []Op{Add{name(), content, aliases, Kind(random.IntN(2))}, Update{name(), content, aliases}, Alias{name(), aliases}, Remove{name()},
					Restore{Entry{ID: uint64(random.IntN(20)), Name: name(), Content: content}}, Remember{name(), content, nil, []*metadata.Edit{nil, {Set: []metadata.Field{{Key: name(), Values: []string{content}}}}}[random.IntN(2)]}, forget{name()}}[random.IntN(7)])
			}
			if random.IntN(2) == 0 {
				ops = ops[:1]
			}
			before := s.staging
			got, effects, first, err := s.stage(ops)
			switch {
			case err != nil && got != before:
				t.Fatalf("batch %d: an error rests on another group", n)
			case err == nil:
				if g = got; first != (before == nil) || len(effects) != len(ops) || g != s.staging {
					t.Fatalf("batch %d: first %t, %d effects of %d operations", n, first, len(effects), len(ops))
				}
			}
		}
		if g == nil {
			continue
		}
		s.token <- struct{}{}
		s.commit()
		<-s.token
		if <-g.done; g.err != nil || g.live != s.t.live || g.bytes != s.t.bytes || g.nextID != s.nextID {
			t.Fatalf("batch %d: %v; %d entries, %d bytes, next ID %d; want %d, %d, %d", n, g.err, g.live, g.bytes, g.nextID, s.t.live, s.t.bytes, s.nextID)
		}
	}
	sn := s.Snapshot()
	if sn.t.live != s.t.live || sn.t.bytes != s.t.bytes || sn.t.kinds != s.t.kinds || s.Len() < 3 {
		t.Errorf("%d entries, %d bytes, kinds %v; counted again: %d, %d, %v", s.t.live, s.t.bytes, s.t.kinds, sn.t.live, sn.t.bytes, sn.t.kinds)
	}
}

// TestFileStatComparesAllFields compares the stat of a file with files that
// differ in one field.
func TestFileStatComparesAllFields(t *testing.T) {
	m := faultfs.NewMem()
	clock := int64(0)
	m.Now = func() time.Time { return time.Unix(clock, 0) }
	stat := func(name string) fileStat {
		fi, err := m.Lstat(name)
		noErr(t, err)
		return fileStat{fi}
	}
	m.WriteFile("/a", []byte("text"), 0o600)
	m.WriteFile("/b", []byte("text"), 0o600)
	a, b := stat("/a"), stat("/b")
	m.WriteFile("/a", []byte("longer text"), 0o600)
	longer := stat("/a")
	clock = 7
	m.WriteFile("/a", []byte("text"), 0o600)
	later := stat("/a")
	m.WriteFile("/b", []byte("text"), 0o600)
	for i, c := range []struct {
		a, b fileStat
		want bool
	}{
		{a, a, true}, {a, b, false}, {a, longer, false}, {longer, a, false}, {a, later, false}, {later, stat("/a"), true}, {later, stat("/b"), false}, {fileStat{}, a, false},
	} {
		if got := c.a.is(c.b.info); got != c.want {
			t.Errorf("case %d: %t", i, got)
		}
	}
	if (fileStat{}).size() != 0 || longer.size() != 11 {
		t.Errorf("sizes %d, %d", (fileStat{}).size(), longer.size())
	}
	f := a
	if f.renamed(m, "/none", b.info); f != a {
		t.Error("a file that does not exist was recorded")
	}
	if f.renamed(m, "/a", b.info); f != a {
		t.Error("the name of another file was recorded")
	}
	if f.renamed(m, "/b", b.info); f != b {
		t.Error("the rename was not recorded")
	}
}
