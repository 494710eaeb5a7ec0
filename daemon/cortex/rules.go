package cortex

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/links"
	"crabmem/crmem/lint"
	"crabmem/crmem/metadata"
)

const (
	duplicateShare = 0.95 // of the sequences of 3 words
	relatedShare   = 0.85
	leastValue     = 0.1 // importance of a note that stays
	pruneAge       = 30 * day
	day            = 24 * time.Hour

	maxNotes     = 2000 // of a pass
	maxProposals = 100  // of a pass
)

// Pass proposes changes of at most 2,000 notes, at most 100, and writes the proposals.
// skip reports whether to leave a note alone. The next pass continues after these notes.
func (b *Book) Pass(s *crmem.Store, now time.Time, skip func(name string) bool) ([]Proposal, error) {
	before, from := b.last(), b.next
	permit := func(e *crmem.Entry) bool { return e.Kind == crmem.Note && !skip(e.Name) }
	window, next := b.window(s, permit)
	var records []record
	propose := func(kind, why string, notes ...crmem.Entry) {
		p := Proposal{N: b.last() + len(records) + 1, Kind: kind, Why: why, At: now.UTC().Format(time.RFC3339)}
		for i := range notes {
			p.IDs, p.Was = append(p.IDs, notes[i].ID), append(p.Was, digest(&notes[i]))
		}
		if b.known[p.key()] {
			return
		}
		if len(records) == maxProposals {
			next = from // the same notes again
			return
		}
		records = append(records, record{Proposal: &p})
	}
	graph := links.NewGraph(s)
	linked, inbound := make(map[[2]uint64]bool), make(map[uint64]int)
	for _, e := range graph.Edges {
		linked[[2]uint64{min(e.From, e.To), max(e.From, e.To)}] = true
		if e.From != e.To {
			inbound[e.To]++
		}
	}
	for _, p := range lint.Pairs(s, relatedShare, permit, func(e *crmem.Entry) bool { return window[e.ID] }) {
		why := fmt.Sprintf("%.0f %% of the sequences of 3 words are in both", math.Floor(p.Share*100))
		switch {
		case linked[[2]uint64{min(p.Earlier.ID, p.Later.ID), max(p.Earlier.ID, p.Later.ID)}]: // a person related them
		case p.Share >= duplicateShare:
			propose(Duplicate, why, p.Earlier, p.Later)
		default:
			propose(Related, why, p.Earlier, p.Later)
		}
	}
	for _, e := range stale(s, now, window, inbound) {
		propose(Prune, fmt.Sprintf("the importance is below %v, and the note is older than %d days", leastValue, pruneAge/day), e)
	}
	if next != from {
		records = append(records, record{Next: &next})
	}
	if len(records) == 0 {
		return nil, nil
	}
	if err := b.write(records...); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(b.Open(s), func(p Proposal) bool { return p.N <= before }), nil
}

// window returns the IDs of a pass's notes, and the ID with which the next pass begins, or
// 0 after the last note.
func (b *Book) window(s *crmem.Store, permit func(*crmem.Entry) bool) (ids map[uint64]bool, next uint64) {
	ids = make(map[uint64]bool)
	for e := range s.All() {
		if e.ID < b.next || !permit(&e) {
			continue
		}
		if len(ids) == maxNotes {
			return ids, e.ID
		}
		ids[e.ID] = true
	}
	return ids, 0
}

// stale returns the notes of a window to remove.
func stale(s *crmem.Store, now time.Time, window map[uint64]bool, inbound map[uint64]int) (list []crmem.Entry) {
	var entries []crmem.Entry
	var infos []*crmem.EntryInfo
	for e := range s.All() {
		if window[e.ID] {
			info := e.Info(false)
			entries, infos = append(entries, e), append(infos, &info)
		}
	}
	s.AddUse(infos...)
	for i, e := range entries {
		m, _, _ := metadata.Parse(e.Content)
		changed := now.Sub(time.Unix(int64(max(infos[i].CreatedAt, infos[i].UpdatedAt)), 0))
		if m.Is(metadata.Identity) || m.Pinned() || changed < pruneAge {
			continue
		}
		read := time.Duration(math.MaxInt64)
		if infos[i].AccessCount > 0 {
			read = now.Sub(time.Unix(int64(infos[i].AccessedAt), 0))
		}
		if value(m.Importance(), changed, read, inbound[e.ID]) < leastValue {
			list = append(list, e)
		}
	}
	return list
}

// value returns a note's importance, from 0 to 1. base comes from its metadata or type; the
// time since its change reduces it, and reads and links raise it.
func value(base float64, changed, read time.Duration, inbound int) float64 {
	v := base * (1 - min(0.05*changed.Hours()/24, 0.5)) * (1 + 0.05*float64(min(inbound, 4)))
	if read < 7*day {
		v *= 1.1
	} else if read > 30*day {
		v *= 0.9
	}
	return min(v, 1)
}

// Ops returns the operations that apply a proposal, and sets its notes' names. The error is
// ErrChanged if a note is not as it was.
func (p *Proposal) Ops(s *crmem.Store) ([]crmem.Op, error) {
	notes, err := p.find(s)
	if err != nil {
		return nil, err
	}
	first, last := notes[0], notes[len(notes)-1]
	switch p.Kind {
	case Prune:
		return []crmem.Op{crmem.Remove{Name: first.Name}}, nil
	case Related:
		m, _, _ := metadata.Parse(first.Content)
		f, err := metadata.NewField(metadata.Related, append(slices.Clone(m.Values(metadata.Related)), last.Name)...)
		if err != nil {
			return nil, err
		}
		content, err := metadata.Set(first.Content, f)
		return []crmem.Op{crmem.Update{Name: first.Name, Content: content, Aliases: first.Aliases}}, err
	}
	content, err := merged(first.Content, last.Content)
	if err != nil {
		return nil, err
	}
	aliases := slices.Clone(first.Aliases)
	for _, a := range append([]string{last.Name}, last.Aliases...) {
		if a != first.Name && !slices.Contains(aliases, a) {
			aliases = append(aliases, a)
		}
	}
	return []crmem.Op{crmem.Remove{Name: last.Name}, crmem.Update{Name: first.Name, Content: content, Aliases: aliases}}, nil
}

// merged returns a content with both notes' texts, or with one if they are the same. It has
// the first note's metadata, and the fields that only the second has.
func merged(first, second string) (string, error) {
	a, _, _ := metadata.Parse(first)
	b, _, _ := metadata.Parse(second)
	var fields []metadata.Field
	for _, f := range b.Fields() {
		if a.Values(f.Key) == nil && f.Key != metadata.Adopted {
			fields = append(fields, f)
		}
	}
	if text := metadata.Text(second); strings.TrimSpace(text) != strings.TrimSpace(metadata.Text(first)) {
		first = strings.TrimRight(first, "\n") + "\n\n" + text
	}
	return metadata.Set(first, fields...)
}
