package crash

import (
	"cmp"
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
	past    []change      // of the history and the log, oldest first
	loose   int           // number of the oldest changes that an incomplete prune may have removed
	gone    []string      // beginnings of purged texts; no file may contain them

	print     uint64 // fingerprint of next and entries
	pastPrint uint64 // fingerprint of past
}

// change is an expected change of the history.
type change struct {
	at            int64 // in Unix seconds
	before, after crmem.Entry
	redacted      bool // the content of before
	print         uint64
}

func newChange(at int64, before, after crmem.Entry) change {
	return change{at, before, after, false, fingerprint(uint64(at), slices.Values([]crmem.Entry{before, after}))}
}

// entry returns the entry after the change or, if the change removed it, before.
func (c *change) entry() *crmem.Entry {
	if c.after.ID == 0 {
		return &c.before
	}
	return &c.after
}

// fingerprintOf returns a hash of changes.
func fingerprintOf(past []change) uint64 {
	var h maphash.Hash
	h.SetSeed(printSeed)
	for _, c := range past {
		maphash.WriteComparable(&h, c.print)
	}
	return h.Sum64()
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
		maphash.WriteComparable(&h, [4]uint64{e.ID, uint64(e.Kind), uint64(e.CreatedAt), uint64(len(e.Aliases))})
		text(e.Name)
		text(e.Content)
		for _, a := range e.Aliases {
			text(a)
		}
	}
	return h.Sum64()
}

func newVersion(next uint64, entries []crmem.Entry) version {
	return version{next: next, entries: entries, print: fingerprint(next, slices.Values(entries)), pastPrint: fingerprintOf(nil)}
}

// then returns the version after v with another content and another past.
func (v version) then(next uint64, entries []crmem.Entry, past []change) version {
	after := newVersion(next, entries)
	after.past, after.loose, after.gone = past, v.loose, v.gone
	after.pastPrint = fingerprintOf(past)
	return after
}

// result identifies the content and the past of a recovered store.
type result struct{ print, pastPrint uint64 }

func (v version) result() result { return result{v.print, v.pastPrint} }

// matches reports whether a store with this result is as expected.
func (v version) matches(r result) bool {
	if r.print != v.print {
		return false
	}
	for n := range v.loose + 1 {
		if r.pastPrint == v.pastPrint || n > 0 && r.pastPrint == fingerprintOf(v.past[n:]) {
			return true
		}
	}
	return false
}

func (v version) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "next_id %d", v.next)
	for _, e := range v.entries {
		fmt.Fprintf(&b, " | %d %s %.12q(%d) %v", e.ID, e.Name, e.Content, len(e.Content), e.Aliases)
	}
	b.WriteString("; changes")
	for _, c := range v.past {
		fmt.Fprintf(&b, " | %d %d(%d) to %d(%d)", c.at-epoch, c.before.ID, len(c.before.Content), c.after.ID, len(c.after.Content))
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
	next, entries, past := v.next, slices.Clone(v.entries), slices.Clip(v.past)
	at := func(name string) (int, error) {
		i := version{entries: entries}.find(name)
		if i < 0 {
			return i, crmem.ErrNotFound
		}
		return i, nil
	}
	for _, op := range ops {
		var before, after crmem.Entry
		switch o := op.(type) {
		case crmem.Add:
			if _, err := at(o.Name); err == nil {
				return v, crmem.ErrExists
			}
			after = crmem.Entry{ID: next, Name: o.Name, Kind: o.Kind, CreatedAt: crmem.UnixTime(now), Content: o.Content, Aliases: o.Aliases}
			entries = append(entries, after)
			next++
		case crmem.Update:
			i, err := at(o.Name)
			if err != nil {
				return v, err
			}
			before = entries[i]
			entries[i].Content, entries[i].Aliases = o.Content, o.Aliases
			after = entries[i]
		case crmem.Alias:
			i, err := at(o.Name)
			if err != nil {
				return v, err
			}
			before = entries[i]
			entries[i].Aliases = o.Aliases
			after = entries[i]
		case crmem.Remove:
			i, err := at(o.Name)
			if err != nil {
				return v, err
			}
			before = entries[i]
			entries = slices.Delete(entries, i, i+1)
		default:
			panic(fmt.Sprintf("crash: no model of %T", op))
		}
		past = append(past, newChange(int64(now), before, after))
	}
	// The history does not show an add and a remove at the end of a batch: like them, a
	// load reserves IDs.
	if n := len(past); len(ops) > 1 && past[n-2].before.ID == 0 && past[n-1].after.ID == 0 && past[n-2].after.ID == past[n-1].before.ID {
		past = past[:n-2]
	}
	return v.then(next, entries, past), nil
}

// purged returns the name of the entry that the symbol purge purges: that of the
// oldest change, which may be of a removed entry.
func (v version) purged() string {
	if len(v.past) > 0 {
		return v.past[0].entry().Name
	}
	return v.first()
}

