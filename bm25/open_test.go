package bm25_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"crabmem/bench/corpus"
	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/fuzz/race"
)

// TestOpenRefuses opens content that WriteTo did not write.
func TestOpenRefuses(t *testing.T) {
	good := write(t, newLibrary(t, []string{"some words"}, []string{"other words"}).x)
	open := func(b []byte, a analysis.Analyzer) error {
		_, err := bm25.Open(bytes.NewReader(b), int64(len(b)), a)
		return err
	}
	if err := open(good, analysis.Standard); err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"8 bytes are too few":    open(good[:8], analysis.Standard),
		"another magic number":   open(good[:len(good)-1], analysis.Standard),
		"has another magic":      open(bytes.Replace(good, []byte("BM25IDX5"), []byte("BM25IDX4"), 1), analysis.Standard), // other terms
		"the footer has wrong s": open(append([]byte("more"), good...), analysis.Standard),
		"analyzer is standard, ": open(good, analysis.Plain),
	} {
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "rebuild the index") && !strings.Contains(err.Error(), "too few") {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := bm25.Open(bytes.NewReader(good), int64(len(good))+1, analysis.Standard); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that is shorter than its size: %v", err)
	}
}

// A failingReader fails from the nth read on.
type failingReader struct {
	io.ReaderAt
	left int
}

var errRead = errors.New("checksum mismatch")

func (r *failingReader) ReadAt(b []byte, at int64) (int, error) {
	if r.left--; r.left < 0 {
		return 0, errRead
	}
	return r.ReaderAt.ReadAt(b, at)
}

