package bm25_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/fuzz/race"

	"github.com/google/go-cmp/cmp"
)

// TestEscapes checks that frequencies and lengths beyond the range of a posting's
// code are exact in the tail, in a segment, and in a merged segment.
func TestEscapes(t *testing.T) {
	type doc struct{ tf, dl int }
	docs := []doc{{14, 14}, {15, 15}, {16, 4095}, {1, 4095}, {1, 4096}, {14, 5000}, {200, 5000}, {70_000, 80_000}, {1, 10}, {2, 10}}
	length := 0
	for _, d := range docs {
		length += d.dl
	}
	idf := math.Log((0+0.5)/(float64(len(docs))+0.5) + 1)
	check := func(what string, x *bm25.Index) {
		t.Helper()
		hits := x.Search(bm25.Query{Text: "needle"}).Hits
		if len(hits) != len(docs) {
			t.Fatalf("%s: %d hits, want %d", what, len(hits), len(docs))
		}
		for _, h := range hits {
			d := docs[h.ID]
			avgdl := float64(length) / float64(len(docs))
			tf := float64(d.tf)
			want := idf * (tf * 2.2 / (tf + 1.2*(0.25+0.75*float64(d.dl)/avgdl)))
			if math.Abs(h.Score-want) > 1e-12 {
				t.Errorf("%s: tf %d, length %d scores %v, want %v", what, d.tf, d.dl, h.Score, want)
			}
			if e, _ := x.Explain(bm25.Query{Text: "needle"}, h.ID); e.Len != d.dl || e.Terms[0].TF != d.tf || e.Score != h.Score {
				t.Errorf("%s: explained as %+v", what, e)
			}
		}
	}
	write := func(i int) bm25.Doc {
		return bm25.Doc{ID: uint64(i), Fields: []string{strings.Repeat("needle ", docs[i].tf) + strings.Repeat("hay ", docs[i].dl-docs[i].tf)}}
	}
	tail := bm25.New(analysis.Plain)
	for i := range docs {
		tail.Add(write(i))
	}
	check("tail", tail)
	built := bm25.New(analysis.Plain)
	if err := built.Build(t.Context(), len(docs), write); err != nil {
		t.Fatal(err)
	}
	check("built", built)
	bm25.SetTailDocs(t, 1)
	merged := bm25.New(analysis.Plain)
	for i := range docs {
		merged.Add(write(i))
	}
	for i := range 100 { // drive the merges
		merged.Add(bm25.Doc{ID: 100 + uint64(i)})
		merged.Remove(100 + uint64(i))
	}
	if n := merged.Stats().Segments; n > 6 {
		t.Errorf("%d segments after the merges, want at most 6", n)
	}
	check("merged", merged)
}

// TestManyDocuments adds more documents than a segment can contain, in bulk and one
// by one.
func TestManyDocuments(t *testing.T) {
	race.Skip(t)
	const n = 150_000
	doc := func(i int) bm25.Doc {
		return bm25.Doc{ID: uint64(i), Fields: []string{fmt.Sprintf("word%d word%d common", i%1000, i%777)}}
	}
	built, added := bm25.New(analysis.Plain), bm25.New(analysis.Plain)
	if err := built.Build(t.Context(), n, doc); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		added.Add(doc(i))
	}
	for name, x := range map[string]*bm25.Index{"built": built, "added": added} {
		st := x.Stats()
		if x.Len() != n || st.Docs != n || st.Terms != 1001 || st.Segments < 3 || st.Segments > 20 {
			t.Errorf("%s: %d documents, %+v", name, x.Len(), st)
		}
		for _, c := range []struct {
			query string
			total int
		}{{"word5", 150 + 193 - 1}, {"common", n}, {"word999", 150}} {
			r := x.Search(bm25.Query{Text: c.query, Limit: 3, Count: true})
			if c.query == "word5" {
				c.total = 0
				for i := range n {
					if i%1000 == 5 || i%777 == 5 {
						c.total++
					}
				}
			}
			if r.Total != c.total || len(r.Hits) != 3 {
				t.Errorf("%s: %q: %d of %d matches, want %d", name, c.query, len(r.Hits), r.Total, c.total)
			}
		}
	}
	for i := 0; i < n; i += 1000 {
		q := bm25.Query{Text: fmt.Sprintf("word%d word%d", i%1000, i%777), Limit: 5}
		if diff := cmp.Diff(built.Search(q), added.Search(q)); diff != "" {
			t.Fatalf("%q: built and added differ:\n%s", q.Text, diff)
		}
	}
}

