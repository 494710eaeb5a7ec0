package bm25_test

import (
	"bytes"
	"io"
	"testing"

	"crabmem/bench/corpus"
	"crabmem/bench/measure"
	"crabmem/bm25"
	"crabmem/bm25/analysis"
)

// storedBench returns an index of the Zipf corpus and the size of its texts.
func storedBench(b *testing.B, a analysis.Analyzer, n int) (x *bm25.Index, z *corpus.Zipf, size int) {
	z = corpus.NewZipf(1)
	docs := z.Docs(n)
	for _, d := range docs {
		size += len(d)
	}
	x = bm25.New(a)
	if err := x.Build(b.Context(), n, func(i int) bm25.Doc { return bm25.Doc{ID: uint64(i), Fields: docs[i : i+1]} }); err != nil {
		b.Fatal(err)
	}
	return x, z, size
}

// BenchmarkWriteTo reports the size of a stored index as a share of the texts, too.
func BenchmarkWriteTo(b *testing.B) {
	for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
		b.Run(a.String(), func(b *testing.B) {
			x, _, size := storedBench(b, a, 100_000)
			least := cpuTimes{}
			for b.Loop() {
				least.time(func() {
					n, err := x.WriteTo(io.Discard)
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(100*float64(n)/float64(size), "%-of-text")
					b.ReportMetric(float64(n)/float64(x.Stats().Postings), "bytes/posting")
				})
			}
			b.ReportMetric(least.least, "least-cpu-ms")
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
		b.Run(a.String(), func(b *testing.B) {
			x, _, _ := storedBench(b, a, 100_000)
			data := write(b, x)
			least := cpuTimes{}
			for b.Loop() {
				least.time(func() {
					if _, err := bm25.Load(b.Context(), bytes.NewReader(data), int64(len(data)), a); err != nil {
						b.Fatal(err)
					}
				})
			}
			b.ReportMetric(least.least, "least-cpu-ms")
		})
	}
}

// cpuTimes keeps the least CPU time of passes, in milliseconds.
type cpuTimes struct{ least float64 }

func (c *cpuTimes) time(f func()) {
	start := measure.CPU()
	f()
	if ms := float64(measure.CPU()-start) / 1e6; c.least == 0 || ms < c.least {
		c.least = ms
	}
}

// BenchmarkOpenSearch opens an index and searches once, as a process does that ends
// then. It reports the blocks of 64 KiB that it reads.
func BenchmarkOpenSearch(b *testing.B) {
	x, z, _ := storedBench(b, analysis.Standard, 100_000)
	data := write(b, x)
	queries := z.Queries(64)
	for _, c := range []struct {
		name string
		text func(i int) string
	}{
		{"words", func(i int) string { return queries[i%64] }},
		{"typo", func(i int) string { return queries[i%64] + " streatea" }},
	} {
		b.Run(c.name, func(b *testing.B) {
			least, blocks, i := cpuTimes{}, 0, 0
			for b.Loop() {
				r := &blockReader{r: bytes.NewReader(data), seen: map[int64]bool{}}
				least.time(func() {
					x, err := bm25.Open(r, int64(len(data)), analysis.Standard)
					if err != nil {
						b.Fatal(err)
					}
					x.Search(bm25.Query{Text: c.text(i), Limit: 10, Correct: true})
				})
				blocks += len(r.seen)
				i++
			}
			b.ReportMetric(float64(blocks)/float64(i), "blocks")
			b.ReportMetric(float64(len(data)>>16), "all-blocks")
			b.ReportMetric(least.least, "least-cpu-ms")
		})
	}
}

// A blockReader counts the blocks of 64 KiB that are read.
type blockReader struct {
	r    io.ReaderAt
	seen map[int64]bool
}

func (r *blockReader) ReadAt(b []byte, at int64) (int, error) {
	for block := at >> 16; block <= (at+int64(len(b))-1)>>16; block++ {
		r.seen[block] = true
	}
	return r.r.ReadAt(b, at)
}
