package main

import (
	"fmt"
	"slices"
	"time"

	"crabmem/bench/measure"
	"crabmem/bm25"
)

// crabmem is package bm25 with the plain analyzer.
type crabmem struct {
	index *bm25.Index
	build time.Duration
	best  []time.Duration
}

// buildCrabmem builds the index. It returns an error if a result list differs from a
// brute force over the words of the texts.
func buildCrabmem(r measure.Run) (*crabmem, error) {
	e, err := measure.NewIndex()
	if err != nil {
		return nil, err
	}
	start := measure.CPU()
	if err := e.Build(r.Docs); err != nil {
		return nil, err
	}
	x := &crabmem{index: e.(*measure.Index).Index, build: measure.CPU() - start}
	return x, measure.Check(x.index, r.Docs, r.Queries, r.K)
}

// top returns the best k hits of a query.
func (x *crabmem) top(query string, k int) []bm25.Hit {
	return x.index.Search(bm25.Query{Text: query, Limit: k}).Hits
}

// search runs a pass over the queries.
func (x *crabmem) search(r measure.Run) {
	took := make([]time.Duration, len(r.Queries))
	for i, q := range r.Queries {
		start := time.Now()
		x.top(q, r.K)
		took[i] = time.Since(start)
	}
	x.best = measure.LeastOf(x.best, took)
}

func (x *crabmem) result() result {
	return result{name: "crabmem", Version: "this", Build: x.build, Best: x.best, overlap: 1}
}

// overlap returns the mean share of hits whose score in crabmem is at least the score
// of the K-th hit. It returns an error if the share is less than leastOverlap.
func (x *crabmem) overlap(r measure.Run, hits [][]uint64) (float64, error) {
	const equal = 1e-6 // maximum difference of equal scores
	sum, queries := 0.0, 0
	for i, q := range r.Queries {
		want := x.top(q, 10*r.K)
		if len(want) == 0 {
			continue
		}
		queries++
		k := min(r.K, len(want))
		limit := want[k-1].Score - equal
		n := 0
		for _, id := range hits[i] {
			if slices.ContainsFunc(want, func(h bm25.Hit) bool { return h.ID == id && h.Score >= limit }) {
				n++
			}
		}
		sum += float64(min(n, k)) / float64(k)
	}
	share := sum / float64(queries)
	if share < leastOverlap {
		return 0, fmt.Errorf("overlap %.3f is less than %.2f", share, leastOverlap)
	}
	return share, nil
}
