package page

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/links"
	"crabmem/crmem/metadata"
	"crabmem/crmem/recall"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
)

const (
	pageSize     = 50
	maxQuery     = 4 << 10 // bytes
	snippetBytes = 320
)

// listView is what the list of entries shows: a part of the store, or hits.
type listView struct {
	Query, Kind string
	Semantic    bool
	Entries     []crmem.Entry // newest first
	Older       string        // the address of the next part; empty: none
	Found       *foundView
}

type foundView struct {
	Hits        []hitView
	Total       int
	Corrections []bm25.Correction
	Note        string // why the search was not by meaning
}

type hitView struct {
	*recall.Hit
	Text  string
	Parts []scorePart
	Notes []string
}

// scorePart is a line of the breakdown of a score.
type scorePart struct {
	Label, Place string
	Value, Best  float64 // Best is the largest value of the hits
}

func (v *visit) memories() error {
	q := v.r.URL.Query()
	list := listView{Query: q.Get("q"), Kind: q.Get("kind"), Semantic: q.Get("meaning") != ""}
	kinds, err := kindsOf(list.Kind)
	if err != nil {
		return err
	}
	switch name := q.Get("name"); {
	case name != "":
		return v.named(name)
	case strings.TrimSpace(list.Query) != "":
		err = v.search(&list)
	default:
		err = v.browse(&list, kinds)
	}
	if err != nil {
		return err
	}
	return v.show("memories.html", http.StatusOK, view{Title: "Memories", Nav: "memories", Data: list})
}

func kindsOf(text string) ([]crmem.Kind, error) {
	if text == "" {
		return nil, nil
	}
	kinds := make([]crmem.Kind, 1)
	if kinds[0].UnmarshalText([]byte(text)) != nil {
		return nil, &errtable.Error{HTTP: http.StatusBadRequest, Message: "unknown kind " + strconv.Quote(text), Fix: "choose note or archive"}
	}
	return kinds, nil
}

// named shows the entry that a link leads to.
func (v *visit) named(name string) error {
	e, err := op.ReadEntry(v.r.Context(), v.store(), op.EntryName{Link: name})
	if err != nil {
		return err
	}
	return v.see(pathOf(e.ID))
}

func pathOf(id uint64) string { return "/ui/memories/" + strconv.FormatUint(id, 10) }

// browse lists entries before an ID, or the newest.
func (v *visit) browse(list *listView, kinds []crmem.Kind) error {
	before, err := strconv.ParseUint(v.r.URL.Query().Get("before"), 10, 64)
	if err != nil {
		a, err := op.ReadStats.Do(v.r.Context(), v.store(), op.StatsFilter{})
		if err != nil {
			return err
		}
		before = a.Stats.NextID
	}
	window := uint64(2 * pageSize)
	for end := before; end > 1 && len(list.Entries) <= pageSize; window *= 2 {
		begin := end - min(end, window) // the entries after it, and before end
		var part []crmem.Entry
		for e, err := range op.Entries(v.r.Context(), v.store(), op.EntryFilter{Kinds: kinds, After: begin}) {
			if err != nil {
				return err
			}
			if e.ID >= end {
				break
			}
			if part = append(part, e); len(part) > 4*pageSize { // the newest are enough
				part = slices.Delete(part, 0, len(part)-pageSize-1)
			}
		}
		slices.Reverse(part)
		list.Entries = append(list.Entries, part...)
		end = begin + 1
	}
	if len(list.Entries) > pageSize {
		list.Entries = list.Entries[:pageSize]
		q := url.Values{"before": {strconv.FormatUint(list.Entries[pageSize-1].ID, 10)}}
		if list.Kind != "" {
			q.Set("kind", list.Kind)
		}
		list.Older = "/ui/memories?" + q.Encode()
	}
	return nil
}

