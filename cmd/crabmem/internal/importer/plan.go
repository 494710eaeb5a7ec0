package importer

import (
	"fmt"
	"slices"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/daemon/display"
)

// Mode selects the action for notes that differ between source and store.
type Mode uint8

const (
	Refuse  Mode = iota // they are conflicts
	Replace             // take the source's notes
	Keep                // keep the store's notes
)

// Plan is the planned import.
type Plan struct {
	Ops []crmem.Op

	Added, Replaced int
	Skipped         int // equal in store and source
	Kept            int // differ and stay, in mode Keep

	Updated   []string // names of the notes that are replaced
	Left      []Left   // aliases that are not taken
	Conflicts []Conflict
}

// Conflict is a note that an import does not change without --replace or
// --skip.
type Conflict struct {
	Name   string `json:"name"`
	Source string `json:"source"` // identifier of the source
	Edited bool   `json:"edited"` // it was imported and changed on both sides; else it was never imported
}

func (c *Conflict) Error() string {
	if c.Edited {
		return fmt.Sprintf("%q was edited in the store after the import, and its source %q also changed", c.Name, c.Source)
	}
	return fmt.Sprintf("the store's entry %q differs from the source %q", c.Name, c.Source)
}

// held is a note that came from a source.
type held struct {
	entry  crmem.Entry
	text   string
	origin origin
}

type planner struct {
	plan  Plan
	kind  string
	mode  Mode
	names map[string]crmem.Entry     // as the operations leave the store
	from  map[string]held            // by id, of this kind
	ours  map[string]bool            // names of notes of this kind
	alias map[string]map[string]bool // names of the entries with an alias
	named map[string]bool            // names of the source's notes
	left  Tally
}

// Plan plans to import notes. It recognizes earlier imports by their last line,
// regardless of the name. Such a note stays if the source did not change, is
// replaced if only the source changed, and is a conflict if both changed. If
// the name of a new note belongs to another note of the same source, the new
// note gets another name. If it belongs to any other entry, that is a conflict.
//
// Entries of a vault have no last line: they are planned as lines are.
func (m *Memory) Plan(s *crmem.Store, mode Mode, now time.Time) (*Plan, error) {
	if m.Kind == Obsidian {
		return m.planExact(s, mode, now)
	}
	p := planner{kind: m.Kind, mode: mode, names: make(map[string]crmem.Entry), from: make(map[string]held), ours: make(map[string]bool),
		alias: make(map[string]map[string]bool), named: make(map[string]bool)}
	for _, n := range m.Notes {
		p.named[n.Name] = true
	}
	for e := range s.All() {
		p.take(e)
		if e.Kind != crmem.Note {
			continue
		}
		text, o, ok := splitOrigin(e.Content)
		if !ok || family(o.kind) != family(m.Kind) {
			continue
		}
		p.ours[e.Name] = true
		if _, twice := p.from[o.id]; !twice {
			p.from[o.id] = held{e, text, o}
		}
	}
	for i := range m.Notes {
		n := m.Notes[i] // a second plan begins with the same notes
		if err := p.note(&n, now); err != nil {
			return nil, err
		}
	}
	p.plan.Left = p.left.Sorted()
	return &p.plan, nil
}

// family returns one kind for all kinds of the same reader. Plan compares families,
// because a later import of a source may detect another kind of the same reader.
func family(kind string) string {
	if kind == BasicMemory {
		return Markdown
	}
	return kind
}

func (p *planner) note(n *Note, now time.Time) error {
	base := n.Name
	if base == "" {
		base = metadata.Title(n.Text)
	}
	if base == "" {
		base = p.kind
	}
	n.Aliases = p.free(n, base)
	o := origin{p.kind, n.ID, sumOf(n.Name, n.Text, n.Aliases)}
	e := crmem.Entry{Name: base, Content: joined(n.Text, o.line()) + "\n", Aliases: n.Aliases}
	if t := n.Created; t.Unix() > 0 {
		e.CreatedAt = crmem.UnixTime(t.Unix())
	} else {
		e.CreatedAt = crmem.UnixTime(max(now.Unix(), 0))
	}
	if h, ok := p.from[n.ID]; ok {
		p.known(n, h, o, e)
	} else {
		p.fresh(n, e)
	}
	if err := validNew(e); err != nil {
		return fmt.Errorf("%q: %w", n.ID, err)
	}
	return nil
}

