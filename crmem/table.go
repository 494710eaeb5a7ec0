package crmem

import (
	"cmp"
	"hash/maphash"
	"iter"
	"slices"

	"crabmem/crmem/internal/format"
)

// table holds records in ID order and finds them by name and by ID. It is not
// safe for concurrent use.
type table struct {
	recs  []rec  // ascending by id
	live  int    // recs that are not removed
	kinds [2]int // of the live records, by kind
	bytes int64  // of the live records

	// low has the positions of records that were appended out of order, until
	// sort.
	low map[uint64]int

	// slots is an open-addressing hash table with linear probing: the upper
	// half of a slot is the hash of the name, the lower the position in recs
	// plus one. Its length is a power of two and at most half are in use.
	slots []uint64
	used  int // slots that are not zero

	// owners maps an alias to the ids of the entries that have it. It is nil
	// until the first lookup of a name that no entry has. Its keys are copies,
	// because a piece of a record would keep the record in memory.
	owners map[string]*[]uint64

	nameForms  forms // names of the records in recs
	aliasForms forms // keys of owners
	linkNames  forms // names of the records in recs, by linkKey; nil until owners is built
	linkAlias  forms // keys of owners, by linkKey

	loaded []loaded // files that records are pieces of

	// file, if set, contains the records whose IDs are not in recs. live, kinds and
	// bytes count them, too.
	file *indexFile
}

// rec is a record and its id. A removed record keeps the id, so that the order
// is unchanged, and has an empty encoding.
type rec struct {
	id  uint64
	enc format.Record
}

var nameSeed = maphash.MakeSeed()

func (t *table) init(n int) {
	t.recs = make([]rec, 0, n)
	t.grow(n)
}

// grow makes slots for n names.
func (t *table) grow(n int) {
	size := 8
	for size < 2*n {
		size *= 2
	}
	t.slots = make([]uint64, size)
	t.used = 0
	for i, r := range t.recs {
		if r.enc != "" {
			t.link(i)
		}
	}
}

// slot returns where a name is or would be.
func (t *table) slot(name string) (slot int, tag uint64, found bool) {
	h := maphash.String(nameSeed, name)
	tag = h &^ (1<<32 - 1)
	mask := len(t.slots) - 1
	for i := int(h) & mask; ; i = (i + 1) & mask {
		v := t.slots[i]
		if v == 0 {
			return i, tag, false
		}
		if v&^(1<<32-1) == tag && t.recs[uint32(v)-1].enc.Name() == name {
			return i, tag, true
		}
	}
}

// link enters recs[i] under its name. False: the name is taken.
func (t *table) link(i int) bool {
	name := t.recs[i].enc.Name()
	slot, tag, found := t.slot(name)
	if found {
		return false
	}
	t.slots[slot] = tag | uint64(i+1)
	t.used++
	t.nameForms.add(name, normalForm(name))
	return true
}

// byName returns the record of a name, or "".
func (t *table) byName(name string) format.Record {
	if len(t.slots) > 0 {
		if slot, _, found := t.slot(name); found {
			return t.recs[uint32(t.slots[slot])-1].enc
		}
	}
	if t.file != nil {
		for _, r := range t.file.named(name, false) {
			if _, ok := t.at(r.ID()); !ok {
				return r
			}
		}
	}
	return ""
}

// at returns the position of an id, live or removed, or where it would be.
func (t *table) at(id uint64) (int, bool) {
	if i, ok := t.low[id]; ok {
		return i, true
	}
	recs := t.recs[:len(t.recs)-len(t.low)]
	// Most lookups are for the newest entry.
	n := len(recs)
	if n == 0 || recs[n-1].id < id {
		return n, false
	}
	// Ids ascend one by one but where something was forgotten.
	if i := id - recs[0].id; i < uint64(n) {
		if recs[i].id == id {
			return int(i), true
		}
		recs = recs[:i]
	}
	return slices.BinarySearchFunc(recs, id, func(r rec, id uint64) int {
		switch {
		case r.id < id:
			return -1
		case r.id > id:
			return 1
		}
		return 0
	})
}

// byID returns the record of an id, or "".
func (t *table) byID(id uint64) format.Record {
	if i, ok := t.at(id); ok {
		return t.recs[i].enc
	}
	if t.file != nil {
		return t.file.record(id)
	}
	return ""
}

// fetch copies a record of the file to recs, so that it can be changed.
func (t *table) fetch(id uint64) {
	if t.file == nil {
		return
	}
	i, ok := t.at(id)
	if ok {
		return
	}
	r := t.file.record(id)
	if r == "" {
		return
	}
	i = t.insert(i, rec{id, r})
	if 2*(t.used+1) > len(t.slots) {
		t.grow(2 * len(t.recs))
	} else {
		t.link(i)
	}
	t.indexAliases(r)
}

