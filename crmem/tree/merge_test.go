package tree_test

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	. "crabmem/crmem"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
	"crabmem/fuzz/seed"
)

// value is an entry apart from its id and name, comparable.
type value struct {
	kind    Kind
	created uint64
	content string
	aliases string
}

func values(sn *Snapshot) map[string]value {
	out := map[string]value{}
	for e := range sn.All() {
		var list string
		for _, a := range e.Aliases {
			list += a + "\x00|"
		}
		out[e.Name] = value{e.Kind, uint64(e.CreatedAt), e.Content, list}
	}
	return out
}

func entriesOf(sn *Snapshot) map[string]Entry {
	out := map[string]Entry{}
	for e := range sn.All() {
		out[e.Name] = e
	}
	return out
}

var mergeNames = []string{"a", "A", "a/b", "日本", "x y", "..", "README", "é"}

func mergeEntry(r *rand.Rand, id uint64, name string) Entry {
	texts := []string{"one", "two\n", "  three", "</div>", "four\r\nfive", "---\ntype: fact # a\n---\nsix", "---\r\ntags:\r\n- a\r\n---\r\n---\r\nb: c\r\n---", ""}
	e := Entry{ID: id, Name: name, Kind: Kind(r.IntN(8) / 7), CreatedAt: 1_700_000_000 + UnixTime(r.Uint64N(2)), Content: texts[r.IntN(len(texts))]}
	if r.IntN(3) == 0 {
		e.Aliases = []string{texts[r.IntN(len(texts)-1)]}
	}
	return e
}

