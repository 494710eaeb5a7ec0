package op_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/links"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/op"
)

// TestRename renames entries of random stores. No link that led to an entry is broken, or
// leads to another one, and undo of any change of the rename restores every byte; undo of
// the undo renames again.
func TestRename(t *testing.T) {
	names := []string{"deploy", "Deploy", "a/deploy", "b/deploy", "ship", "Ship", "a/ship", "x y", "été", "E\u0301te\u0301", "C#", "note.md"}
	ends := []string{"", "", "#Steps", "#^a1", "|text", "#Steps|text", ".md"}
	forms := []string{"see [[%s]].\n", "![[%s]] ", "`[[%[1]s]]` [[%[1]s]]\n", "| [[%s]] |\n", "```\n[[%[1]s]]\n```\n[[%[1]s]]\n"}
	relinked := 0
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s, err := crmem.Open("/m.db", &crmem.Options{FS: faultfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		pick := func() string { return names[rng.IntN(len(names))] }
		for range 2 + rng.IntN(7) {
			var text strings.Builder
			if rng.IntN(3) == 0 {
				fmt.Fprintf(&text, "---\nsupersedes: \"[[%s]]\"\npart_of: [\"[[%s]]\", \"[[%s]]\"]\n---\n", pick(), pick(), pick())
			}
			for range rng.IntN(4) {
				target := pick()
				if rng.IntN(3) == 0 {
					target = strings.ToUpper(target)
				}
				fmt.Fprintf(&text, forms[rng.IntN(len(forms))], target+ends[rng.IntN(len(ends))])
			}
			_ = s.Apply(crmem.Add{Name: pick(), Content: text.String(), Aliases: []string{pick()}, Kind: crmem.Kind(rng.IntN(2))}) // or the name is taken
		}
		before := s.Snapshot()
		was := crmem.New(nil)
		led := make(map[uint64][]links.Link)
		var ids []uint64
		for e := range s.All() {
			ids, led[e.ID] = append(ids, e.ID), links.Of(s, e)
			if err := was.Apply(crmem.Restore{Entry: e}); err != nil {
				t.Fatal(err)
			}
		}
		old, to := nameOf(s, ids[rng.IntN(len(ids))]), pick()
		on := op.Store{Store: s}
		r, err := op.Rename.Do(t.Context(), on, op.Renaming{Name: old, To: to})
		if err != nil || old == to {
			if !s.Snapshot().Equal(before) {
				t.Fatalf("seed %d: %v, and entries changed", seed, err)
			}
			continue
		}
		relinked += r.Relinked
		for e := range s.All() {
			list := links.Of(s, e)
			for i, l := range list {
				if _, err := was.Link(l.Target); err == nil && !l.Leads() {
					t.Fatalf("seed %d: rename %q to %q breaks [[%s]] in %q", seed, old, to, l.Target, e.Name)
				}
				if before := led[e.ID]; len(before) == len(list) && before[i].Leads() && before[i].ToID != l.ToID { // else two links became one
					t.Fatalf("seed %d: rename %q to %q: [[%s]] in %q leads to %d, before to %d", seed, old, to, l.Target, e.Name, l.ToID, before[i].ToID)
				}
			}
		}
		if err := was.Close(); err != nil {
			t.Fatal(err)
		}
		after := s.Snapshot()
		var changes []uint64
		for c, err := range s.Changes() {
			if err != nil {
				t.Fatal(err)
			}
			changes = append(changes, c.Seq)
		}
		last := changes[len(changes)-1-rng.IntN(r.Relinked+1)]
		if _, err := op.Undo.Do(t.Context(), on, op.ChangeNumber{Seq: last}); err != nil || !s.Snapshot().Equal(before) {
			t.Fatalf("seed %d: undo %d of the rename %q to %q: %v", seed, last, old, to, err)
		}
		changes = changes[:0]
		for c := range s.Changes() {
			changes = append(changes, c.Seq)
		}
		if _, err := op.Undo.Do(t.Context(), on, op.ChangeNumber{Seq: changes[len(changes)-1]}); err != nil || !s.Snapshot().Equal(after) {
			t.Fatalf("seed %d: redo of the rename %q to %q: %v", seed, old, to, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if relinked < 500 {
		t.Errorf("only %d entries with changed links", relinked)
	}
}

func nameOf(s *crmem.Store, id uint64) string {
	for e := range s.All() {
		if e.ID == id {
			return e.Name
		}
	}
	return ""
}