// TestLoadErrors fails each read of Load in turn, and loads with a context that ended.
func TestLoadErrors(t *testing.T) {
	data := write(t, newLibrary(t, []string{"some words"}, []string{"other words"}).x)
	for n := range 5 {
		r := &failingReader{bytes.NewReader(data), n}
		if x, err := bm25.Load(t.Context(), r, int64(len(data)), analysis.Standard); x != nil || !errors.Is(err, errRead) {
			t.Errorf("read %d: %v", n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if x, err := bm25.Load(ctx, bytes.NewReader(data), int64(len(data)), analysis.Standard); x != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}

// TestErr fails each read of an opened index in turn.
func TestErr(t *testing.T) {
	var texts [][]string
	for i := range 300 {
		texts = append(texts, []string{fmt.Sprintf("word w%dx kubernetes running%d", i, i%7)})
	}
	data := write(t, newLibrary(t, texts...).x)
	failed, n := 0, 0
	for done := false; !done; n++ {
		r := &failingReader{bytes.NewReader(data), n}
		x, err := bm25.Open(r, int64(len(data)), analysis.Standard)
		if err == nil {
			x.Remove(7)
			x.Add(bm25.Doc{ID: 8, Fields: []string{"kubelet"}})
			for _, text := range []string{"word", "kuberntes running3", "w100x"} {
				q := bm25.Query{Text: text, Correct: true, Explain: true, Named: []uint64{3, 9}, Texts: func(id uint64) []string { return texts[id-1] }}
				x.Search(q)
				x.Explain(q, 3)
			}
			err = x.Err()
		}
		if done = err == nil; !done {
			failed++
			if !errors.Is(err, errRead) {
				t.Fatalf("read %d: error %v", n, err)
			}
		}
	}
	if failed < 10 {
		t.Errorf("%d reads", failed)
	}
	x := newLibrary(t, texts...).x
	if err := x.Err(); err != nil {
		t.Errorf("an index in memory: %v", err)
	}
}

// TestOpenedReadsParts counts the blocks that a search, an addition and a removal read.
func TestOpenedReadsParts(t *testing.T) {
	race.Skip(t)
	z := corpus.NewZipf(3)
	docs := z.Docs(20_000)
	x := bm25.New(analysis.Standard)
	if err := x.Build(t.Context(), len(docs), func(i int) bm25.Doc { return bm25.Doc{ID: uint64(i), Fields: docs[i : i+1]} }); err != nil {
		t.Fatal(err)
	}
	data := write(t, x)
	r := &blockReader{r: bytes.NewReader(data), seen: map[int64]bool{}}
	opened, err := bm25.Open(r, int64(len(data)), analysis.Standard)
	if err != nil {
		t.Fatal(err)
	}
	step := func(name string, most int, f func()) {
		clear(r.seen)
		f()
		t.Logf("%s: %d of %d blocks", name, len(r.seen), len(data)>>16)
		if len(r.seen) > most {
			t.Errorf("%s: %d of %d blocks were read, want at most %d", name, len(r.seen), len(data)>>16, most)
		}
	}
	step("add", 0, func() { opened.Add(bm25.Doc{ID: 1 << 40, Fields: []string{docs[0], "new"}}) })
	step("replace", 2, func() { opened.Add(bm25.Doc{ID: 5, Fields: []string{docs[0], "new"}}) })
	step("remove", 0, func() { opened.Remove(6) })
	q := bm25.Query{Text: z.Queries(1)[0], Limit: 10}
	words := len(strings.Fields(q.Text))
	step("search", 3*words+2, func() { opened.Search(q) })
	step("search again", 0, func() { opened.Search(q) })
	step("unknown word", 3, func() { opened.Search(bm25.Query{Text: "zzzzyyyxx"}) })
	if opened.Err() != nil {
		t.Error(opened.Err())
	}
	if st := opened.Stats(); st.Docs != 20_000 || st.Terms != x.Stats().Terms+1 {
		t.Errorf("%+v, want the terms of %+v and one", st, x.Stats())
	}
}

// TestOpenedRefuses writes an opened index and builds one in it.
func TestOpenedRefuses(t *testing.T) {
	x := open(t, write(t, bm25.New(analysis.Plain)), analysis.Plain)
	if n, err := x.WriteTo(io.Discard); n != 0 || err == nil {
		t.Errorf("an opened index writes %d bytes: %v", n, err)
	}
	if err := x.Build(context.Background(), 0, nil); err == nil {
		t.Error("an opened index is built")
	}
	if got := x.Search(bm25.Query{Text: "word"}); len(got.Hits) > 0 || x.Err() != nil || x.Remove(1) {
		t.Errorf("an empty index finds %v: %v", got, x.Err())
	}
	x.Add(bm25.Doc{ID: 3, Fields: []string{"a word"}})
	if got := x.Search(bm25.Query{Text: "word"}); len(got.Hits) != 1 {
		t.Errorf("an empty index with a document finds %v", got)
	}
}

// TestOpenedConcurrently searches and changes an opened index concurrently.
func TestOpenedConcurrently(t *testing.T) {
	z := corpus.NewZipf(3)
	docs, queries := z.Docs(500), z.Queries(40)
	x := bm25.New(analysis.Standard)
	for i, d := range docs {
		x.Add(bm25.Doc{ID: uint64(i), Fields: []string{d}})
	}
	for i, text := range queries { // so that each query has a match that stays
		x.Add(bm25.Doc{ID: uint64(len(docs) + i), Fields: []string{text}})
	}
	opened := open(t, write(t, x), analysis.Standard)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i, text := range queries {
				q := bm25.Query{Text: text + " streatea", Limit: 5, Correct: true}
				switch (i + w) % 4 {
				case 0:
					if hits := opened.Search(q).Hits; len(hits) > 0 {
						opened.Explain(q, hits[0].ID)
					} else {
						t.Errorf("%q finds nothing: %v", q.Text, opened.Err())
					}
				case 1:
					opened.Add(bm25.Doc{ID: uint64(i), Fields: []string{text}})
				case 2:
					opened.Stats()
					q := q
					q.Context = &bm25.Context{Weights: bm25.DefaultWeights, Message: func(id uint64) (bm25.Message, bool) {
						return bm25.Message{Next: id + 1, HasNext: true}, true
					}}
					opened.Search(q)
				default:
					opened.Len()
				}
			}
		})
	}
	wg.Wait()
	if err := opened.Err(); err != nil {
		t.Error(err)
	}
}
