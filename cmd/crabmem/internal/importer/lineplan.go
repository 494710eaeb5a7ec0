package importer

import (
	"fmt"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/display"
)

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
