package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
)

// purgedEntry is the output of forget --purge --json.
type purgedEntry struct {
	Name       string      `json:"name"`
	DryRun     bool        `json:"dry_run"`
	Deleted    []string    `json:"deleted" jsonschema:"files that may have contained the texts"`
	Purged     []textPlace `json:"purged" jsonschema:"places that --everywhere purged"`
	Places     []textPlace `json:"places" jsonschema:"places outside the purge that contain a text"`
	Incomplete bool        `json:"incomplete" jsonschema:"places may lack some"`
}

// purgeOptions are the flags of forget --purge.
type purgeOptions struct{ archive, dry, everywhere, yes bool }

// purge implements forget --purge. With --everywhere, it purges the entry last: a
// repeated command reads the texts to search for from the entry.
func (c *app) purge(ctx context.Context, name string, o purgeOptions) error {
	t := textSearch{app: c, everywhere: o.everywhere, left: maxSearched}
	var e crmem.Entry
	err := c.read(func(s *crmem.Store) error {
		if e, err := s.Get(name); err == nil && crmem.SameName(e.Name, name) {
			name = strings.Clone(e.Name)
		}
		t.collect(s, name)
		var err error
		if e, err = op.FindToRemove(s, name, o.archive); (errors.Is(err, crmem.ErrNotFound) || errors.Is(err, crmem.ErrAmbiguous)) && len(t.ids) > 0 {
			return nil // removed entries had the name
		}
		return err
	})
	if err != nil {
		return op.PurgeFix(err)
	}
	if !o.dry {
		if err := c.confirmPurge("purge "+display.Label(name)+" and its history", o.yes); err != nil {
			return err
		}
	}
	t.omitted = t.omitted || t.incomplete || o.everywhere && t.short
	p := purgedEntry{Name: name, DryRun: o.dry, Deleted: []string{}, Purged: []textPlace{}}
	if o.everywhere && !o.dry {
		if p.Purged, err = t.purgePlaces(ctx); err != nil {
			return err
		}
	}
	isLeft := func(p textPlace) bool { return p.Kind != placeTree }
	kept := o.everywhere && !o.dry && (t.incomplete || slices.ContainsFunc(t.places, isLeft))
	if !o.dry && !kept {
		err = c.write(ctx, "forget", false, func(s op.Memory) error {
			done, err := op.Purge.Do(ctx, s, op.Removal{Name: name, Archive: o.archive})
			e, p.Deleted = done.Entry, append(p.Deleted, done.Deleted...)
			return err
		})
		if err == nil && o.everywhere {
			err = t.removeBases()
		}
		if err != nil {
			return err
		}
	}
	if kept {
		t.keep(name)
	} else if !o.everywhere || o.dry {
		if err := t.search(); err != nil {
			return err
		}
	}
	p.Places, p.Incomplete = t.places, t.incomplete || t.omitted
	failed := o.everywhere && !o.dry && (len(p.Places) > 0 || p.Incomplete)
	return c.printFailing(p, failed, func() { c.printPurged(&p, &e, o, kept, t.short && len(t.texts) == 0) })
}

// keep adds the entry itself to the places, because not all others could be purged.
func (t *textSearch) keep(name string) {
	t.places = append(t.places, textPlace{Kind: placeEntry, Space: t.space, Name: name, Path: t.storePath(),
		Reason: "it is kept until the other places are purged",
		Remedy: "correct the other places, then run the command again, or run crabmem forget --purge " + errtable.ShellWord(name)})
}

// printPurged prints the result of a purge. short reports that each text was too short
// for a search.
func (c *app) printPurged(p *purgedEntry, e *crmem.Entry, o purgeOptions, kept, short bool) {
	what := "the history of the removed entry " + display.Label(p.Name)
	if e.ID > 0 {
		what = fmt.Sprintf("%s (%s %d) and its history", display.Label(e.Name), e.Kind, e.ID)
	}
	switch {
	case kept:
	case o.dry:
		c.Say("would purge %s", what)
	default:
		c.Say("purged %s; undo is not possible", what)
	}
	for _, f := range p.Deleted {
		c.Say("deleted %s, which may have contained the text", display.Printable(f))
	}
	for i := range p.Purged {
		c.Say("purged %s", p.Purged[i].label(c))
	}
	left := p.Places
	if o.everywhere && o.dry {
		left = nil
		for i := range p.Places {
			if place := &p.Places[i]; place.Kind == placeTree || place.Reason != "" {
				left = append(left, *place)
			} else {
				c.Say("would purge %s", place.label(c))
			}
		}
	}
	switch {
	case len(left) > 0:
		c.Say("the text is also in:")
	case short:
		c.Say("no search for other copies: the text is shorter than %d bytes", minSearched)
	}
	for i := range left {
		reason := ""
		if left[i].Reason != "" {
			reason = display.Printable(left[i].Reason) + "; "
		}
		c.Say("  %s: %s%s", left[i].label(c), reason, left[i].Remedy)
	}
	if p.Incomplete && !short {
		c.Say("the search for other copies is incomplete: more places may have the text")
	}
}

// label describes a place for people.
func (p *textPlace) label(c *app) string {
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
		text.WriteString(" in space " + c.spaceLabel(p.Space))
	}
	return text.String()
}
