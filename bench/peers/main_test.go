package main

import (
	"errors"
	"strings"
	"testing"

	"crabmem/bench/corpus"
	"crabmem/bench/measure"
)

// small returns a run on a small corpus.
func small() measure.Run {
	z := corpus.NewZipf(1)
	return measure.Run{Docs: z.Docs(300), Queries: z.Queries(20), K: 10, Log: func(string, ...any) {}}
}

func TestMissingEngine(t *testing.T) {
	missing := engine{name: "absent", install: "install it", command: func(string) ([]string, error) { return nil, errMissing }}
	for _, require := range []bool{false, true} {
		p := peers{engines: []engine{missing}, passes: 1, require: require}
		if err := p.run(&measure.Limits{}, small()); (err != nil) != require {
			t.Errorf("require %v: error %v", require, err)
		}
	}
}

func TestFailingEngine(t *testing.T) {
	failed := errors.New("failed")
	broken := engine{name: "broken", command: func(string) ([]string, error) { return nil, failed }}
	err := peers{engines: []engine{broken}, passes: 1}.run(&measure.Limits{}, small())
	if !errors.Is(err, failed) {
		t.Errorf("error %v, want %v", err, failed)
	}
}

func TestOverlap(t *testing.T) {
	r := small()
	for i, q := range r.Queries {
		r.Queries[i] = distinct(q)
	}
	x, err := buildCrabmem(r)
	if err != nil {
		t.Fatal(err)
	}
	hits := make([][]uint64, len(r.Queries))
	for i, q := range r.Queries {
		for _, h := range x.top(q, r.K) {
			hits[i] = append(hits[i], h.ID)
		}
	}
	if share, err := x.overlap(r, hits); err != nil || share != 1 {
		t.Errorf("own hits: overlap %v, %v", share, err)
	}
	for i := range hits {
		hits[i] = hits[i][:len(hits[i])/2]
	}
	if _, err := x.overlap(r, hits); err == nil || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("half of the hits: error %v", err)
	}
}