// mutate changes, removes, and adds entries of a store or a tree.
func mutate(t *testing.T, r *rand.Rand, sn *Snapshot) *Snapshot {
	next := sn.NextID
	have := entriesOf(sn)
	for range r.IntN(5) {
		name := mergeNames[r.IntN(len(mergeNames))]
		old, ok := have[name]
		switch {
		case ok && r.IntN(3) == 0:
			delete(have, name)
		case ok:
			e := mergeEntry(r, old.ID, name)
			e.Kind = old.Kind // a kind never changes, so a new one is a new entry
			if r.IntN(6) == 0 {
				e.Kind, e.ID = 1-old.Kind, next
				next++
			}
			have[name] = e
		default:
			have[name] = mergeEntry(r, next, name)
			next++
		}
	}
	out, err := NewSnapshot(next, slices.Collect(maps.Values(have)))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// mergeModel is the written rule of merge, by name: a side that did not
// change gives way; a text beats its removal; two texts are a conflict, in
// which the store's stays. Without a base everything both sides have and spell
// differently is a conflict.
func mergeModel(base, store, tree map[string]value, based bool) (result map[string]value, conflicts []string) {
	result = map[string]value{}
	names := maps.Clone(store)
	maps.Copy(names, tree)
	for name := range names {
		s, inStore := store[name]
		t, inTree := tree[name]
		b, inBase := base[name]
		storeSame := based && inStore == inBase && s == b
		treeSame := based && inTree == inBase && t == b
		switch {
		case inStore && inTree && s == t:
			result[name] = s
		case storeSame:
			if inTree {
				result[name] = t
			}
		case treeSame || !inTree:
			if inStore {
				result[name] = s
			}
		case !inStore:
			result[name] = t
		default:
			result[name] = s
			conflicts = append(conflicts, name)
		}
	}
	slices.Sort(conflicts)
	return result, conflicts
}

// edit changes the tree in dir, which was dumped from base, as people do by
// hand: it has the pages of sn, and the manifest of the dump or no manifest.
func edit(t *testing.T, mem *faultfs.Mem, dir string, sn *Snapshot, based bool) {
	t.Helper()
	exchange := map[string][]byte{}
	for _, sub := range []string{BasesFor(dir), dir + "/.crabmem"} {
		for _, d := range must(mem.ReadDir(sub)) {
			name := sub + "/" + d.Name()
			exchange[name] = must(vfs.ReadFile(mem, name, math.MaxInt64))
		}
	}
	if _, err := DumpSnapshot(mem, dir, sn, DumpOptionsFor(dir)); err != nil {
		t.Fatal(err)
	}
	for name, text := range exchange {
		mem.WriteFile(name, text, 0o600)
	}
	if !based {
		ok(t, mem.Remove(dir+"/.crabmem.json"))
	}
}

// storeOf is a store in RAM that holds a snapshot.
func storeOf(t *testing.T, fsys vfs.FS, sn *Snapshot) *Store {
	t.Helper()
	s := New(&Options{FS: fsys})
	if err := s.Replace(sn); err != nil {
		t.Fatal(err)
	}
	return s
}

// checkIDs: entries that keep name and kind keep their id, others have one
// that the store never gave out, unless it was empty.
func checkIDs(t *testing.T, before, after *Snapshot) {
	t.Helper()
	old := entriesOf(before)
	for e := range after.All() {
		o, ok := old[e.Name]
		switch {
		case ok && o.Kind == e.Kind:
			if o.ID != e.ID {
				t.Fatalf("%q had id %d and has %d", e.Name, o.ID, e.ID)
			}
		case before.Len() > 0 && e.ID < before.NextID:
			t.Fatalf("%q has the used id %d", e.Name, e.ID)
		}
	}
	if after.NextID < before.NextID {
		t.Fatalf("next_id fell from %d to %d", before.NextID, after.NextID)
	}
}

func TestMergeAgainstModel(t *testing.T) {
	race.Skip(t)
	r := seed.Random(t)
	rounds := rounds()
	var conflicts, settled, unbased, replaced, guarded int
	for n := 0; replaced < rounds; n++ {
		first, err := NewSnapshot(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		base := mutate(t, r, mutate(t, r, first))
		storeSn, treeSn := mutate(t, r, base), mutate(t, r, base)
		if treeSn.Len() == 0 {
			continue
		}
		based := r.IntN(5) > 0
		mem := faultfs.NewMem()
		if _, err := DumpSnapshot(mem, "/brain", base, DumpOptionsFor("/brain")); err != nil {
			t.Fatal(err)
		}
		edit(t, mem, "/brain", treeSn, based)
		b, st, tr := values(base), values(storeSn), values(treeSn)
		if !based {
			unbased++
		}
		for name, v := range tr {
			// An entry that is missing from the manifest keeps the store's
			// time.
			_, inBase := b[name]
			if s, ok := st[name]; ok && s.kind == v.kind && !(based && inBase) {
				v.created = s.created
				tr[name] = v
			}
		}

		// The guarded replacement must return an error if it would overwrite a
		// change of the store. Otherwise the result is the tree.
		var lost []string
		for name := range union(st, tr) {
			s, inS := st[name]
			x, inT := tr[name]
			o, inB := b[name]
			if based && storeSn.Len() > 0 && (inS != inT || s != x) && (inS != inB || s != o) {
				lost = append(lost, name)
			}
		}
		slices.Sort(lost)
		forked := mem.Kill()
		s := storeOf(t, forked, storeSn)
		_, err = Load(s, "/brain", &LoadOptions{Bases: BasesFor("/brain"), Guard: true})
		if len(lost) > 0 {
			guarded++
			changed, ok := errors.AsType[*ChangedError](err)
			if ok {
				slices.Sort(changed.Names)
			}
			if !ok || !slices.Equal(changed.Names, lost) || !maps.Equal(values(s.Snapshot()), st) {
				t.Fatalf("round %d: guarded load: %v, want ChangedError %q", n, err, lost)
			}
			_, err = Load(s, "/brain", LoadOptionsFor("/brain"))
		}
		if err != nil {
			t.Fatalf("round %d: replace: %v", n, err)
		}
		replaced++
		if got := values(s.Snapshot()); !maps.Equal(got, tr) {
			t.Fatalf("round %d: replace gave %v, want %v", n, got, tr)
		}
		checkIDs(t, storeSn, s.Snapshot())
		// Loading the same tree again changes no entry, also with Guard.
		if report, err := Load(s, "/brain", &LoadOptions{Bases: BasesFor("/brain"), Guard: true}); err != nil || len(report.Added)+len(report.Changed)+len(report.Removed) > 0 {
			t.Fatalf("round %d: loading twice: %+v, %v", n, report, err)
		}

		want, wantConflicts := mergeModel(b, st, tr, based)
		s = storeOf(t, mem, storeSn)
		report, err := Load(s, "/brain", &LoadOptions{Bases: BasesFor("/brain"), Merge: true})
		if err != nil {
			t.Fatalf("round %d: merge: %v", n, err)
		}
		var got []string
		for _, c := range report.Conflicts {
			got = append(got, c.Name)
		}
		slices.Sort(got)
		if v := values(s.Snapshot()); !maps.Equal(v, want) || !slices.Equal(got, wantConflicts) {
			t.Fatalf("round %d: merge gave %v, conflicts %q\nwant %v, conflicts %q\nbase %v\nstore %v\ntree %v", n, v, got, want, wantConflicts, b, st, tr)
		}
		checkIDs(t, storeSn, s.Snapshot())
		checkTexts(t, mem, s.Snapshot(), b, st, tr)
		if len(got) == 0 {
			continue
		}

		// A conflict is settled by removing its file: then the page counts.
		conflicts += len(got)
		if _, err := Load(s, "/brain", &LoadOptions{Bases: BasesFor("/brain"), Merge: true}); !errors.Is(err, ErrTree) {
			t.Fatalf("round %d: an unsettled conflict loads: %v", n, err)
		}
		for _, c := range report.Conflicts {
			if err := mem.Remove("/brain/" + c.File); err != nil {
				t.Fatal(err)
			}
			want[c.Name] = tr[c.Name]
		}
		report, err = Load(s, "/brain", &LoadOptions{Bases: BasesFor("/brain"), Merge: true})
		if v := values(s.Snapshot()); err != nil || len(report.Conflicts) > 0 || !maps.Equal(v, want) {
			t.Fatalf("round %d: the settled merge gave %v, %v, want %v", n, v, err, want)
		}
		settled++
	}
	if conflicts < rounds/10 || unbased < rounds/10 || guarded < rounds/10 {
		t.Fatalf("only %d conflicts, %d trees without a manifest, %d guarded", conflicts, unbased, guarded)
	}
	t.Logf("triples merged: %d, conflicts: %d in %d merges, all settled; without a base: %d; guarded: %d", replaced, conflicts, settled, unbased, guarded)
}

func union(a, b map[string]value) map[string]value {
	u := maps.Clone(a)
	maps.Copy(u, b)
	return u
}

// checkTexts checks that each text of either side that the base lacks is in the
// store or in the tree.
func checkTexts(t *testing.T, mem *faultfs.Mem, after *Snapshot, base, store, tree map[string]value) {
	t.Helper()
	have := map[string]bool{}
	for _, v := range values(after) {
		have[v.content] = true
		have[v.aliases] = true
	}
	for _, dir := range []string{"/brain", "/brain/conflicts"} {
		for _, e := range refLoad(t, mem, dir) {
			have["trimmed "+e.Content] = true
		}
	}
	for _, side := range []map[string]value{store, tree} {
		for name, v := range side {
			if v == base[name] || have[v.content] {
				continue
			}
			if !have["trimmed "+strings.TrimSpace(v.content)] {
				t.Fatalf("the text %q of %q is lost", v.content, name)
			}
		}
	}
}