// purge returns the state after a purge. No two entries had the same name, and no two
// texts begin with the same 40 bytes.
func (v version) purge(name string) (version, error) {
	var id uint64
	var gone []string
	entries := slices.DeleteFunc(slices.Clone(v.entries), func(e crmem.Entry) bool {
		if e.Name == name {
			id, gone = e.ID, append(gone, e.Content)
		}
		return e.Name == name
	})
	var past []change
	loose := 0
	for i, c := range v.past {
		if e := c.entry(); e.Name == name {
			id, gone = e.ID, append(gone, c.before.Content, c.after.Content)
			continue
		}
		past = append(past, c)
		if i < v.loose {
			loose++
		}
	}
	if id == 0 {
		return v, crmem.ErrNotFound
	}
	after := v.then(v.next, entries, past)
	after.loose, after.gone = loose, slices.Clone(v.gone)
	for _, text := range gone {
		if text != "" {
			after.gone = append(after.gone, text[:min(40, len(text))])
		}
	}
	return after, nil
}

// redacted returns the oldest earlier text of an entry, which the symbol redact removes,
// and the ID of the entry. The ID is 0 without an earlier text.
func (v version) redacted() (id uint64, text string) {
	for _, c := range v.past {
		current := slices.ContainsFunc(v.entries, func(e crmem.Entry) bool { return e.ID == c.after.ID && e.Content == c.after.Content })
		if c.after.ID != 0 && c.after.Content != "" && !current {
			return c.after.ID, c.after.Content
		}
	}
	return 0, ""
}

// redact returns the state after a redaction.
func (v version) redact(id uint64, text string) (version, error) {
	if id == 0 {
		return v, crmem.ErrNotFound
	}
	var past []change
	for _, c := range v.past {
		for _, e := range []*crmem.Entry{&c.before, &c.after} {
			if e.ID == id && e.Content == text {
				e.Content = ""
				c.redacted = c.redacted || e == &c.before
			}
		}
		redacted := c.redacted
		c = newChange(c.at, c.before, c.after)
		c.redacted = redacted
		past = append(past, c)
	}
	after := v.then(v.next, v.entries, past)
	after.gone = append(slices.Clip(v.gone), text[:min(40, len(text))])
	return after, nil
}

// undo returns the state after the last change is undone.
func (v version) undo(now uint64) (version, error) {
	if len(v.past) == 0 {
		return v, crmem.ErrNotFound
	}
	last := v.past[len(v.past)-1]
	if last.redacted {
		return v, crmem.ErrNotFound
	}
	entries := slices.DeleteFunc(slices.Clone(v.entries), func(e crmem.Entry) bool { return e.ID == last.after.ID })
	if last.before.ID != 0 {
		entries = append(entries, last.before)
		slices.SortFunc(entries, func(a, b crmem.Entry) int { return cmp.Compare(a.ID, b.ID) })
	}
	return v.then(v.next, entries, append(slices.Clip(v.past), newChange(int64(now), last.after, last.before))), nil
}

// older returns the number of changes before a time.
func (v version) older(limit int64) int {
	n := 0
	for n < len(v.past) && v.past[n].at < limit {
		n++
	}
	return n
}

// prune returns the state after a prune of the changes before a time.
func (v version) prune(limit int64) version {
	after := v.then(v.next, v.entries, v.past[v.older(limit):])
	after.loose = 0
	return after
}

// pruneLimit returns the time before which the symbol prune at step i removes the
// history: the last two steps stay.
func pruneLimit(i int) int64 { return epoch + int64(i) - 1 }

// issue returns the state after the symbol at step i, or the class of the error.
func (v version) issue(symbol string, now uint64, i int) (version, error) {
	switch symbol {
	case "load":
		return loaded(v, now, i), nil
	case "purge":
		return v.purge(v.purged())
	case "redact":
		return v.redact(v.redacted())
	case "undo":
		return v.undo(now)
	case "prune":
		return v.prune(pruneLimit(i)), nil
	}
	return v.apply(now, operations(symbol, v, i)...)
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
// which an entry is added. seal is an update and a checkpoint that begins a segment and
// compresses older ones.
var alphabet = []string{"add", "update", "alias", "remove", "forget-missing", "batch", "checkpoint", "reopen", "overlap", "purge", "redact", "undo", "prune", "seal"}

// loaded returns the state that the symbol load installs in state v at step i.
func loaded(v version, now uint64, i int) version {
	e := crmem.Entry{ID: v.next + 3, Name: fmt.Sprint("loaded ", i), Kind: crmem.Archive, CreatedAt: epoch, Content: text(5000, i), Aliases: []string{}}
	past := slices.Clip(v.past)
	removed := v.entries[:min(1, len(v.entries))]
	for _, old := range removed {
		past = append(past, newChange(int64(now), old, crmem.Entry{}))
	}
	past = append(past, newChange(int64(now), crmem.Entry{}, e))
	return v.then(v.next+7, append(slices.Clone(v.entries[len(removed):]), e), past)
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
	case "update", "seal":
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
	for _, c := range []error{crmem.ErrUnknown, crmem.ErrStopped, crmem.ErrNotApplied, crmem.ErrNotFound, crmem.ErrExists, crmem.ErrStale, crmem.ErrKind, crmem.ErrInvalid} {
		if errors.Is(err, c) {
			return c
		}
	}
	return err
}