// insert adds a record whose place among the IDs is i, and returns its position.
func (t *table) insert(i int, r rec) int {
	if i < len(t.recs) {
		if i = len(t.recs); t.low == nil {
			t.low = make(map[uint64]int)
		}
		t.low[r.id] = i
	}
	t.recs = append(t.recs, r)
	return i
}

// append adds a record whose id is above all others. It returns false and
// changes nothing if the name is used.
func (t *table) append(r format.Record) bool {
	t.recs = append(t.recs, rec{r.ID(), r})
	if 2*(t.used+1) > len(t.slots) {
		n := len(t.recs)
		t.recs = t.recs[:n-1]
		t.grow(2 * n)
		t.recs = t.recs[:n]
	}
	if !t.link(len(t.recs) - 1) {
		t.recs = t.recs[:len(t.recs)-1]
		return false
	}
	t.live++
	t.kinds[r.Kind()]++
	t.bytes += int64(len(r))
	t.indexAliases(r)
	return true
}

// put adds a record, or replaces the record of the same id and name. The name
// of a new record must be unused.
func (t *table) put(r format.Record) {
	t.fetch(r.ID())
	i, ok := t.at(r.ID())
	switch {
	case ok && t.recs[i].enc != "":
		old := t.recs[i].enc
		t.unindexAliases(old)
		t.bytes += int64(len(r)) - int64(len(old))
		t.recs[i].enc = r
		t.indexAliases(r)
		t.releaseRecord(old)
	case i == len(t.recs):
		if !t.append(r) {
			panic("crmem: internal error: put of a taken name")
		}
	default:
		// An id below others: only an import into an empty store does this.
		if ok {
			t.recs[i].enc = r
		} else {
			i = t.insert(i, rec{r.ID(), r})
		}
		t.live++
		t.kinds[r.Kind()]++
		t.bytes += int64(len(r))
		if 2*(t.used+1) > len(t.slots) {
			t.grow(2 * len(t.recs))
		} else {
			t.link(i)
		}
		t.indexAliases(r)
	}
}

// sort brings records that were put out of order into it. Whoever puts an id
// that may be below others calls it before the records are read in order.
func (t *table) sort() {
	if len(t.low) == 0 {
		return
	}
	t.low = nil
	slices.SortFunc(t.recs, func(a, b rec) int { return cmp.Compare(a.id, b.id) })
	t.grow(2 * len(t.recs))
}

// remove removes the record of an existing id.
func (t *table) remove(id uint64) {
	t.fetch(id)
	i, ok := t.at(id)
	if !ok { // the file is broken, so the store is loaded before the next use
		t.insert(i, rec{id: id})
		t.live--
		return
	}
	r := t.recs[i].enc
	t.unindexAliases(r)
	t.unlink(r.Name())
	t.live--
	t.kinds[r.Kind()]--
	t.bytes -= int64(len(r))
	t.recs[i].enc = ""
	t.releaseRecord(r)
	if len(t.recs) > 64 && t.live < len(t.recs)/2 && t.file == nil {
		t.sort()
		t.recs = slices.DeleteFunc(slices.Clone(t.recs), func(r rec) bool { return r.enc == "" })
		t.grow(2 * len(t.recs))
	}
}

// unlink empties the slot of a name and moves back the entries that it
// displaced.
func (t *table) unlink(name string) {
	t.nameForms.remove(name, normalForm(name))
	hole, _, _ := t.slot(name)
	mask := len(t.slots) - 1
	t.used--
	for i := (hole + 1) & mask; t.slots[i] != 0; i = (i + 1) & mask {
		v := t.slots[i]
		home := int(maphash.String(nameSeed, t.recs[uint32(v)-1].enc.Name())) & mask
		if (i-home)&mask >= (i-hole)&mask {
			t.slots[hole] = v
			hole = i
		}
	}
	t.slots[hole] = 0
}

func (t *table) all() iter.Seq[Entry] { return entries(t.recs) }

func entries(recs []rec) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, r := range recs {
			if r.enc != "" && !yield(entryOf(r.enc)) {
				return
			}
		}
	}
}

// count returns the number of entries of the given kinds; no kinds means all.
func (t *table) count(kinds []Kind) int {
	if len(kinds) == 0 {
		return t.live
	}
	n := 0
	for i, c := range t.kinds {
		if slices.Contains(kinds, Kind(i)) {
			n += c
		}
	}
	return n
}