func (v *visit) search(list *listView) error {
	if len(list.Query) > maxQuery {
		return &errtable.Error{HTTP: http.StatusBadRequest, Message: fmt.Sprintf("the query has %d bytes, at most %d", len(list.Query), maxQuery), Fix: "shorten the query"}
	}
	q := op.Question{Query: list.Query, Limit: 20, FilterArgs: op.FilterArgs{Kind: list.Kind}, Semantic: list.Semantic, Explain: true, Weights: true}
	a, err := op.Recall.Do(v.r.Context(), v.store(), q)
	if err != nil {
		return err
	}
	list.Found = &foundView{Total: a.Total, Corrections: a.Corrections, Note: a.Meaning.Note("entry", "entries")}
	best := 0.0
	for i := range a.Hits {
		h := hitView{Hit: &a.Hits[i], Text: a.Hits[i].Cut(analysis.Standard, snippetBytes)}
		h.Parts, h.Notes = partsOf(h.Explain)
		for _, part := range h.Parts {
			best = max(best, part.Value)
		}
		list.Found.Hits = append(list.Found.Hits, h)
	}
	for _, h := range list.Found.Hits {
		for i := range h.Parts {
			h.Parts[i].Best = best
		}
	}
	return nil
}

// partsOf returns the parts that are added, and descriptions of the factors.
func partsOf(x *recall.Explanation) (parts []scorePart, notes []string) {
	for _, t := range x.Terms {
		parts = append(parts, scorePart{Label: t.Term, Place: t.Where(), Value: t.Contribution + t.Early + t.Exact})
	}
	for _, l := range x.Lines() {
		if l.Label == "" {
			notes = append(notes, l.Text)
			continue
		}
		parts = append(parts, scorePart{Label: l.Label, Place: l.Place, Value: l.Value})
	}
	return parts, notes
}

// entryView is what the page of an entry shows.
type entryView struct {
	*crmem.Entry
	Fields   []metadata.Field
	Body     rendered
	Editable string       // why the entry cannot be edited here; empty: it can
	Linked   []links.Link // to the entry, each entry once
}

// entry returns the entry with the ID in the path.
func (v *visit) entry() (*crmem.Entry, error) {
	id, err := v.id("id")
	if err != nil {
		return nil, err
	}
	e, err := op.ReadEntry(v.r.Context(), v.store(), op.EntryName{ID: id})
	if errors.Is(err, crmem.ErrNotFound) {
		return nil, notFound(fmt.Sprintf("no entry %d", id), "choose an entry of the list; the history of a removed entry remains")
	}
	return &e, err
}

// id returns a number in the path.
func (v *visit) id(name string) (uint64, error) {
	id, err := strconv.ParseUint(v.r.PathValue(name), 10, 64)
	if err != nil || id == 0 {
		return 0, notFound("no "+name+" "+strconv.Quote(v.r.PathValue(name)), "choose an entry of the list")
	}
	return id, nil
}

func (v *visit) memory() error {
	e, err := v.entry()
	if err != nil {
		return err
	}
	out := entryView{Entry: e, Editable: uneditable(e)}
	text := e.Content
	if m, body, ok := metadata.Parse(e.Content); ok {
		out.Fields, text = m.Fields(), e.Content[body:]
	}
	out.Body = v.p.render(v.r.Context(), text)
	all, err := op.ReadLinks.Do(v.r.Context(), v.store(), op.LinkFilter{EntryName: op.EntryName{ID: e.ID}})
	if err != nil {
		return err
	}
	out.Linked = slices.DeleteFunc(all.Links, func(l links.Link) bool { return l.FromID == e.ID })
	slices.SortFunc(out.Linked, func(a, b links.Link) int {
		return cmp.Or(strings.Compare(a.From, b.From), cmp.Compare(a.FromID, b.FromID))
	})
	out.Linked = slices.CompactFunc(out.Linked, func(a, b links.Link) bool { return a.FromID == b.FromID })
	return v.show("memory.html", http.StatusOK, view{Title: display.Label(e.Name), Nav: "memories", Data: out})
}
