package crmem

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/metadata"
)

// Importance is how [Query.Importance] or [Options.ImportanceWeight] changed the score of a hit: to the score
// of its text, times Factor. DESIGN.md has the formula. Each part is from 0 to 1.
type Importance struct {
	Explicit float64 `json:"explicit"` // the importance of the metadata, or the default of the type
	Access   float64 `json:"access"`   // from the number of reads
	Recency  float64 `json:"recency"`  // from the time since the entry was created or read
	Links    float64 `json:"links"`    // from the number of entries that link to it
	Value    float64 `json:"value"`    // the weighted mean of the parts
	Weight   float64 `json:"weight"`   // of the query or the options
	Factor   float64 `json:"factor"`   // 1 + Weight * Value
}

const (
	defaultHalfLife = 30 * 24 * time.Hour
	halfReads       = 10 // reads for an Access of 1/2
	halfLinks       = 3  // linking entries for Links of 1/2

	// The weights of the parts.
	explicitPart, accessPart, recencyPart, linksPart = 0.4, 0.2, 0.2, 0.2
)

// inbound counts the entries that link to an entry.
type inbound struct {
	mu      sync.Mutex
	version uint64 // of the store
	n       map[uint64]int
}

// weightOf returns the weight of importance in the scores of a query.
func (s *Store) weightOf(q *Query) float64 {
	if q.Analyzer != analysis.Standard {
		return 0
	}
	return cmp.Or(q.Importance, s.opts.ImportanceWeight)
}

// weigher computes importance for one search.
type weigher struct {
	s        *Store
	weight   float64
	now      time.Time
	halfLife time.Duration
	links    map[uint64]int
	known    map[uint64]Importance
}

// newWeigher returns the weigher of a search, after loadUsage. The caller holds mu for
// reading.
func (s *Store) newWeigher(ix *index, weight float64) *weigher {
	ix.inbound.mu.Lock()
	defer ix.inbound.mu.Unlock()
	if ix.inbound.n == nil || ix.inbound.version != s.version {
		ix.inbound.version, ix.inbound.n = s.version, s.countLinks(ix)
	}
	return &weigher{s, weight, s.opts.Now(), cmp.Or(s.opts.HalfLife, defaultHalfLife), ix.inbound.n, make(map[uint64]Importance)}
}

// countLinks returns the number of other entries that link to each entry.
func (s *Store) countLinks(ix *index) map[uint64]int {
	n := make(map[uint64]int)
	for from, targets := range ix.links {
		var seen []uint64
		for _, target := range targets {
			if id := s.resolve(target); id != 0 && id != from && !slices.Contains(seen, id) {
				seen = append(seen, id)
				n[id]++
			}
		}
	}
	return n
}

// link updates the links of an entry; an empty record removes them.
func (ix *index) link(id uint64, r format.Record) {
	if ix.links == nil {
		return
	}
	delete(ix.links, id)
	if r == "" {
		return
	}
	content, _ := r.Content()
	if targets := linkTargets(content); len(targets) > 0 {
		ix.links[id] = targets
	}
}

// linkTargets returns the names that a content links to.
func linkTargets(content string) (targets []string) {
	for _, l := range metadata.Links(content) {
		targets = append(targets, l.Target)
	}
	return targets
}

// of returns the importance of an entry.
func (w *weigher) of(id uint64) Importance {
	if x, ok := w.known[id]; ok {
		return x
	}
	r := w.s.t.byID(id)
	content, _ := r.Content()
	m, _, _ := metadata.Parse(content)
	reads, last := w.s.usageOf(id)
	x := Importance{Explicit: m.Importance(), Access: share(float64(reads), halfReads), Recency: 1, Links: share(float64(w.links[id]), halfLinks), Weight: w.weight}
	if !strings.EqualFold(m.Type(), metadata.Identity) {
		used := max(r.CreatedAt(), uint64(max(last.Unix(), 0)))
		if age := float64(w.now.Unix()) - float64(used); age > 0 {
			x.Recency = math.Exp2(-age / w.halfLife.Seconds())
		}
	}
	x.Value = explicitPart*x.Explicit + accessPart*x.Access + recencyPart*x.Recency + linksPart*x.Links
	x.Factor = 1 + x.Weight*x.Value
	w.known[id] = x
	return x
}

// share is 0 for 0, 1/2 for half, and below 1 for any n.
func share(n, half float64) float64 { return n / (n + half) }

// search returns the matches of x that may be among the first limit after weigh, or all
// matches if limit is 0. No other match can get a higher score than the last of them.
func (w *weigher) search(ix *index, x bm25.Query, limit int) bm25.Result {
	x.Explain = false
	if limit > maxWeighed {
		limit = 0
	}
	for x.Limit = max(5*limit, minCandidates); limit > 0; x.Limit *= 4 {
		found := ix.x.Search(x)
		if len(found.Hits) < x.Limit {
			return found
		}
		scores := make([]float64, len(found.Hits))
		for i, h := range found.Hits {
			scores[i] = h.Score * w.of(h.ID).Factor
		}
		slices.SortFunc(scores, func(a, b float64) int { return cmp.Compare(b, a) })
		if scores[limit-1] > found.Hits[len(found.Hits)-1].Score*(1+w.weight) {
			return found
		}
	}
	x.Limit = 0
	return ix.x.Search(x)
}

const (
	minCandidates = 100     // least number of matches whose importance is computed
	maxWeighed    = 1 << 20 // with a higher limit, it is computed for all matches
)

// weigh multiplies the scores of hits, and sorts them.
func (w *weigher) weigh(hits []Hit) {
	for i := range hits {
		x := w.of(hits[i].ID)
		hits[i].Score *= x.Factor
		hits[i].Importance = &x
	}
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
}