// TestBuildWithEmptyDocuments has documents without terms at every position
// where a worker may begin or end.
func TestBuildWithEmptyDocuments(t *testing.T) {
	const n = 4096
	for _, empty := range []int{2, 511, 512, 513} {
		doc := func(i int) bm25.Doc {
			d := bm25.Doc{ID: uint64(i), Class: uint8(i % 8)}
			if i%empty != 0 && i%empty != empty-1 || i%5 == 4 {
				d.Fields = []string{fmt.Sprintf("word%d common", i)}
			}
			return d
		}
		built, added := bm25.New(analysis.Plain), bm25.New(analysis.Plain)
		if err := built.Build(t.Context(), n, doc); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			added.Add(doc(i))
		}
		for _, q := range []bm25.Query{{Text: "common"}, {Text: "common", Classes: 2}, {Text: "word509 word511 word512 word1021 word4092"}} {
			if diff := cmp.Diff(built.Search(q), added.Search(q)); diff != "" {
				t.Fatalf("%d: %q: built and added differ:\n%s", empty, q.Text, diff)
			}
		}
	}
}

// TestLongDocumentReleasesMemory checks that an index frees the memory that a very
// long document took, with few terms and with very many.
func TestLongDocumentReleasesMemory(t *testing.T) {
	race.Skip(t)
	var many strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&many, "%x ", 16+i)
	}
	texts := map[string]string{
		"few terms":      strings.Repeat("some words ", 4<<20/11),
		"few terms, CJK": strings.Repeat("記憶", 1<<20/6),
		"many terms":     many.String(),
	}
	for _, a := range []analysis.Analyzer{analysis.Plain, analysis.Standard} {
		for name, text := range texts {
			known := bm25.New(a)
			add := func(id uint64, text string) int64 {
				known.Add(bm25.Doc{ID: id, Fields: []string{text}})
				return known.Stats().Bytes
			}
			before := add(1, "short")
			after := add(2, text)
			known.Remove(2)
			for id := range uint64(2100) { // the tail is frozen
				after = add(3+id, "short")
			}
			t.Logf("%v, %s: %d bytes before, %d after", a, name, before, after)
			most := int64(4 << 20)
			if name == "many terms" {
				most += 200_000 * 90 // of the vocabulary
			}
			if after-before > most {
				t.Errorf("%v, %s: %d bytes not released", a, name, after-before)
			}
		}
	}
}

