package bm25

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"crabmem/bm25/analysis"
)

// Build indexes the documents docs(0) to docs(n-1), which must have different IDs,
// into an empty index. It uses all cores and calls docs from several goroutines.
// Searches wait until Build returns. If ctx ends, Build returns its error. After
// an error the index is empty.
func (x *Index) Build(ctx context.Context, n int, docs func(i int) Doc) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stored != nil {
		return errors.New("build index: it was opened from storage: use a new index")
	}
	if x.live > 0 {
		return fmt.Errorf("build index: it contains %d documents: use a new index", x.live)
	}
	x.clear()
	workers := max(1, min(runtime.GOMAXPROCS(0), n/blockDocs))
	b := &builder{index: x, workers: make([]*worker, workers)}
	for i := range b.workers {
		l := x.lexer
		if i > 0 {
			l = analysis.NewLexer(x.analyzer)
		}
		b.workers[i] = &worker{lexer: l, own: i > 0}
	}
	segments := max((n+maxDocs-1)/maxDocs, min(workers, n/minSegment), 1)
	size := (n + segments - 1) / segments
	for from := 0; from < n; from += workers * size {
		if err := b.wave(ctx, from, min(from+workers*size, n), size, docs); err != nil {
			x.clear()
			return err
		}
	}
	if err := x.distinct(); err != nil {
		x.clear()
		return err
	}
	x.lexer.Clip()
	x.lexer.Rest()
	x.df = slices.Clip(x.df)
	return nil
}

// clear empties the index.
func (x *Index) clear() {
	x.lexer = analysis.NewLexer(x.analyzer)
	x.df, x.segments, x.merge = nil, nil, nil
	x.live, x.lengths, x.removed = 0, lengths{}, 0
	x.tail = tail{}
}

// distinct returns an error if new segments contain an ID twice. It copies the
// IDs only if they are not in strictly ascending order.
func (x *Index) distinct() error {
	if x.ascending() {
		return nil
	}
	var ids []uint64
	for _, s := range x.segments {
		ids = append(ids, s.ids...)
	}
	slices.Sort(ids)
	for i := 1; i < len(ids); i++ {
		if ids[i-1] == ids[i] {
			return fmt.Errorf("duplicate document %d", ids[i])
		}
	}
	return nil
}

// ascending reports whether the IDs of all segments are in strictly ascending
// order.
func (x *Index) ascending() bool {
	first, last := true, uint64(0)
	for _, s := range x.segments {
		for _, id := range s.ids {
			if !first && id <= last {
				return false
			}
			first, last = false, id
		}
	}
	return true
}

const (
	blockDocs  = 512     // documents a worker takes at a time
	minSegment = 1 << 14 // documents; smaller segments are not split between cores
)

// A builder builds in waves of as many segments as there are workers. In a wave
// all workers read blocks of documents into their own term numbers. Then the
// builder maps these to numbers of the index. Then each worker lays out a segment
// by counting and scattering.
type builder struct {
	index   *Index
	workers []*worker
}

type worker struct {
	lexer *analysis.Lexer
	own   bool     // the lexer's dict is not the index's
	remap []uint32 // with its own dict: the index's number by own number
	// seen is, by own term number, the position plus one of the term's latest
	// entry, counted over all of the worker's blocks from base on.
	seen []uint32
	base uint32
}

// A block is a run of documents in terms of their worker's dict.
type block struct {
	worker  *worker
	entries []entry
}

type entry struct{ term, tf uint32 }

// Postings are scattered in two steps, first by stretches of 2^stageBits
// positions, then to the exact position, so that writes stay in the cache.
const stageBits = 15

type stagedPosting struct{ at, posting uint32 }

// A draft is a segment being built.
type draft struct {
	segment
	blocks  []block
	counts  []uint32 // by document: entries
	lens    []uint32 // by document
	df      []uint32
	codes   codeSet
	staged  []stagedPosting
	fill    []uint32 // by stretch: next position in staged
	lengths lengths
}

