// Package search finds messages in all sessions of a folder.
//
// An [Index] is in memory. It follows what its process writes to the folder, and
// [Index.Refresh] reads what other processes wrote. DESIGN.md of package
// sessionlog gives the reasons for the ranking.
package search

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"crabmem/bm25"
	"crabmem/bm25/clip"
	"crabmem/crmem/fusion"
	"crabmem/crmem/vfs"
)

// Limits of the result of a search.
const (
	MaxHits       = 20
	defaultHits   = 5
	MaxWindow     = 16
	defaultWindow = 5
	maxQuery      = 64 << 10 // bytes
)

// Query is a search. An empty filter passes all documents.
type Query struct {
	Text  string // its first 64 KiB
	Limit int    // hits, at most 20; 0 is 5

	Agent  string // exactly as in the meta line
	Sender string // exactly, created_by of the meta line
	// Created, if set, excludes the sessions for whose created_by it returns false.
	Created func(by string) bool
	// Workspace, if set, excludes the sessions in other workspaces, and "" those in any.
	Workspace *string
	// Since excludes sessions whose last write was before it, or the last message of
	// an imported one; Until excludes sessions created after it. Messages have no times. A session
	// with an invalid created_at passes Until.
	Since, Until time.Time
	// Roles are roles of messages, "compact" for summaries, and "session" for
	// title, agent, and sender of a session.
	Roles []string

	// Window is the number of messages shown around a hit, including the hit,
	// at most 16. 0 means 5; a negative number means none.
	Window int

	// Bare omits everything that is read from files: snippets, windows, and
	// re-ranking.
	Bare bool

	// Semantic, if set, ranks by meaning, too. It has an effect for the analyzer
	// Standard and an index with a model. Its Lead is ignored.
	Semantic *fusion.Request
	// Progress, if set, is called while Semantic.Complete embeds texts.
	Progress func(done, total int)
}

// Result is the result of a search.
type Result struct {
	// Searched is the number of messages, summaries, and sessions that pass the
	// filters. Total is the number of them that match.
	Total    int   `json:"total" jsonschema:"matches before the limit"`
	Searched int   `json:"searched"`
	Hits     []Hit `json:"hits" jsonschema:"the best first"` // of equals the newest
	// Corrections are the terms that replaced query words that no document
	// contains, with analysis.Standard.
	Corrections []bm25.Correction `json:"corrections,omitempty"`
	// Meaning is what Query.Semantic contributed; nil without it.
	Meaning *fusion.Meaning `json:"meaning,omitempty" jsonschema:"whether the search was by meaning, or why not"`
}

// Hit is a message, a summary, or a session, as of the time when it was
// indexed. If its file was removed or replaced since, Snippet and the texts of
// the window are empty.
type Hit struct {
	ID        string  `json:"session"` // of the session
	File      string  `json:"file" op:"owner"`
	Agent     string  `json:"agent"`
	CreatedBy string  `json:"created_by" op:"owner"`
	Title     string  `json:"title"`
	Role      string  `json:"role"`
	Line      int64   `json:"line"` // in the file, from 1
	Score     float64 `json:"score"`
	// Fused is how the score was combined; nil if only words counted.
	Fused *fusion.Fused `json:"fused,omitempty" op:"owner"`
	// Snippet is the part of the text that matches best, at most 1 KiB.
	Snippet string     `json:"snippet"`
	Window  []Windowed `json:"window"`
}

// Windowed is a message in the window of a hit.
type Windowed struct {
	Line int64  `json:"line"`
	Role string `json:"role"`
	Text string `json:"text"` // at most 1 KiB; for a result only its tool and length
}

// Search returns the best matches. With analysis.Standard a message gets a
// neighbor boost for query words that it lacks; an answer gets the largest
// boost from its question. Search re-ranks the best [bm25.RerankLimit] hits by
// the distance of words in their texts. It replaces query words that no
// document contains: see [bm25.Correction]. Equal scores rank the newest
// message first: the session that was created last, and within a session the
// last message. The context is that of the request to the model, for
// Query.Semantic.
func (x *Index) Search(ctx context.Context, q Query) (*Result, error) {
	q.bound()
	m := x.mean(ctx, &q)
	limit := q.Limit
	if m.Query() != nil {
		limit = max(limit, fusion.Least)
	}
	v := viewer{index: x, files: make(map[string]vfs.File), calls: make(map[string]string)}
	defer v.close()
	ranked, err := x.ranked(&q, limit, &v)
	if err != nil {
		return nil, err
	}
	if m.Query() != nil {
		if err := x.fuse(&q, ranked, m); err != nil {
			return nil, err
		}
	}
	ranked.Meaning = m
	found := ranked.found[:min(len(ranked.found), q.Limit)]
	r := &ranked.Result
	r.Hits = make([]Hit, len(found))
	for i := range found {
		if !q.Bare {
			v.show(&found[i], ranked.explanations)
		}
		r.Hits[i] = found[i].Hit
	}
	return r, nil
}

