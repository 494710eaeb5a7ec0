package crmem_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/text/unicode/norm"

	"crabmem/crmem"
	"crabmem/fuzz/race"
)

// spelled are names of which several have one canonical form: composed, decomposed, in
// part, in another order of the accents, and characters that are another character.
var spelled = []string{
	"café", "cafe\u0301", "Zo\u00eb M", "Zoe\u0308 M", "\u1ec7", "e\u0323\u0302", "\u1eb9\u0302", "e\u0302\u0323", "\u00ea\u0323",
	"10 K", "10 \u212a", "\u212b", "\u00c5", "A\u030a", "\ud55c", "\u1112\u1161\u11ab", "plain", "Plain",
}

// spelledModel is a store as a map, with the rules for names written again.
type spelledModel map[string]crmem.Entry

// names returns the names that a lookup of name finds, by kind of match.
func (m spelledModel) find(name string, aliases bool) (found []string) {
	same := []func(e crmem.Entry) bool{
		func(e crmem.Entry) bool { return e.Name == name },
		func(e crmem.Entry) bool { return aliases && slices.Contains(e.Aliases, name) },
		func(e crmem.Entry) bool { return norm.NFD.String(e.Name) == norm.NFD.String(name) },
		func(e crmem.Entry) bool {
			return aliases && slices.ContainsFunc(e.Aliases, func(a string) bool { return norm.NFD.String(a) == norm.NFD.String(name) })
		},
	}
	for _, is := range same {
		for _, n := range slices.Sorted(maps.Keys(m)) {
			if is(m[n]) {
				found = append(found, n)
			}
		}
		if found != nil {
			return found
		}
	}
	return nil
}

// apply changes the model as an operation changes a store, and returns the class of the
// error.
func (m spelledModel) apply(op crmem.Op) error {
	switch op := op.(type) {
	case crmem.Add:
		return m.add(crmem.Entry{Name: op.Name, Content: op.Content, Aliases: op.Aliases}, m.find(op.Name, false))
	case crmem.Restore:
		if _, ok := m[op.Entry.Name]; ok {
			return crmem.ErrExists
		}
		m[op.Entry.Name] = op.Entry
	case crmem.Remember:
		switch found := m.find(op.Name, false); len(found) {
		case 0:
			m[op.Name] = crmem.Entry{Name: op.Name, Content: op.Content, Aliases: op.Aliases}
		case 1:
			e := m[found[0]]
			e.Content, e.Aliases = op.Content, op.Aliases
			m[e.Name] = e
		default:
			return crmem.ErrAmbiguous
		}
	case crmem.Remove:
		if _, ok := m[op.Name]; !ok {
			return crmem.ErrNotFound
		}
		delete(m, op.Name)
	}
	return nil
}

func (m spelledModel) add(e crmem.Entry, found []string) error {
	switch len(found) {
	case 0:
		m[e.Name] = e
		return nil
	case 1:
		return crmem.ErrExists
	}
	return crmem.ErrAmbiguous
}

// check compares each lookup with the model.
func (m spelledModel) check(t *testing.T, s *crmem.Store, where string) {
	t.Helper()
	for _, name := range spelled {
		e, err := s.Get(name)
		found := m.find(name, true)
		switch many, isMany := errors.AsType[*crmem.AmbiguousError](err); {
		case len(found) == 0 && errors.Is(err, crmem.ErrNotFound):
		case len(found) == 1 && err == nil && e.Name == found[0] && e.Content == m[e.Name].Content:
		case len(found) > 1 && isMany && slices.Equal(slices.Sorted(slices.Values(many.Owners)), found):
		default:
			t.Fatalf("%s: %+q is %+q, %v; want %+q of %+q", where, name, e.Name, err, found, slices.Sorted(maps.Keys(m)))
		}
	}
	if s.Len() != len(m) {
		t.Fatalf("%s: %d entries, want %d", where, s.Len(), len(m))
	}
}

// looked checks a store at random: after a change of the files, from a reader, or as it is.
// It returns the store, or the one that was opened in its place.
func (c *indexScene) looked(rng *rand.Rand, s *crmem.Store, check func(s *crmem.Store, by string)) *crmem.Store {
	switch rng.IntN(6) {
	case 0:
		_, err := s.Search(context.Background(), crmem.Query{Text: "text"})
		noErr(c.t, errors.Join(err, s.Checkpoint(), s.Close()))
		s = c.open(crmem.Options{Lazy: rng.IntN(2) == 0})
	case 1:
		r := c.open(crmem.Options{ReadOnly: true, Lazy: true})
		check(r, ", reader")
		noErr(c.t, r.Close())
	}
	if rng.IntN(2) == 0 { // else the next operation finds the map of aliases unbuilt
		check(s, "")
	}
	return s
}

// TestCanonicalNames makes random changes by names of several Unicode forms, one by one
// and in batches, to a store in memory, in files, and with an index file, and compares
// each lookup with a model. Restore keeps twins byte for byte.
func TestCanonicalNames(t *testing.T) {
	race.Skip(t)
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 46))
		c := newIndexScene(t)
		m := spelledModel{}
		pick := func() string { return spelled[rng.IntN(len(spelled))] }
		s := c.open(crmem.Options{})
		for step := range 40 {
			where := fmt.Sprintf("seed %d, step %d", seed, step)
			var ops []crmem.Op
			for range 1 + rng.IntN(3)*rng.IntN(8) {
				text := fmt.Sprint("text ", rng.IntN(1000))
				ops = append(ops, []crmem.Op{
					crmem.Add{Name: pick(), Content: text}, crmem.Remember{Name: pick(), Content: text, Aliases: []string{pick()}},
					crmem.Restore{Entry: crmem.Entry{Name: pick(), Content: text, Aliases: []string{pick(), "other"}}}, crmem.Remove{Name: pick()},
				}[rng.IntN(4)])
			}
			next := maps.Clone(m)
			var want error
			for _, op := range ops {
				if want = next.apply(op); want != nil {
					break
				}
			}
			err := s.Apply(ops...)
			if !errors.Is(err, want) {
				t.Fatalf("%s: %+v: %v, want %v", where, ops, err, want)
			}
			if err == nil {
				m = next
			}
			s = c.looked(rng, s, func(s *crmem.Store, by string) { m.check(t, s, where+by) })
		}
		noErr(t, s.Close())
	}
}

// TestForgetCanonical forgets and renames by equivalent names.
func TestForgetCanonical(t *testing.T) {
	s := crmem.New(nil)
	noErr(t, s.Apply(crmem.Add{Name: "café", Content: "opens at 8"}))
	noErr(t, s.Apply(crmem.Rename{Name: "café", To: "cafe\u0301"}))
	if e, err := s.Get("café"); err != nil || e.Name != "cafe\u0301" {
		t.Errorf("%+v, %v", e, err)
	}
	noErr(t, s.Apply(crmem.Add{Name: "other"}))
	if err := s.Apply(crmem.Rename{Name: "other", To: "café"}); !errors.Is(err, crmem.ErrExists) {
		t.Errorf("rename to an equivalent name: %v", err)
	}
	noErr(t, s.Forget("café"))
	if _, err := s.Get("cafe\u0301"); !errors.Is(err, crmem.ErrNotFound) {
		t.Errorf("after forget: %v", err)
	}
}
