package crmem

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/metadata"
)

// Sort is an order of hits. Ties are by score, then by ascending ID.
type Sort string

// The orders of hits.
const (
	ByScore     Sort = ""
	ByRecent    Sort = "recent"    // the newest first
	ByImportant Sort = "important" // the largest importance of the metadata first
)

// ParseSort returns the order of a name: score, recent, or important.
func ParseSort(name string) (Sort, error) {
	switch s := Sort(name); s {
	case "score":
		return ByScore, nil
	case ByScore, ByRecent, ByImportant:
		return s, nil
	}
	return "", fmt.Errorf("%q: want score, recent, or important", name)
}

// Marks are the facts about a hit that the metadata of the store states.
type Marks struct {
	SupersededBy []string `json:"superseded_by,omitempty"` // names
	Contradicts  []string `json:"contradicts,omitempty"`   // names, in either direction
	Expired      string   `json:"expired,omitempty"`       // the last day on which it was valid
	Linked       *Linked  `json:"linked,omitempty"`        // set if Query.Expand added the entry
}

// Linked is the link to an entry that [Query.Expand] added.
type Linked struct {
	From     string `json:"from"` // name of the hit, or of another linked entry
	Relation string `json:"relation"`
}

// Notes returns the marks as phrases.
func (m *Marks) Notes() (list []string) {
	if m == nil {
		return nil
	}
	if m.Linked != nil {
		list = append(list, fmt.Sprintf("%s of %s", m.Linked.Relation, m.Linked.From))
	}
	for _, name := range m.SupersededBy {
		list = append(list, "superseded by "+name)
	}
	for _, name := range m.Contradicts {
		list = append(list, "contradicts "+name)
	}
	if m.Expired != "" {
		list = append(list, "expired "+m.Expired)
	}
	return list
}

// relations are the metadata of an entry that affect other hits or its own rank.
// expires and supersedes are empty unless the entry is adopted.
type relations struct {
	expires                 string
	meta                    metadata.Metadata
	supersedes, contradicts []string
}

// relationsOf returns the relations of a record. ok is false if it has none.
func relationsOf(r format.Record) (x relations, ok bool) {
	content, _ := r.Content()
	if x.meta, _, ok = metadata.Parse(content); !ok {
		return relations{}, false
	}
	x.contradicts = x.meta.Targets(metadata.Contradicts)
	if x.meta.Adopted() {
		x.supersedes = x.meta.Targets(metadata.Supersedes)
		if v := x.meta.Values(metadata.Expires); len(v) == 1 {
			x.expires = v[0]
		}
	}
	return x, x.expires != "" || len(x.supersedes)+len(x.contradicts) > 0
}

// related updates the relations of an entry; an empty record removes them.
func (ix *index) related(id uint64, r format.Record) {
	x, ok := relations{}, false
	if r != "" {
		x, ok = relationsOf(r)
	}
	if ok {
		if ix.relations == nil {
			ix.relations = make(map[uint64]relations)
		}
		ix.relations[id] = x
	} else {
		delete(ix.relations, id)
	}
}

// resolve returns the ID of the entry that a link names, or 0. The caller holds mu for
// reading.
func (s *Store) resolve(target string) uint64 {
	if s.t.owners == nil && s.t.byName(target) == "" { // not built: only an index with names builds it
		return 0
	}
	if r, _, _ := s.t.resolveLink(target); r != "" {
		return r.ID()
	}
	return 0
}

// ranker orders and marks the hits of one search.
type ranker struct {
	s          *Store
	ix         *index
	now        time.Time
	successors map[uint64][]uint64 // by ID of the superseded entry
	opponents  map[uint64][]uint64 // entries that contradict each other
	moves      bool                // the order may change
}

// newRanker returns the ranker of a search. The caller holds mu for reading.
func (s *Store) newRanker(ix *index) *ranker {
	if len(ix.relations) == 0 {
		return &ranker{s: s, ix: ix}
	}
	r := &ranker{s: s, ix: ix, now: s.opts.Now(), successors: make(map[uint64][]uint64), opponents: make(map[uint64][]uint64)}
	ids := make([]uint64, 0, len(ix.relations))
	for id := range ix.relations {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		x := ix.relations[id]
		for _, target := range x.supersedes {
			if old := s.resolve(target); old != 0 && old != id {
				r.successors[old] = append(r.successors[old], id)
			}
		}
		for _, target := range x.contradicts {
			if other := s.resolve(target); other != 0 && other != id {
				r.opponents[other] = append(r.opponents[other], id)
				r.opponents[id] = append(r.opponents[id], other)
			}
		}
		r.moves = r.moves || r.expired(id)
	}
	r.moves = r.moves || len(r.successors) > 0
	return r
}

