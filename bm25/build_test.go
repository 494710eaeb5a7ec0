package bm25

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"crabmem/bm25/analysis"
)

// setProcs sets GOMAXPROCS until the test ends.
func setProcs(t *testing.T, n int) {
	old := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(old) })
}

// TestBuildWorkers builds with three workers. Each reads at least one block.
func TestBuildWorkers(t *testing.T) {
	setProcs(t, 3)
	for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
		synctest.Test(t, func(t *testing.T) {
			var reading sync.WaitGroup
			reading.Add(3)
			m := newMirror(t, a)
			docs := make([]Doc, 3*512)
			for i := range docs {
				docs[i] = Doc{ID: uint64(i * 5 % 1536), Class: uint8(i), Fields: []string{fmt.Sprintf("common of%d running%d getUserName", i/7, i%40), strings.Repeat("more ", i%17)}}
				if i%11 == 0 {
					docs[i].Fields = nil
				}
				m.store(docs[i])
			}
			if err := m.x.Build(t.Context(), len(docs), func(i int) Doc {
				if i%512 == 0 {
					reading.Done()
					reading.Wait()
				}
				return docs[i]
			}); err != nil {
				t.Fatal(err)
			}
			m.check()
		})
	}
	if n := runtime.GOMAXPROCS(0); n != 3 {
		t.Errorf("Build sets GOMAXPROCS to %d", n)
	}
}

// TestBuildSegments checks the sizes of the segments for numbers of cores and
// documents.
func TestBuildSegments(t *testing.T) {
	for _, c := range []struct {
		procs, docs int
		want        []int
	}{
		{1, 0, nil}, {1, 1, []int{1}}, {1, 513, []int{513}}, {1, 1 << 16, []int{1 << 16}}, {1, 1<<16 + 1, []int{32769, 32768}},
		{1, 1 << 17, []int{1 << 16, 1 << 16}}, {1, 1<<17 + 1, []int{43691, 43691, 43691}},
		{2, 32767, []int{32767}}, {2, 32768, []int{16384, 16384}}, {2, 32769, []int{16385, 16384}}, {2, 1<<17 + 1, []int{43691, 43691, 43691}},
		{3, 49151, []int{24576, 24575}}, {3, 49152, []int{16384, 16384, 16384}},
	} {
		setProcs(t, c.procs)
		x := New(analysis.Plain)
		if err := x.Build(t.Context(), c.docs, func(i int) Doc { return Doc{ID: uint64(i + 1)} }); err != nil {
			t.Fatal(err)
		}
		var got []int
		next := uint64(1)
		for _, s := range x.segments {
			got = append(got, len(s.ids))
			for _, id := range s.ids {
				if id != next {
					t.Fatalf("%d cores, %d documents: document %d is in place of %d", c.procs, c.docs, id, next)
				}
				next++
			}
		}
		if !slices.Equal(got, c.want) || x.live != c.docs || x.lengths.counted != 0 {
			t.Errorf("%d cores, %d documents: segments of %v, want %v; %d documents, %d with terms", c.procs, c.docs, got, c.want, x.live, x.lengths.counted)
		}
	}
}

// TestBuildIntoUsedIndex builds into an index that contained documents, and into one
// whose first build was canceled after a segment. Both equal a new index.
func TestBuildIntoUsedIndex(t *testing.T) {
	setProcs(t, 1)
	SetTailDocs(t, 4)
	build := func(x *Index) (Stats, int) {
		if err := x.Build(t.Context(), 600, func(i int) Doc { return Doc{ID: uint64(i), Fields: []string{fmt.Sprint("word number", i)}} }); err != nil {
			t.Fatal(err)
		}
		return x.Stats(), x.Terms()
	}
	want, terms := build(New(analysis.Standard))
	used := New(analysis.Standard)
	for i := range uint64(7) {
		used.Add(Doc{ID: i, Fields: []string{fmt.Sprint("other text", i)}})
	}
	for i := range uint64(7) {
		used.Remove(i)
	}
	if len(used.tail.ids) == 0 {
		t.Fatal("the tail is empty")
	}
	if got, n := build(used); n != terms || got != want {
		t.Errorf("used index: %+v, %d terms; want %+v, %d", got, n, want, terms)
	}
	canceled := New(analysis.Standard)
	ctx, cancel := context.WithCancel(t.Context())
	err := canceled.Build(ctx, 70_000, func(i int) Doc {
		if i == 69_000 {
			cancel()
		}
		return Doc{ID: uint64(i), Fields: []string{"word"}[:min(i, 1)]}
	})
	if st := canceled.Stats(); err != context.Canceled || st.Docs+st.Terms+st.Postings+st.Segments != 0 || canceled.Terms() != 0 {
		t.Errorf("canceled: %v, %+v, %d terms", err, st, canceled.Terms())
	}
	if got, _ := build(canceled); got.Docs != want.Docs || got.Terms != want.Terms || got.Postings != want.Postings || got.Segments != want.Segments {
		t.Errorf("canceled index: %+v, want %+v", got, want)
	}
}