func TestBuildErrors(t *testing.T) {
	race.Skip(t)
	doc := func(i int) bm25.Doc { return bm25.Doc{ID: uint64(i), Fields: []string{"some text"}} }
	x := bm25.New(analysis.Plain)
	ctx, cancel := context.WithCancel(t.Context())
	err := x.Build(ctx, 100_000, func(i int) bm25.Doc {
		if i == 5000 {
			cancel()
		}
		return doc(i)
	})
	if err != context.Canceled || x.Len() != 0 || len(x.Search(bm25.Query{Text: "text"}).Hits) != 0 {
		t.Errorf("canceled build: %v, %d documents", err, x.Len())
	}
	err = x.Build(t.Context(), 3000, func(i int) bm25.Doc { return doc(i % 2999) })
	if err == nil || x.Len() != 0 {
		t.Errorf("build with an ID given twice: %v, %d documents", err, x.Len())
	}
	for _, n := range []int{2, 3000, 40_000} { // one document per ID and one more, in ascending order
		for _, twice := range []int{1, n / 2, n - 1} {
			err := x.Build(t.Context(), n, func(i int) bm25.Doc {
				if i >= twice {
					i--
				}
				return doc(i + 1)
			})
			if want := fmt.Sprintf("duplicate document %d", twice); err == nil || err.Error() != want || x.Len() != 0 {
				t.Errorf("build of %d documents: %v, %d documents; want %q and 0", n, err, x.Len(), want)
			}
		}
	}
	if err := x.Build(t.Context(), 3000, func(i int) bm25.Doc { return doc(3000 - i) }); err != nil || x.Len() != 3000 {
		t.Errorf("build in descending order: %v, %d documents", err, x.Len())
	}
	if !x.Remove(3000) || x.Remove(0) || x.Remove(3000) {
		t.Error("documents built in descending order are confused")
	}
	if err := x.Build(t.Context(), 1, doc); err == nil {
		t.Error("build into an index with documents is accepted")
	}
}

// TestConcurrentSearches searches while other goroutines add and remove documents.
// A document that stays is always a hit, and each score agrees with one state of
// the index.
func TestConcurrentSearches(t *testing.T) {
	bm25.SetTailDocs(t, 64)
	x := bm25.New(analysis.Plain)
	for i := range 500 {
		x.Add(bm25.Doc{ID: uint64(i), Fields: []string{"needle in some hay"}})
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				r := x.Search(bm25.Query{Text: "needle hay", Limit: 10, Count: true, Filter: func(id uint64) bool { return id < 500 }})
				if r.Total != 500 || len(r.Hits) != 10 || r.Hits[0].ID != 0 || r.Hits[9].ID != 9 || r.Hits[0].Score != r.Hits[9].Score {
					t.Errorf("found %d of %d: %v", len(r.Hits), r.Total, r.Hits)
					return
				}
				x.Explain(bm25.Query{Text: "needle"}, 1000)
				x.Stats()
			}
		})
	}
	for i := range 3000 {
		x.Add(bm25.Doc{ID: 1000 + uint64(i%700), Fields: []string{strings.Repeat("needle ", i%20) + "hay"}})
		if i%3 == 0 {
			x.Remove(1000 + uint64(i%500))
		}
	}
	close(done)
	wg.Wait()
}

// TestNewCode makes a change that adds a new pair of frequency and length but does
// not change the mean length.
func TestNewCode(t *testing.T) {
	x := bm25.New(analysis.Plain)
	x.Add(bm25.Doc{ID: 1, Fields: []string{"red green blue"}})
	x.Search(bm25.Query{Text: "red"})
	x.Add(bm25.Doc{ID: 2, Fields: []string{"red red red"}})
	hits := x.Search(bm25.Query{Text: "red"}).Hits
	if e, _ := x.Explain(bm25.Query{Text: "red"}, 2); len(hits) != 2 || hits[0] != (bm25.Hit{ID: 2, Score: e.Score}) {
		t.Errorf("found %v, explained %+v", hits, e)
	}
}

// TestLexerReleasesBuffers checks that the lexer keeps the buffers of a document of
// 4 MB and frees those of a longer one. Spaces need only a copy, whose memory the
// runtime rounds up to pages.
func TestLexerReleasesBuffers(t *testing.T) {
	for _, c := range []struct {
		size int
		kept bool
	}{{4<<20 - 100, true}, {4<<20 + 100, false}} {
		x := bm25.New(analysis.Plain)
		x.Add(bm25.Doc{ID: 1, Fields: []string{strings.Repeat(" ", c.size)}})
		if n := x.Stats().Bytes; n >= 4<<20 != c.kept {
			t.Errorf("index keeps %d bytes for a document of %d", n, c.size)
		}
	}
}