func (r *ranker) expired(id uint64) bool {
	x, ok := r.ix.relations[id]
	return ok && x.expires != "" && x.meta.Expired(r.now)
}

// favorProject moves a project's hits before others whose scores are equal to three decimals.
// hits are in the order of their scores.
func favorProject(hits []Hit, project string) {
	place := func(h Hit) float64 { return math.Round(1000 * h.Score) }
	for len(hits) > 0 {
		n := 1
		for n < len(hits) && place(hits[n]) == place(hits[0]) {
			n++
		}
		equal := hits[:n]
		hits = hits[n:]
		if n == 1 {
			continue
		}
		var first, others []Hit
		for _, h := range equal {
			m, _, _ := metadata.Parse(h.Content)
			if containsAll(m.Values(metadata.Project), []string{project}) {
				first = append(first, h)
			} else {
				others = append(others, h)
			}
		}
		copy(equal, append(first, others...))
	}
}

// order returns the hits, sorted, with superseded entries directly after their best
// successor and with expired entries last.
func (r *ranker) order(hits []Hit, by Sort) []Hit {
	switch by {
	case ByRecent:
		slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
	case ByImportant:
		importance := make(map[uint64]float64, len(hits))
		for _, h := range hits {
			m, _, _ := metadata.Parse(h.Content)
			importance[h.ID] = m.Importance()
		}
		slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(importance[b.ID], importance[a.ID]) })
	}
	if !r.moves {
		return hits
	}
	var valid, expired []Hit
	for _, h := range hits {
		if r.expired(h.ID) {
			expired = append(expired, h)
		} else {
			valid = append(valid, h)
		}
	}
	return append(r.group(valid), r.group(expired)...)
}

// group moves each superseded hit directly after its best successor. If that has a
// lower rank, both take the place of the superseded hit.
func (r *ranker) group(hits []Hit) []Hit {
	place := make(map[uint64]int, len(hits))
	for i, h := range hits {
		place[h.ID] = i
	}
	// parent is the place of the best successor of each hit, or -1.
	parent := make([]int, len(hits))
	children := make([][]int, len(hits))
	for i, h := range hits {
		parent[i] = -1
		for _, id := range r.successors[h.ID] {
			if at, ok := place[id]; ok && (parent[i] < 0 || at < parent[i]) {
				parent[i] = at
			}
		}
	}
	for i, p := range parent {
		if p >= 0 {
			children[p] = append(children[p], i)
		}
	}
	ordered := make([]Hit, 0, len(hits))
	done := make([]bool, len(hits))
	var add func(i int)
	add = func(i int) {
		if done[i] {
			return
		}
		done[i] = true
		ordered = append(ordered, hits[i])
		for _, c := range children[i] {
			add(c)
		}
	}
	for i := range hits {
		root := i
		for n := 0; parent[root] >= 0 && !done[parent[root]] && !done[i]; n++ {
			if root = parent[root]; n > len(hits) { // entries that supersede each other
				root = i
				break
			}
		}
		add(root)
		add(i)
	}
	return ordered
}

// mark returns the marks of an entry, or nil.
func (r *ranker) mark(id uint64) *Marks {
	m := Marks{SupersededBy: r.names(r.successors[id]), Contradicts: r.names(r.opponents[id])}
	if r.expired(id) {
		m.Expired = r.ix.relations[id].expires
	}
	if m.Expired == "" && len(m.SupersededBy)+len(m.Contradicts) == 0 {
		return nil
	}
	return &m
}

// names returns the names of entries, each once.
func (r *ranker) names(ids []uint64) (list []string) {
	for _, id := range ids {
		if name := r.s.found(r.ix, id).Name(); !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// maxLinked limits the entries that Query.Expand adds.
const maxLinked = 50

// expand appends the entries within some links of the hits, each once, the nearest first.
func (r *ranker) expand(hits []Hit, links int) []Hit {
	if links == 0 {
		return hits
	}
	seen := make(map[uint64]bool)
	for _, h := range hits {
		seen[h.ID] = true
	}
	for at, most := 0, len(hits)+maxLinked; links > 0; links-- {
		for end := len(hits); at < end; at++ {
			from := &hits[at].Entry
			for _, l := range metadata.Links(from.Content) {
				id := r.s.resolve(l.Target)
				if id == 0 || seen[id] || len(hits) == most {
					continue
				}
				seen[id] = true
				m := r.mark(id)
				if m == nil {
					m = &Marks{}
				}
				m.Linked = &Linked{from.Name, l.Relation}
				hits = append(hits, Hit{Entry: entryOf(r.s.found(r.ix, id)), Marks: m})
			}
		}
	}
	return hits
}