func (b *builder) wave(ctx context.Context, from, to, size int, docs func(i int) Doc) error {
	var drafts []*draft
	type job struct {
		draft       *draft
		block       int
		first, last int // documents
	}
	var jobs []job
	for first := from; first < to; first += size {
		n := min(size, to-first)
		d := &draft{}
		d.ids, d.class = make([]uint64, n), make([]uint8, n)
		d.counts, d.lens = make([]uint32, n), make([]uint32, n)
		drafts = append(drafts, d)
		for at := 0; at < n; at += blockDocs {
			jobs = append(jobs, job{d, len(d.blocks), first + at, first + min(at+blockDocs, n)})
			d.blocks = append(d.blocks, block{})
		}
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for _, w := range b.workers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(jobs) || ctx.Err() != nil {
					return
				}
				j := jobs[i]
				w.read(j.draft, j.block, j.first, j.last, docs)
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	x := b.index
	for _, w := range b.workers {
		if w.own {
			w.remap = x.lexer.Merge(w.lexer, w.remap)
		}
	}
	x.growDF()
	for _, d := range drafts {
		wg.Go(func() { d.layOut(len(x.df)) })
	}
	wg.Wait()
	for _, d := range drafts {
		for term, n := range d.df {
			x.df[term] += n
		}
		for _, c := range d.codes.list {
			x.codes.add(c)
		}
		x.live += len(d.ids)
		x.lengths.add(d.lengths)
		s := d.segment
		x.segments = append(x.segments, &s)
	}
	return nil
}

// read fills a block with the documents from first up to last.
func (w *worker) read(d *draft, number, first, last int, docs func(i int) Doc) {
	b := &d.blocks[number]
	b.worker = w
	entries := make([]entry, 0, blockDocs*64)
	if w.base > 1<<31 {
		clear(w.seen)
		w.base = 0
	}
	base, seen := w.base, w.seen
	for i := first; i < last; i++ {
		doc := docs(i)
		terms, length := w.lexer.Lex(doc.Fields)
		if n := w.lexer.Dict().Len(); n > len(seen) {
			seen = append(seen, make([]uint32, n-len(seen))...)
		}
		docFirst := uint32(len(entries))
		edge := base + docFirst
		for _, t := range terms {
			if at := seen[t]; at > edge {
				entries[at-base-1].tf++
			} else {
				entries = append(entries, entry{t, 1})
				seen[t] = base + uint32(len(entries))
			}
		}
		at := number*blockDocs + i - first
		d.ids[at] = doc.ID
		d.class[at] = doc.Class & 7
		d.counts[at] = uint32(len(entries)) - docFirst
		d.lens[at] = uint32(length)
	}
	w.seen = seen
	w.base = base + uint32(len(entries))
	b.entries = entries
}

// layOut makes a segment of the blocks.
func (d *draft) layOut(vocabulary int) {
	next := make([]uint32, vocabulary)
	total := 0
	for _, b := range d.blocks {
		total += len(b.entries)
		if remap := b.worker.remap; remap != nil {
			for _, e := range b.entries {
				next[remap[e.term]]++
			}
		} else {
			for _, e := range b.entries {
				next[e.term]++
			}
		}
	}
	d.df = slices.Clone(next)
	d.present = make([]uint64, bitWords(vocabulary))
	terms := 0
	for t, n := range next {
		if n > 0 {
			d.present[t>>6] |= 1 << (t & 63)
			terms++
		}
	}
	d.buildRank()
	d.start = make([]uint32, terms+1)
	at := uint32(0)
	d.eachTerm(func(term uint32, i int) {
		d.start[i] = at
		at, next[term] = at+next[term], at
	})
	d.start[terms] = at
	d.staged = make([]stagedPosting, total)
	d.fill = make([]uint32, total>>stageBits+1)
	for i := range d.fill {
		d.fill[i] = uint32(i) << stageBits
	}
	doc := 0
	for i := range d.blocks {
		b := &d.blocks[i]
		entries, remap := b.entries, b.worker.remap
		for ; doc < min((i+1)*blockDocs, len(d.ids)); doc++ {
			n := d.counts[doc]
			d.scatter(uint32(doc), entries[:n], remap, next)
			entries = entries[n:]
		}
		b.entries = nil
	}
	d.postings = make([]uint32, total)
	for _, p := range d.staged {
		d.postings[p.at] = p.posting
	}
	d.staged = nil
	d.sortEscapes()
	d.buildTerms(d.lens)
	d.sortIDs()
	for _, n := range d.lens {
		d.lengths.add(lengthsOf(int(n)))
	}
}

// scatter stages the postings of a document; next is, by term, the next position.
func (d *draft) scatter(doc uint32, entries []entry, remap, next []uint32) {
	dl := d.lens[doc]
	staged, fill := d.staged, d.fill
	for _, e := range entries {
		term := e.term
		if remap != nil {
			term = remap[term]
		}
		at := next[term]
		next[term] = at + 1
		c := code(e.tf, dl)
		d.codes.add(uint16(c))
		f := &fill[at>>stageBits]
		staged[*f] = stagedPosting{at, doc<<16 | c}
		*f++
		if c == escaped {
			d.escapes = append(d.escapes, escape{at, e.tf, dl})
		}
	}
}
