package bm25

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"crabmem/bm25/analysis"
)

// TestAscending checks when the IDs of segments ascend strictly.
func TestAscending(t *testing.T) {
	for _, c := range []struct {
		segments [][]uint64
		want     bool
	}{
		{nil, true}, {[][]uint64{{}, {}}, true}, {[][]uint64{{0}}, true}, {[][]uint64{{0, 1}}, true}, {[][]uint64{{0, 0}}, false}, {[][]uint64{{1, 0}}, false},
		{[][]uint64{{5, 6}, {}, {7}}, true}, {[][]uint64{{5, 6}, {6}}, false}, {[][]uint64{{5, 6}, {5}}, false}, {[][]uint64{{6}, {5}}, false}, {[][]uint64{{1<<64 - 1}}, true},
	} {
		x := New(analysis.Plain)
		for _, ids := range c.segments {
			x.segments = append(x.segments, &segment{docTable: docTable{ids: ids}})
		}
		if got := x.ascending(); got != c.want {
			t.Errorf("%v: %v", c.segments, got)
		}
	}
}

// TestBuildStops checks that a build of one worker stops after the block in which
// its context ends.
func TestBuildStops(t *testing.T) {
	setProcs(t, 1)
	for last, want := range map[int]int{-1: 0, 0: 512, 511: 512, 512: 1024, 1023: 1024} {
		ctx, cancel := context.WithCancel(t.Context())
		if last < 0 {
			cancel()
		}
		calls := 0
		err := New(analysis.Plain).Build(ctx, 3000, func(i int) Doc {
			if calls++; i == last {
				cancel()
			}
			return Doc{ID: uint64(i)}
		})
		if err != context.Canceled || calls != want {
			t.Errorf("canceled in document %d: %d documents are read, want %d: %v", last, calls, want, err)
		}
	}
}

// TestBuildUniqueWords builds with two workers. Each adds many words to its own dict.
func TestBuildUniqueWords(t *testing.T) {
	setProcs(t, 2)
	const docs, words = 2048, 20
	x := New(analysis.Plain)
	if err := x.Build(t.Context(), docs, func(i int) Doc {
		d := Doc{ID: uint64(i)}
		for n := range words {
			d.Fields = append(d.Fields, fmt.Sprint("word", i*words+n))
		}
		return d
	}); err != nil {
		t.Fatal(err)
	}
	if st := x.Stats(); st.Terms != docs*words || st.Postings != docs*words || x.lengths.length != docs*words {
		t.Errorf("%+v, length %d, want %d terms", st, x.lengths.length, docs*words)
	}
	for i := 0; i < docs*words; i += 101 {
		if r := x.Search(Query{Text: fmt.Sprint("word", i)}); len(r.Hits) != 1 || r.Hits[0].ID != uint64(i/words) {
			t.Fatalf("word %d is in %d documents", i, len(r.Hits))
		}
	}
}

// TestDraft makes a segment of two documents and checks that the draft frees its
// buffers.
func TestDraft(t *testing.T) {
	docs := []Doc{{ID: 4, Fields: []string{"one two"}}, {ID: 3, Fields: []string{"two three", "two"}}, {ID: 2}}
	w := &worker{lexer: analysis.NewLexer(analysis.Plain)}
	d := &draft{blocks: make([]block, 1), counts: make([]uint32, 3), lens: make([]uint32, 3)}
	d.ids, d.class = make([]uint64, 3), make([]uint8, 3)
	w.read(d, 0, 0, 3, func(i int) Doc { return docs[i] })
	terms := w.lexer.Dict().Len()
	if len(w.seen) != terms {
		t.Errorf("%d positions of %d terms", len(w.seen), terms)
	}
	d.layOut(terms)
	if d.staged != nil || d.blocks[0].entries != nil {
		t.Errorf("the draft keeps %d postings and %d entries", len(d.staged), len(d.blocks[0].entries))
	}
	if d.lengths.counted != 2 || d.lengths.length != 5 || !slices.Equal(d.postings, []uint32{0x1002, 0x1002, 0x12003, 0x11003}) || !slices.Equal(d.start, []uint32{0, 1, 3, 4}) {
		t.Errorf("%d documents with terms, length %d, postings %x from %d", d.lengths.counted, d.lengths.length, d.postings, d.start)
	}
	if !slices.Equal(d.order, []uint16{2, 1, 0}) || len(d.codes.list) != 3 || d.codes.maxLen != 3 || slices.Max(d.df) != 2 {
		t.Errorf("order %v, codes %x, longest document %d, documents %v", d.order, d.codes.list, d.codes.maxLen, d.df)
	}
}