// TestBuildIntoIndexWithDocument checks that one document prevents a build.
func TestBuildIntoIndexWithDocument(t *testing.T) {
	x := newIndex("word")
	const want = "build index: it contains 1 documents: use a new index"
	if err := x.Build(t.Context(), 1, func(int) Doc { return Doc{ID: 2} }); err == nil || err.Error() != want || x.live != 1 {
		t.Errorf("%v, %d documents, want %s", err, x.live, want)
	}
}

// TestClear checks each field of an emptied index.
func TestClear(t *testing.T) {
	SetTailDocs(t, 2)
	x := New(analysis.Plain)
	for i := range uint64(7) {
		x.Add(Doc{ID: i, Fields: []string{"other text"}})
	}
	x.merge, x.removed = &merge{}, 5
	x.clear()
	if x.live != 0 || x.lengths.counted != 0 || x.lengths.length != 0 || x.removed != 0 || x.df != nil || x.segments != nil || x.merge != nil {
		t.Errorf("%d documents, %d with terms, length %d, %d removed postings, %d terms, %d segments, merge %v", x.live, x.lengths.counted, x.lengths.length, x.removed, len(x.df), len(x.segments), x.merge)
	}
	if !reflect.DeepEqual(x.tail, tail{}) || x.Terms() != New(analysis.Plain).Terms() {
		t.Errorf("tail %+v, %d terms", x.tail, x.Terms())
	}
}

// TestBuildFreesMemory checks that Build frees the memory that the lexer and df
// reserve.
func TestBuildFreesMemory(t *testing.T) {
	x := New(analysis.Standard)
	docs := []Doc{{ID: 1, Fields: []string{strings.Repeat(" ", 5<<20)}}, {ID: 2}}
	for i := range 333 {
		docs[1].Fields = append(docs[1].Fields, fmt.Sprintf("word%d getUserName%d", i, i))
	}
	if err := x.Build(t.Context(), 2, func(i int) Doc { return docs[i] }); err != nil {
		t.Fatal(err)
	}
	before := x.lexer.Bytes()
	if x.lexer.Rest(); x.lexer.Bytes() != before {
		t.Errorf("the lexer keeps buffers of %d bytes", before)
	}
	if x.lexer.Clip(); x.lexer.Bytes() != before {
		t.Errorf("the lexer takes %d bytes, %d without reserves", before, x.lexer.Bytes())
	}
	if len(x.df) != cap(x.df) || x.Stats().Bytes > 1<<20 {
		t.Errorf("%d terms in a list of %d, %d bytes", len(x.df), cap(x.df), x.Stats().Bytes)
	}
}

// TestBuildWithoutForms builds with one worker from a document of an unspaced
// script, which has no word forms. The lexer takes as much memory as one that only
// reads the document.
func TestBuildWithoutForms(t *testing.T) {
	var text []rune
	for i := range rune(1000) {
		text = append(text, '一'+i)
	}
	doc := Doc{ID: 1, Fields: []string{string(text)}}
	x, l := New(analysis.Standard), analysis.NewLexer(analysis.Standard)
	if err := x.Build(t.Context(), 1, func(int) Doc { return doc }); err != nil {
		t.Fatal(err)
	}
	l.Lex(doc.Fields)
	l.Clip()
	if got, want := x.lexer.Bytes(), l.Bytes(); got != want {
		t.Errorf("the lexer takes %d bytes, want %d", got, want)
	}
}

// TestWorkerPositions reads blocks after up to 2^31 entries. Then a worker counts
// entries from 0 again.
func TestWorkerPositions(t *testing.T) {
	docs := []Doc{{ID: 3, Class: 9, Fields: []string{"one two two"}}, {ID: 4, Fields: []string{"two three"}}}
	for base, want := range map[uint32]uint32{0: 4, 5: 9, 1 << 31: 1<<31 + 4, 1<<31 + 1: 4} {
		w := &worker{lexer: analysis.NewLexer(analysis.Plain), base: base, seen: make([]uint32, 300)}
		for i := range w.seen {
			w.seen[i] = base // the latest entry of each term
		}
		d := &draft{blocks: make([]block, 1), counts: make([]uint32, 2), lens: make([]uint32, 2)}
		d.ids, d.class = make([]uint64, 2), make([]uint8, 2)
		w.read(d, 0, 0, 2, func(i int) Doc { return docs[i] })
		var got []uint32
		for _, e := range d.blocks[0].entries {
			got = append(got, e.tf)
		}
		if w.base != want || !slices.Equal(got, []uint32{1, 2, 1, 1}) || !slices.Equal(d.counts, []uint32{2, 2}) || !slices.Equal(d.lens, []uint32{3, 2}) ||
			!slices.Equal(d.ids, []uint64{3, 4}) || !slices.Equal(d.class, []uint8{1, 0}) {
			t.Errorf("after %d entries: base %d, want %d; frequencies %v, %+v", base, w.base, want, got, d)
		}
		if last := w.seen[299]; base > 1<<31 && last != 0 || base <= 1<<31 && last != base {
			t.Errorf("after %d entries: the latest entry of another term is %d", base, last)
		}
	}
}
