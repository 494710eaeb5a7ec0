package crmem

import (
	"fmt"

	"crabmem/crmem/internal/format"
)

// revert changes an entry from one state to another. A state with ID 0 is a missing
// entry.
type revert struct{ from, to Entry }

func (o revert) Validate() error { return nil }

func (o revert) stage(g *stage) error {
	present := Unchanged{o.from}
	if o.from.ID == 0 {
		present.Entry.Name = o.to.Name
		if e := g.byID(o.to.ID); e != "" {
			return &nameError{ErrStale, o.to.Name, fmt.Sprintf("it has the name %q now", e.Name())}
		}
		if g.get(o.to.Name) != "" {
			return &nameError{ErrExists, o.to.Name, ""}
		}
	}
	if err := present.stage(g); err != nil {
		return err
	}
	if o.to.ID != 0 && o.to.Name != o.from.Name && g.get(o.to.Name) != "" {
		return &nameError{ErrExists, o.to.Name, ""}
	}
	same := o.to.ID != 0 && o.to.Name == o.from.Name && o.to.Kind == o.from.Kind && o.to.CreatedAt == o.from.CreatedAt
	if o.from.ID != 0 && !same {
		g.remove(o.from.Name, recordOf(&o.from))
	}
	if o.to.ID == 0 {
		return nil
	}
	return g.put(&o.to)
}

// byID returns the record of an id in the staged state, or "".
func (g *stage) byID(id uint64) format.Record {
	r := g.t.byID(id)
	if r != "" && g.get(r.Name()) == r {
		return r
	}
	for _, names := range []map[string]format.Record{g.names, g.before[0], g.before[1]} {
		for name, r := range names {
			if r != "" && r.ID() == id && g.get(name) == r {
				return r
			}
		}
	}
	for _, c := range g.set {
		if c.rec != "" && c.rec.ID() == id && g.get(c.name) == c.rec {
			return c.rec
		}
	}
	return ""
}