// free returns the aliases of a note that are not in use: no other entry, and no other
// note of the source, has the alias as a name or an alias.
func (p *planner) free(n *Note, base string) []string {
	self := ""
	if h, ok := p.from[n.ID]; ok {
		self = h.entry.Name
	} else if text, _ := textOf(p.names[base]); text == trimEnd(n.Text) {
		self = base
	}
	var free []string
	for _, a := range n.Aliases {
		_, taken := p.names[a]
		taken = taken && a != self || p.named[a]
		for name := range p.alias[a] {
			taken = taken || name != self
		}
		if taken {
			p.left.add("alias is in use by another entry", a)
		} else {
			free = append(free, a)
		}
	}
	return free
}

// textOf returns the text of an entry without the line of its origin.
func textOf(e crmem.Entry) (text string, imported bool) {
	text, _, imported = splitOrigin(e.Content)
	if !imported {
		text = trimEnd(e.Content)
	}
	return text, imported
}

// known plans a note that an earlier import created.
func (p *planner) known(n *Note, h held, o origin, e crmem.Entry) {
	old := h.entry
	if h.origin.sum == o.sum {
		p.plan.Skipped++
		return
	}
	if h.origin.edited(&old, h.text) && p.mode != Replace {
		p.differs(old.Name, n, true)
		return
	}
	other := apart(e.Name, n.ID)
	if n.Name == "" || old.Name == e.Name || old.Name == other {
		e.Name = old.Name
		p.replace(old, e)
		return
	}
	// The source has renamed the note.
	if _, taken := p.names[e.Name]; taken {
		e.Name = other
	}
	if _, taken := p.names[e.Name]; taken {
		p.differs(e.Name, n, false)
		return
	}
	e.CreatedAt = old.CreatedAt
	p.plan.Ops = append(p.plan.Ops, crmem.Rename{Name: old.Name, To: e.Name}, crmem.Update{Name: e.Name, Content: e.Content, Aliases: e.Aliases})
	p.drop(old)
	p.set(e)
	p.plan.Replaced++
	p.plan.Updated = append(p.plan.Updated, e.Name)
}

// fresh plans a note that was not imported from this source. An equal note
// counts as the same, because the source may have moved.
func (p *planner) fresh(n *Note, e crmem.Entry) {
	old, taken := p.names[e.Name]
	text, _ := textOf(old)
	if taken && old.Kind == crmem.Note && text == trimEnd(n.Text) && slices.Equal(old.Aliases, n.Aliases) {
		p.plan.Skipped++
		return
	}
	if taken && p.ours[e.Name] {
		e.Name = apart(e.Name, n.ID)
		old, taken = p.names[e.Name]
	}
	switch {
	case !taken:
		p.plan.Ops = append(p.plan.Ops, crmem.Restore{Entry: e})
		p.plan.Added++
		p.set(e)
	case p.mode == Replace && !p.ours[e.Name] && old.Kind == crmem.Note:
		p.replace(old, e)
	default:
		p.differs(e.Name, n, false)
	}
}

func (p *planner) replace(old, e crmem.Entry) {
	p.drop(old)
	p.plan.Ops = append(p.plan.Ops, crmem.Update{Name: old.Name, Content: e.Content, Aliases: e.Aliases})
	p.plan.Replaced++
	p.plan.Updated = append(p.plan.Updated, old.Name)
	p.set(e)
}

func (p *planner) differs(name string, n *Note, edited bool) {
	if p.mode == Keep {
		p.plan.Kept++
		return
	}
	p.plan.Conflicts = append(p.plan.Conflicts, Conflict{name, n.ID, edited})
}

