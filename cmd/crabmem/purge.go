package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/memtool"
)

// purgedEntry is the output of forget --purge --json.
type purgedEntry struct {
	Name       string      `json:"name"`
	DryRun     bool        `json:"dry_run"`
	Deleted    []string    `json:"deleted"`    // files that may have contained the texts
	Places     []textPlace `json:"places"`     // outside the purge, that contain a text
	Incomplete bool        `json:"incomplete"` // places may lack some
}

// purge runs forget --purge.
func (c *app) purge(ctx context.Context, name string, archive, dry bool) error {
	t := textSearch{app: c, seen: make(map[string]bool), left: maxSearched, places: []textPlace{}}
	var e crmem.Entry
	err := c.read(func(s *crmem.Store) error {
		t.collect(s, name)
		if !dry {
			return nil
		}
		var err error
		if e, err = memtool.FindToRemove(s, name, archive); errors.Is(err, crmem.ErrNotFound) && len(t.ids) > 0 {
			return nil // removed entries had the name
		}
		return err
	})
	if err != nil {
		return err
	}
	p := purgedEntry{Name: name, DryRun: dry, Deleted: []string{}}
	if !dry {
		err = c.write(ctx, "forget", false, func(s memtool.Store) error {
			done, err := s.Purge(ctx, name, archive)
			e, p.Deleted = done.Entry, append(p.Deleted, done.Deleted...)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := c.Busy("searching for other copies", func() error { return t.run() }); err != nil {
		return err
	}
	p.Places, p.Incomplete = t.places, t.incomplete
	if c.JSON {
		return c.PrintJSON(p)
	}
	c.printPurged(&p, &e, t.short)
	return nil
}

// printPurged prints the result of a purge. short reports that each text was too short
// for a search.
func (c *app) printPurged(p *purgedEntry, e *crmem.Entry, short bool) {
	what := "the history of the removed entry " + display.Label(p.Name)
	if e.ID > 0 {
		what = fmt.Sprintf("%s (%s %d) and its history", display.Label(e.Name), e.Kind, e.ID)
	}
	if p.DryRun {
		c.Say("would purge %s", what)
	} else {
		c.Say("purged %s; undo is not possible", what)
	}
	for _, f := range p.Deleted {
		c.Say("deleted %s, which may have contained the text", display.Printable(f))
	}
	switch {
	case len(p.Places) > 0:
		c.Say("the text is also in:")
	case short:
		c.Say("no search for other copies: the text is shorter than %d bytes", minSearched)
	}
	for i := range p.Places {
		c.Say("  %s: %s", p.Places[i].label(), p.Places[i].Remedy)
	}
	if p.Incomplete {
		c.Say("the search for other copies is incomplete: more places may have the text")
	}
}

// label describes a place for people.
func (p *textPlace) label() string {
	var text strings.Builder
	switch p.Kind {
	case placeEntry:
		text.WriteString("entry " + display.Label(p.Name))
	case placeVersion:
		text.WriteString("earlier version of " + display.Label(p.Name))
	case placeSession:
		return "session " + display.Label(p.Name)
	case placeTree:
		return "Markdown tree " + p.Name
	default:
		return "file " + display.Printable(p.Path)
	}
	if p.Space != "" {
		text.WriteString(" in space " + p.Space)
	}
	return text.String()
}
