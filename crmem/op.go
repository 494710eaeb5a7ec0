package crmem

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"crabmem/crmem/internal/format"
)

// Op is one change of a store: [Add], [Update], [Remember], [Alias], [Rename],
// [Remove], or [Restore]; [Unchanged], a condition of the others; or [By], their
// actor.
type Op interface {
	// Validate returns the error that the operation ends with in every store,
	// such as [ErrInvalid] for an empty name.
	Validate() error
	// stage checks the operation against the state it will meet and adds its
	// effect to it.
	stage(*stage) error
}

// Add adds an entry. [ErrExists] when the name is taken, or a canonically equivalent
// one ([SameName]). Package limits contains the limits of its fields.
type Add struct {
	Name    string
	Content string
	Aliases []string
	Kind    Kind
}

// Update replaces the content and aliases of an entry and keeps its other
// fields. It returns [ErrNotFound] if the entry does not exist.
type Update struct {
	Name    string
	Content string
	Aliases []string
}

// Alias replaces the aliases of an entry. It returns [ErrNotFound] if the entry
// does not exist.
type Alias struct {
	Name    string
	Aliases []string
}

// Rename changes the name of an entry. The old name becomes an alias, so that links keep
// working, unless To is equivalent or no alias may be like it. It returns
// [ErrNotFound] if the entry does not exist, and [ErrExists] if another entry has the
// name To or a canonically equivalent one. The log contains a remove and a put, which every version of crmem can read.
type Rename struct {
	Name, To string
	Content  *string // replaces the content; nil: it stays
	NoAlias  bool    // the old name does not become an alias
}

// Remove removes an entry. It returns [ErrNotFound] if the entry does not
// exist. The ID is not reused.
type Remove struct {
	Name string
}

// Restore adds an entry of another store or of a backup. It keeps CreatedAt. It
// keeps the ID if the ID is not below [Store.NextID], or if the store was empty
// when the batch began; otherwise the entry gets the next ID. The limits of new
// entries do not apply, because a file may contain an entry that exceeds them.
// Restore returns [ErrExists] if the name is in use. Unlike Add, it adds a canonically
// equivalent name.
type Restore struct {
	Entry Entry
}

// Unchanged changes no entry. It returns [ErrStale] unless the entry is equal
// to the given one at this position of the batch. If the given ID is 0, no
// entry may have the name.
type Unchanged struct {
	Entry Entry
}

// By changes no entry. It records who makes the changes of its batch, instead of
// [Options.By].
type By Actor

// forget is Remove, for Notes.
type forget struct{ name string }

// Validate implements [Op].
func (o Add) Validate() error {
	if o.Kind != Note && o.Kind != Archive {
		return &nameError{ErrInvalid, o.Name, fmt.Sprintf("unknown %v", o.Kind)}
	}
	return validEntry(o.Name, o.Content, o.Aliases)
}

// Validate implements [Op].
func (o Update) Validate() error { return validEntry(o.Name, o.Content, o.Aliases) }

// Validate implements [Op].
func (o Alias) Validate() error { return validEntry(o.Name, "", o.Aliases) }

// Validate implements [Op].
func (o Rename) Validate() error {
	if o.Content != nil {
		return validEntry(o.To, *o.Content, nil)
	}
	return validName(o.To, "name", o.To)
}

// Validate returns an error for a field that a log cannot contain.
func (o By) Validate() error {
	a := Actor(o)
	for _, field := range a.Fields() {
		if len(*field) > MaxActorField || !utf8.ValidString(*field) {
			return fmt.Errorf("%w: a field of the actor has %d bytes or is not UTF-8; use at most %d bytes: %.80q",
				ErrInvalid, len(*field), MaxActorField, *field)
		}
	}
	return nil
}

func (o By) stage(g *stage) error {
	g.by = Actor(o)
	return nil
}

// Validate returns nil: a store may contain an entry of any name.
func (o Remove) Validate() error { return nil }

func (o forget) Validate() error { return nil }

// Validate returns nil: a store may contain an entry of any name.
func (o Unchanged) Validate() error { return nil }