func (p *planner) take(e crmem.Entry) {
	p.names[e.Name] = e
	for _, a := range e.Aliases {
		if p.alias[a] == nil {
			p.alias[a] = make(map[string]bool)
		}
		p.alias[a][e.Name] = true
	}
}

func (p *planner) drop(e crmem.Entry) {
	delete(p.names, e.Name)
	for _, a := range e.Aliases {
		delete(p.alias[a], e.Name)
	}
}

func (p *planner) set(e crmem.Entry) {
	p.take(e)
	p.ours[e.Name] = true
}

// LineConflictError reports a line that differs from the entry of the same name in
// the store or in an earlier line. It wraps [crmem.ErrExists].
type LineConflictError struct {
	Line  int
	Other int // the earlier line; 0: the store
	Name  string
}

func (e *LineConflictError) Error() string {
	owner := "the store"
	if e.Other > 0 {
		owner = fmt.Sprintf("line %d", e.Other)
	}
	return fmt.Sprintf("line %d: %s has a different %s", e.Line, owner, display.Quoted(e.Name))
}

func (e *LineConflictError) Unwrap() error { return crmem.ErrExists }

// PlanLines plans to import lines in one batch. In mode Refuse the first
// conflict is a *LineConflictError. now is the creation time of new entries
// whose line states none.
func PlanLines(s *crmem.Store, lines []Line, mode Mode, now time.Time) (*Plan, error) {
	return planLines(s, lines, mode, now, func(_ *Plan, l *Line, other int) error {
		return &LineConflictError{Line: l.Number, Other: other, Name: l.Entry.Name}
	})
}

// planExact plans the import of the entries of a vault, with all conflicts.
func (m *Memory) planExact(s *crmem.Store, mode Mode, now time.Time) (*Plan, error) {
	return planLines(s, m.Exact, mode, now, func(p *Plan, l *Line, _ int) error {
		p.Conflicts = append(p.Conflicts, Conflict{Name: l.Entry.Name, Source: m.Paths[l.Number-1]})
		return nil
	})
}

// planLines plans to import lines. In mode Refuse it calls differs for each conflict,
// with the number of an earlier line.
func planLines(s *crmem.Store, lines []Line, mode Mode, now time.Time, differs func(p *Plan, l *Line, other int) error) (*Plan, error) {
	p := &Plan{Left: []Left{}}
	staged := make(map[string]crmem.Entry) // by name, after the operations so far
	for e := range s.All() {
		staged[e.Name] = e
	}
	lineOf := make(map[string]int)
	for i := range lines {
		l := &lines[i]
		e := l.Entry
		old, exists := staged[e.Name]
		if !l.Timed {
			switch {
			case exists:
				e.CreatedAt = old.CreatedAt
			case e.CreatedAt == 0:
				e.CreatedAt = crmem.UnixTime(max(now.Unix(), 0))
			}
		}
		same := e
		same.ID = old.ID // an id may have to change on its way
		switch {
		case !exists:
			p.Added++
			p.Ops = append(p.Ops, crmem.Restore{Entry: e})
		case old.Equal(same):
			p.Skipped++
			continue
		case mode == Keep:
			p.Kept++
			continue
		case mode != Replace:
			if err := differs(p, l, lineOf[e.Name]); err != nil {
				return nil, err
			}
			continue
		case old.Kind == e.Kind && old.CreatedAt == e.CreatedAt && validNew(e) == nil:
			p.Replaced++
			p.Updated = append(p.Updated, e.Name)
			p.Ops = append(p.Ops, crmem.Update{Name: e.Name, Content: e.Content, Aliases: e.Aliases})
		default:
			// Kind and time of an entry never change, and an update cannot exceed the
			// limits, so this is a new entry.
			p.Replaced++
			p.Updated = append(p.Updated, e.Name)
			p.Ops = append(p.Ops, crmem.Remove{Name: e.Name}, crmem.Restore{Entry: e})
		}
		staged[e.Name], lineOf[e.Name] = e, l.Number
	}
	return p, nil
}