// bound limits the numbers and texts of the query.
func (q *Query) bound() {
	if q.Limit <= 0 {
		q.Limit = defaultHits
	}
	q.Limit = min(q.Limit, MaxHits)
	if q.Window == 0 {
		q.Window = defaultWindow
	}
	q.Window = max(0, min(q.Window, MaxWindow))
	q.Text = clip.Bytes(q.Text, maxQuery)
	q.Agent, q.Sender = clip.Bytes(q.Agent, maxParty), clip.Bytes(q.Sender, maxParty)
	if q.Roles != nil {
		roles := make([]string, len(q.Roles))
		for i, role := range q.Roles {
			roles[i] = clip.Bytes(role, maxRole)
		}
		q.Roles = roles
	}
}

// filter returns the selection of documents of a query, and the number of
// selected documents. The caller holds mu while it uses the filter.
func (x *Index) filter(q *Query) (class uint8, pass func(id uint64) bool, searched int) {
	bySession := q.Agent != "" || q.Sender != "" || !q.Since.IsZero() || !q.Until.IsZero() || q.Created != nil || q.Workspace != nil
	class = math.MaxUint8
	if len(q.Roles) > 0 {
		class = 0
		for c, name := range classNames {
			if c != classOther && slices.Contains(q.Roles, name) {
				class |= 1 << c
			}
		}
	}
	// Roles without their own class are compared one by one.
	others := len(q.Roles) > 0 && x.counts[classOther] > 0
	if !bySession && !others {
		return class, nil, x.counts.of(class)
	}
	agent, sender := x.numbers[q.Agent], x.numbers[q.Sender]
	if q.Agent != "" && agent == 0 || q.Sender != "" && sender == 0 {
		return 0, nil, 0
	}
	byTime := !q.Since.IsZero() || !q.Until.IsZero()
	created := q.createdBy()
	sessions := make([]uint64, (len(x.entries)+63)/64)
	for ord, p := range x.parties {
		if p.agent == 0 || q.Agent != "" && p.agent != agent || q.Sender != "" && p.sender != sender {
			continue
		}
		e := x.entries[ord]
		if byTime && !q.within(e) || q.Workspace != nil && e.workspace != clip.Bytes(*q.Workspace, maxParty) || !created(p.sender, e.sender) {
			continue
		}
		sessions[ord>>6] |= 1 << (ord & 63)
		searched += e.counts.of(class)
		if others && e.counts[classOther] > 0 {
			for _, p := range e.places {
				if p.doc() && p.role >= classes && slices.Contains(q.Roles, roleName(p.role, e.others)) {
					searched++
				}
			}
		}
	}
	selected := func(ord uint64) bool { return sessions[ord>>6]>>(ord&63)&1 != 0 }
	if !others {
		return class, func(id uint64) bool { return selected(^id >> 32) }, searched
	}
	return class | 1<<classOther, func(id uint64) bool {
		ord, at := placeOf(id)
		if !selected(ord) {
			return false
		}
		if at >= 0 {
			e := x.entries[ord]
			if p := e.places[at]; p.role >= classes {
				return slices.Contains(q.Roles, roleName(p.role, e.others))
			}
		}
		return true
	}, searched
}

// createdBy returns a function that calls Created once for each number of a sender.
func (q *Query) createdBy() func(number uint32, by string) bool {
	if q.Created == nil {
		return func(uint32, string) bool { return true }
	}
	known := make(map[uint32]bool)
	return func(number uint32, by string) bool {
		pass, ok := known[number]
		if !ok {
			pass = q.Created(by)
			known[number] = pass
		}
		return pass
	}
}

// of returns how many documents are of a set of classes.
func (n *counts) of(class uint8) int {
	sum := 0
	for c, k := range n {
		if class>>c&1 != 0 {
			sum += k
		}
	}
	return sum
}

// within reports whether a session passes the filters by time.
func (q *Query) within(e *entry) bool {
	last := e.modified
	if !e.ended.IsZero() {
		last = e.ended
	}
	return (q.Since.IsZero() || !last.Before(q.Since)) &&
		(q.Until.IsZero() || !e.created.After(q.Until))
}

// describe returns the text for a hit that is a session.
func (e *entry) describe() string {
	parts := make([]string, 0, 3)
	for _, s := range []string{e.title, e.agent, e.sender} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return clip.Marked(strings.Join(parts, " · "), maxText)
}

// end returns the upper bound of the end of the record at a place.
func (e *entry) end(place int) int64 {
	if place+1 < len(e.places) {
		return e.places[place+1].offset
	}
	return e.size
}
