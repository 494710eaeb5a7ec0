package bm25_test

import (
	"strings"
	"testing"

	"crabmem/bench/corpus"
	"crabmem/bench/measure"
	"crabmem/bm25"
	"crabmem/bm25/analysis"
)

const benchDocs = 20_000

func benchIndex(b *testing.B, a analysis.Analyzer) (*bm25.Index, *corpus.Zipf) {
	z := corpus.NewZipf(1)
	docs := z.Docs(benchDocs)
	x := bm25.New(a)
	if err := x.Build(b.Context(), len(docs), func(i int) bm25.Doc {
		return bm25.Doc{ID: uint64(i), Fields: docs[i : i+1]}
	}); err != nil {
		b.Fatal(err)
	}
	return x, z
}

// cpuTimer starts to measure CPU time and returns a function that reports it. CPU
// time depends less on the load than wall-clock time does.
func cpuTimer(b *testing.B) (report func()) {
	start := measure.CPU()
	return func() { b.ReportMetric(float64(measure.CPU()-start)/float64(b.N), "cpu-ns/op") }
}

func BenchmarkSearch(b *testing.B) {
	x, z := benchIndex(b, analysis.Plain)
	queries := z.Queries(256)
	for _, c := range []struct {
		name string
		q    bm25.Query
	}{
		{"top10", bm25.Query{Limit: 10}},
		{"count", bm25.Query{Limit: 10, Count: true}},
		{"filter", bm25.Query{Limit: 10, Filter: func(id uint64) bool { return id&1 == 0 }}},
		{"all", bm25.Query{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			defer cpuTimer(b)()
			for i := 0; b.Loop(); i++ {
				c.q.Text = queries[i%len(queries)]
				x.Search(c.q)
			}
		})
	}
}

func BenchmarkSynthetic(b *testing.B) {
	x := bm25.New(analysis.Plain)
	for i := range benchDocs {
		x.Add(bm25.Doc{ID: uint64(i), Fields: []string{corpus.Synthetic(i)}})
	}
	defer cpuTimer(b)()
	for b.Loop() {
		x.Search(bm25.Query{Text: corpus.SyntheticQuery, Limit: 5})
	}
}

func BenchmarkChange(b *testing.B) {
	x, z := benchIndex(b, analysis.Plain)
	docs := z.Docs(4096)
	next := uint64(benchDocs)
	b.Run("insert", func(b *testing.B) {
		defer cpuTimer(b)()
		for b.Loop() {
			x.Add(bm25.Doc{ID: next, Fields: []string{docs[next%4096]}})
			next++
		}
	})
	b.Run("update", func(b *testing.B) {
		defer cpuTimer(b)()
		for i := uint64(0); b.Loop(); i++ {
			x.Add(bm25.Doc{ID: i * 31 % benchDocs, Fields: []string{docs[i%4096]}})
		}
	})
	b.Run("insert-remove", func(b *testing.B) {
		defer cpuTimer(b)()
		for b.Loop() {
			x.Add(bm25.Doc{ID: next, Fields: []string{docs[next%4096]}})
			x.Remove(next - 3000)
			next++
		}
	})
	b.Run("insert-search", func(b *testing.B) {
		defer cpuTimer(b)()
		queries := z.Queries(256)
		for b.Loop() {
			x.Add(bm25.Doc{ID: next, Fields: []string{docs[next%4096]}})
			x.Search(bm25.Query{Text: queries[next%256], Limit: 10})
			next++
		}
	})
}

func BenchmarkBuild(b *testing.B) {
	z := corpus.NewZipf(1)
	docs := z.Docs(benchDocs)
	size := 0
	mixed := make([]string, len(docs))
	for i, d := range docs {
		size += len(d)
		mixed[i] = "Naïve: " + strings.ToUpper(d[:len(d)/8]) + d[len(d)/8:]
	}
	for _, c := range []struct {
		name     string
		analyzer analysis.Analyzer
		docs     []string
	}{{"plain", analysis.Plain, docs}, {"plain-mixed-case", analysis.Plain, mixed}, {"standard", analysis.Standard, mixed}, {"standard-prose", analysis.Standard, docs}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(size))
			defer cpuTimer(b)()
			for b.Loop() {
				x := bm25.New(c.analyzer)
				if err := x.Build(b.Context(), len(docs), func(i int) bm25.Doc {
					return bm25.Doc{ID: uint64(i), Fields: c.docs[i : i+1]}
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