// Validate returns an error for an entry that a file cannot contain.
func (o Restore) Validate() error {
	e := &o.Entry
	if e.ID == math.MaxUint64 {
		return &nameError{ErrInvalid, cutName(e.Name), "its ID is the largest possible ID"}
	}
	if e.Kind != Note && e.Kind != Archive {
		return &nameError{ErrInvalid, cutName(e.Name), fmt.Sprintf("unknown %v", e.Kind)}
	}
	err := storable(e.Name, "name", e.Name)
	if err == nil {
		err = storable(e.Name, "content", e.Content)
	}
	for i := 0; i < len(e.Aliases) && err == nil; i++ {
		err = storable(e.Name, "alias", e.Aliases[i])
	}
	return err
}

// effect is the change of an operation to the table, and its frame.
type effect struct {
	typ     byte // framePut, frameAlias or frameRemove
	payload format.Record
	rec     format.Record // the entry after; "" after a remove
	old     format.Record // of a put, the entry before; "" if there was none
	id      uint64        // 0 if no entry changes
}

// stage is the state after all earlier operations: the table, effects that are
// logged but not yet synced, and effects of the present batch. It reads the
// table under the store's write lock, so no other goroutine changes the table.
type stage struct {
	t      *table
	before [2]map[string]format.Record // logged and not yet synced, newest first

	// set has the changes of the present batch; an empty record is a removal.
	// names indexes the latest changes of a large batch.
	set   []named
	names map[string]format.Record

	forms [3]forms // of the names in set, and in before

	nextID  uint64
	live    int
	bytes   int64 // of all records
	empty   bool  // when the batch began
	now     uint64
	by      Actor
	effects []effect // of the present batch

	// given has the ids that a batch on an empty store assigned. Only such a
	// batch may assign ids below nextID.
	given map[uint64]bool

	// Most batches are one operation; these arrays save allocations.
	oneSet    [1]named
	oneEffect [1]effect
}

// get returns the record of a name in the staged state, or "".
func (g *stage) get(name string) format.Record {
	if g.names != nil {
		if r, ok := g.names[name]; ok {
			return r
		}
	} else {
		for i := len(g.set) - 1; i >= 0; i-- {
			if g.set[i].name == name {
				return g.set[i].rec
			}
		}
	}
	for _, names := range g.before {
		if r, ok := names[name]; ok {
			return r
		}
	}
	return g.t.byName(name)
}

// named is the new record of a name.
type named struct {
	name string
	rec  format.Record
}

// change sets the new record of a name; "" is a removal.
func (g *stage) change(name string, r format.Record) {
	g.set = append(g.set, named{name, r})
	g.forms[0].add(name, normalForm(name))
	switch {
	case g.names != nil:
		g.names[name] = r
	case len(g.set) > 8:
		g.names = make(map[string]format.Record)
		for _, c := range g.set {
			g.names[c.name] = c.rec
		}
	}
}

func (g *stage) put(e *Entry) error {
	old := g.get(e.Name)
	r := recordOf(e)
	g.bytes += int64(len(r)) - int64(len(old))
	if old == "" {
		if uint64(g.live) == math.MaxUint32 {
			return &nameError{ErrInvalid, e.Name, "the store has the maximum number of entries"}
		}
		g.live++
	}
	g.change(e.Name, r)
	g.effects = append(g.effects, effect{format.FramePut, r, r, old, e.ID})
	if g.empty {
		if g.given == nil {
			g.given = make(map[uint64]bool)
		}
		g.given[e.ID] = true
	}
	return nil
}

func (g *stage) take() (uint64, error) {
	if g.nextID == math.MaxUint64 {
		return 0, fmt.Errorf("%w: no ID left: next_id is 2^64-1", ErrInvalid)
	}
	g.nextID++
	return g.nextID - 1, nil
}

func (o Add) stage(g *stage) error {
	if _, old, err := g.find(o.Name); old != "" || err != nil {
		return cmp.Or(err, error(&nameError{ErrExists, o.Name, ""}))
	}
	id, err := g.take()
	if err != nil {
		return err
	}
	return g.put(&Entry{id, o.Name, o.Kind, UnixTime(g.now), o.Content, o.Aliases})
}

