package crash

import (
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"

	"crabmem/crmem"
)

// version is an expected state of a store. It implements the documented contract
// without the code of the store.
type version struct {
	next    uint64        // next ID
	entries []crmem.Entry // by ascending ID
	print   uint64        // fingerprint of next and entries
	gone    []string      // beginnings of purged texts; no file may contain them
}

var printSeed = maphash.MakeSeed()

// fingerprint returns a hash of a state.
func fingerprint(next uint64, entries iter.Seq[crmem.Entry]) uint64 {
	var h maphash.Hash
	h.SetSeed(printSeed)
	maphash.WriteComparable(&h, next)
	text := func(s string) {
		maphash.WriteComparable(&h, len(s))
		h.WriteString(s)
	}
	for e := range entries {
		maphash.WriteComparable(&h, [4]uint64{e.ID, uint64(e.Kind), e.CreatedAt, uint64(len(e.Aliases))})
		text(e.Name)
		text(e.Content)
		for _, a := range e.Aliases {
			text(a)
		}
	}
	return h.Sum64()
}

func newVersion(next uint64, entries []crmem.Entry) version {
	return version{next: next, entries: entries, print: fingerprint(next, slices.Values(entries))}
}

func (v version) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "next_id %d", v.next)
	for _, e := range v.entries {
		fmt.Fprintf(&b, " | %d %s %.12q(%d) %v", e.ID, e.Name, e.Content, len(e.Content), e.Aliases)
	}
	return b.String()
}

// find returns the index of the entry with a name, or -1.
func (v version) find(name string) int {
	return slices.IndexFunc(v.entries, func(e crmem.Entry) bool { return e.Name == name })
}

// apply returns the state after a batch. If the contract refuses the batch, it
// returns v and the class of the error.
func (v version) apply(now uint64, ops ...crmem.Op) (version, error) {
	next, entries := v.next, slices.Clone(v.entries)
	at := func(name string) (int, error) {
		i := version{entries: entries}.find(name)
		if i < 0 {
			return i, crmem.ErrNotFound
		}
		return i, nil
	}
	for _, op := range ops {
		switch o := op.(type) {
		case crmem.Add:
			if _, err := at(o.Name); err == nil {
				return v, crmem.ErrExists
			}
			entries = append(entries, crmem.Entry{ID: next, Name: o.Name, Kind: o.Kind, CreatedAt: now, Content: o.Content, Aliases: o.Aliases})
			next++
		case crmem.Update:
			i, err := at(o.Name)
			if err != nil {
				return v, err
			}
			entries[i].Content, entries[i].Aliases = o.Content, o.Aliases
		case crmem.Alias:
			i, err := at(o.Name)
			if err != nil {
				return v, err
			}
			entries[i].Aliases = o.Aliases
		case crmem.Remove:
			i, err := at(o.Name)
			if err != nil {
				return v, err
			}
			entries = slices.Delete(entries, i, i+1)
		default:
			panic(fmt.Sprintf("crash: no model of %T", op))
		}
	}
	after := newVersion(next, entries)
	after.gone = v.gone
	return after, nil
}

// purge returns the state after a purge. The initial contents of the scene used and
// the content of each step begin with texts of their own.
func (v version) purge(name string) (version, error) {
	i := v.find(name)
	if i < 0 {
		return v, crmem.ErrNotFound
	}
	after := newVersion(v.next, slices.Delete(slices.Clone(v.entries), i, i+1))
	after.gone = append(slices.Clone(v.gone), v.entries[i].Content[:min(40, len(v.entries[i].Content))])
	return after, nil
}

// stateOf returns the content of a store.
func stateOf(s *crmem.Store) version {
	return newVersion(s.NextID(), slices.Collect(s.All()))
}

// first and last return the name of the first and of the last entry, or "absent".
func (v version) first() string {
	if len(v.entries) == 0 {
		return "absent"
	}
	return v.entries[0].Name
}

func (v version) last() string {
	if len(v.entries) == 0 {
		return "absent"
	}
	return v.entries[len(v.entries)-1].Name
}

// alphabet contains the symbols of TestEnumerate. overlap is a checkpoint during
// which an entry is added.
var alphabet = []string{"add", "update", "alias", "remove", "forget-missing", "batch", "checkpoint", "reopen", "overlap", "purge"}

// loaded returns the state that the symbol load installs in state v at step i.
func loaded(v version, i int) version {
	e := crmem.Entry{ID: v.next + 3, Name: fmt.Sprint("loaded ", i), Kind: crmem.Archive, CreatedAt: epoch, Content: text(5000, i), Aliases: []string{}}
	after := newVersion(v.next+7, append(slices.Clone(v.entries[min(1, len(v.entries)):]), e))
	after.gone = v.gone
	return after
}

// snapshot returns the state as a snapshot for Replace.
func (v version) snapshot() *crmem.Snapshot {
	sn, err := crmem.NewSnapshot(v.next, v.entries)
	if err != nil {
		panic(err)
	}
	return sn
}

// operations returns the operations of a symbol at step i in state v. The sizes are
// such that records cross sectors and disk blocks.
func operations(symbol string, v version, i int) []crmem.Op {
	name := fmt.Sprintf("entry %d", v.next)
	switch symbol {
	case "add":
		return []crmem.Op{crmem.Add{Name: name, Content: text(6000, i), Aliases: []string{"shared"}}}
	case "overlap":
		return []crmem.Op{crmem.Add{Name: name, Content: text(1500, i)}}
	case "update":
		return []crmem.Op{crmem.Update{Name: v.first(), Content: text(90, i)}}
	case "alias":
		return []crmem.Op{crmem.Alias{Name: v.last(), Aliases: []string{fmt.Sprint("alias ", i), "shared"}}}
	case "remove":
		return []crmem.Op{crmem.Remove{Name: v.last()}}
	case "forget-missing":
		return []crmem.Op{crmem.Remove{Name: "missing"}}
	case "batch":
		ops := []crmem.Op{crmem.Add{Name: name, Content: text(18_000, i), Kind: crmem.Archive}}
		if len(v.entries) > 0 {
			ops = append(ops, crmem.Update{Name: v.first(), Content: text(300, i)}, crmem.Remove{Name: v.last()})
		}
		return append(ops, crmem.Alias{Name: name, Aliases: []string{"batched"}})
	}
	return nil
}

// text returns a text of n bytes for step i.
func text(n, i int) string {
	s := fmt.Sprintf("content of step %d, %d bytes. ", i, n)
	return strings.Repeat(s, n/len(s)+1)[:n]
}

// class returns the sentinel that an error of Apply wraps, or the error.
func class(err error) error {
	for _, c := range []error{crmem.ErrUnknown, crmem.ErrStopped, crmem.ErrNotApplied, crmem.ErrNotFound, crmem.ErrExists, crmem.ErrKind, crmem.ErrInvalid} {
		if errors.Is(err, c) {
			return c
		}
	}
	return err
}
