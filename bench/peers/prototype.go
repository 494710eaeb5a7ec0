package main

import (
	"math"
	"slices"
	"strings"
	"time"

	"crabmem/bench/measure"
)

// prototype is the layout of package bm25 without all that a product needs: no exact
// scores, no order of ties, no filters, no counts, and no changes. Its time is the
// target for package bm25.
type prototype struct {
	terms    map[string]int
	segments []protoSegment
	idf      []float32
	norms    [1 << 16]float32 // by code
	scores   [1 << 16]float32
	lists    []protoList
	top      []protoHit // a heap with the worst hit on top
	best     []time.Duration
}

// A protoSegment contains the postings of 65,536 documents: the document in docs, and
// 4 bits of term frequency and 12 bits of document length in codes.
type protoSegment struct {
	start       []uint32 // by term, and one more
	docs, codes []uint16
}

type protoList struct {
	docs, codes []uint16
	idf         float32
}

type protoHit struct {
	score float32
	id    uint32
}

func newPrototype(docs []string) *prototype {
	const size = 1 << 16
	p := &prototype{terms: map[string]int{}}
	var df []int
	total := 0
	for from := 0; from < len(docs); from += size {
		type posting struct{ doc, tf, dl uint16 }
		var lists [][]posting
		for d, text := range docs[from:min(from+size, len(docs))] {
			words := strings.Fields(text)
			total += len(words)
			for _, w := range words {
				t, ok := p.terms[w]
				if !ok {
					t = len(p.terms)
					p.terms[w] = t
					df = append(df, 0)
				}
				if t >= len(lists) {
					lists = append(lists, make([][]posting, t+1-len(lists))...)
				}
				l := lists[t]
				if n := len(l); n > 0 && int(l[n-1].doc) == d {
					l[n-1].tf = min(l[n-1].tf+1, 15)
					continue
				}
				lists[t] = append(l, posting{uint16(d), 1, uint16(min(len(words), 1<<12-1))})
				df[t]++
			}
		}
		s := protoSegment{start: []uint32{0}}
		for _, l := range lists {
			for _, posting := range l {
				s.docs = append(s.docs, posting.doc)
				s.codes = append(s.codes, posting.tf<<12|posting.dl)
			}
			s.start = append(s.start, uint32(len(s.docs)))
		}
		p.segments = append(p.segments, s)
	}
	n, avgdl := float64(len(docs)), float64(total)/float64(len(docs))
	for _, n1 := range df {
		p.idf = append(p.idf, float32(math.Log((n-float64(n1)+0.5)/(float64(n1)+0.5)+1)))
	}
	for c := range p.norms {
		tf, dl := float64(c>>12), float64(c&(1<<12-1))
		p.norms[c] = float32(tf * (1.2 + 1) / (tf + 1.2*(1-0.75+0.75*dl/avgdl)))
	}
	return p
}

// search returns the IDs of the best k documents, the best first.
func (p *prototype) search(query string, k int) []uint64 {
	p.top = p.top[:0]
	floor := float32(math.SmallestNonzeroFloat32)
	for i := range p.segments {
		s := &p.segments[i]
		p.lists = p.lists[:0]
		for w := range strings.FieldsSeq(query) {
			if t, ok := p.terms[w]; ok && t+1 < len(s.start) && s.start[t] < s.start[t+1] {
				from, to := s.start[t], s.start[t+1]
				p.lists = append(p.lists, protoList{s.docs[from:to], s.codes[from:to], p.idf[t]})
			}
		}
		if len(p.lists) == 0 {
			continue
		}
		slices.SortFunc(p.lists, func(a, b protoList) int { return len(a.docs) - len(b.docs) })
		last := len(p.lists) - 1
		for _, l := range p.lists[:last] {
			codes := l.codes[:len(l.docs)]
			for i, d := range l.docs {
				p.scores[d] += l.idf * p.norms[codes[i]]
			}
		}
		l := p.lists[last]
		codes := l.codes[:len(l.docs)]
		for j, d := range l.docs {
			v := p.scores[d] + l.idf*p.norms[codes[j]]
			p.scores[d] = 0
			if v > floor {
				floor = p.push(protoHit{v, uint32(i)<<16 | uint32(d)}, k)
			}
		}
		for _, l := range p.lists[:last] {
			for _, d := range l.docs {
				v := p.scores[d]
				p.scores[d] = 0
				if v > floor {
					floor = p.push(protoHit{v, uint32(i)<<16 | uint32(d)}, k)
				}
			}
		}
	}
	slices.SortFunc(p.top, func(a, b protoHit) int {
		if a.score != b.score {
			if a.score > b.score {
				return -1
			}
			return 1
		}
		return int(a.id) - int(b.id)
	})
	ids := make([]uint64, len(p.top))
	for i, h := range p.top {
		ids[i] = uint64(h.id)
	}
	return ids
}

// push adds a hit and returns the score that the next one must exceed.
func (p *prototype) push(h protoHit, k int) float32 {
	if len(p.top) < k {
		p.top = append(p.top, h)
		for i := len(p.top) - 1; i > 0 && p.top[i].score < p.top[(i-1)/2].score; i = (i - 1) / 2 {
			p.top[i], p.top[(i-1)/2] = p.top[(i-1)/2], p.top[i]
		}
		if len(p.top) < k {
			return math.SmallestNonzeroFloat32
		}
		return p.top[0].score
	}
	p.top[0] = h
	for i := 0; ; {
		c := 2*i + 1
		if c+1 < k && p.top[c+1].score < p.top[c].score {
			c++
		}
		if c >= k || p.top[i].score <= p.top[c].score {
			return p.top[0].score
		}
		p.top[i], p.top[c] = p.top[c], p.top[i]
		i = c
	}
}

// run runs a pass over the queries.
func (p *prototype) run(r measure.Run) {
	took := make([]time.Duration, len(r.Queries))
	for i, q := range r.Queries {
		start := time.Now()
		p.search(q, r.K)
		took[i] = time.Since(start)
	}
	p.best = measure.LeastOf(p.best, took)
}