func (o Update) stage(g *stage) error {
	old := g.get(o.Name)
	if old == "" {
		return &nameError{ErrNotFound, o.Name, ""}
	}
	return g.put(&Entry{old.ID(), o.Name, Kind(old.Kind()), UnixTime(old.CreatedAt()), o.Content, o.Aliases})
}

func (o Alias) stage(g *stage) error {
	old := g.get(o.Name)
	if old == "" {
		return &nameError{ErrNotFound, o.Name, ""}
	}
	list := format.AppendAliases(nil, o.Aliases)
	r := old.WithAliases(list)
	g.bytes += int64(len(r)) - int64(len(old))
	g.change(o.Name, r)
	payload := binary.LittleEndian.AppendUint64(nil, old.ID())
	g.effects = append(g.effects, effect{format.FrameAlias, format.Record(format.View(append(payload, list...))), r, "", old.ID()})
	return nil
}

func (o Rename) stage(g *stage) error {
	old := g.get(o.Name)
	switch {
	case old == "":
		return &nameError{ErrNotFound, o.Name, ""}
	case o.Name == o.To:
		return nil
	}
	if _, other, err := g.find(o.To); err != nil || other != "" && other != old {
		return cmp.Or(err, error(&nameError{ErrExists, o.To, ""}))
	}
	e := entryOf(old)
	e.Name = o.To
	if o.Content != nil {
		e.Content = *o.Content
	}
	e.Aliases = slices.DeleteFunc(slices.Clone(e.Aliases), func(a string) bool { return a == o.To })
	if !o.NoAlias && !SameName(o.Name, o.To) && !slices.Contains(e.Aliases, o.Name) && validName(o.Name, "alias", o.Name) == nil {
		if e.Aliases = append(e.Aliases, o.Name); len(e.Aliases) > MaxAliases {
			return &nameError{ErrInvalid, cutName(o.Name), fmt.Sprintf("%d aliases, and the old name would be another one: remove an alias", MaxAliases)}
		}
	}
	g.remove(o.Name, old)
	return g.put(&e)
}

func (o Remove) stage(g *stage) error {
	old := g.get(o.Name)
	if old == "" {
		return &nameError{ErrNotFound, o.Name, ""}
	}
	g.remove(o.Name, old)
	return nil
}

// remove removes the entry name, whose record is old.
func (g *stage) remove(name string, old format.Record) {
	g.live--
	g.bytes -= int64(len(old))
	g.change(name, "")
	g.effects = append(g.effects, removal(old.ID()))
}

// removal returns the effect that removes an entry.
func removal(id uint64) effect {
	payload := binary.LittleEndian.AppendUint64(nil, id)
	return effect{format.FrameRemove, format.Record(format.View(payload)), "", "", id}
}

func onlyRemoves(effects []effect) bool {
	return !slices.ContainsFunc(effects, func(e effect) bool { return e.typ != format.FrameRemove && e.typ != format.FramePurge })
}

func (o Restore) stage(g *stage) error {
	e := o.Entry
	if g.get(e.Name) != "" {
		return &nameError{ErrExists, e.Name, ""}
	}
	if e.ID == 0 || e.ID < g.nextID && (!g.empty || g.given[e.ID]) {
		id, err := g.take()
		if err != nil {
			return err
		}
		e.ID = id
	}
	g.nextID = max(g.nextID, e.ID+1)
	return g.put(&e)
}

func (o Unchanged) stage(g *stage) error {
	r := g.get(o.Entry.Name)
	switch {
	case r == "" && o.Entry.ID == 0:
		return nil
	case r == "":
		return &nameError{ErrStale, o.Entry.Name, "it was removed"}
	case o.Entry.ID == 0:
		return &nameError{ErrStale, o.Entry.Name, "it was created"}
	case !entryOf(r).Equal(o.Entry):
		return &nameError{ErrStale, o.Entry.Name, ""}
	}
	return nil
}

func (o forget) stage(g *stage) error {
	name, old, err := g.find(o.name)
	switch {
	case err != nil:
		return err
	case old == "":
		return &nameError{ErrNotFound, o.name, ""}
	case Kind(old.Kind()) != Note:
		return &nameError{ErrKind, o.name, "it is an archive, which forget does not remove"}
	}
	return Remove{name}.stage(g)
}
