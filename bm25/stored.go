package bm25

import (
	"encoding/binary"
	"io"
	"slices"

	"crabmem/bm25/analysis"
)

// A stored is the part of an opened index that is read from storage when a search
// needs it. The index's write lock protects it.
//
// The content of storage is not trusted. Wrong content gives wrong results or an
// error. Memory grows by a multiple of the bytes that are read, and each byte of a
// list or of a block of documents is read once.
type stored struct {
	footer
	index     *Index
	r         io.ReaderAt
	size      uint64
	segments  []*segment             // the first ones of the index
	dead      int                    // removed documents of these segments
	pageRefs  []ref                  // nil until they are read
	groupRefs map[int][]ref          // by page that was read
	looked    map[uint32]*storedTerm // by term that was looked up
	err       error
}

// A storedPart is the part of a segment that an opened index has not read.
type storedPart struct {
	attached map[uint32]span // lists that were read, by term
	read     bool            // the documents were read
	docs     int
	at, size uint64 // of the block of documents
	lengths  lengths
}

type span struct{ from, to uint32 }

// Open returns an index of what [Index.WriteTo] wrote, which must not change. A search
// reads the parts that it needs and excludes other searches. [Index.Err] returns the
// errors of reading. The analyzer must be the one of the index that was written.
func Open(r io.ReaderAt, size int64, a analysis.Analyzer) (*Index, error) {
	x := New(a)
	s := &stored{index: x, r: r, size: uint64(max(size, 0)), groupRefs: map[int][]ref{}, looked: map[uint32]*storedTerm{}}
	x.stored = s
	if s.size < footerSize {
		return nil, damaged(0, "%d bytes are too few", size)
	}
	b := s.read(s.size-footerSize, footerSize)
	if s.err != nil {
		return nil, s.err
	}
	if err := s.footer.parse(b, s.size, a); err != nil {
		return nil, err
	}
	s.readTable()
	if s.err != nil {
		return nil, s.err
	}
	x.segments = append(x.segments, s.segments...)
	return x, nil
}

// Err returns the first error of reading an opened index. After an error, results of
// the index are not valid.
func (x *Index) Err() error {
	if x.stored == nil {
		return nil
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.stored.err
}

// fail stores the first error.
func (s *stored) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// damaged stores an error for wrong content at an offset.
func (s *stored) damaged(at uint64, what string) { s.fail(damaged(at, "%s", what)) }

// read returns n bytes at an offset, or nil after an error. The caller checks that the
// bytes are in a section.
func (s *stored) read(at, n uint64) []byte {
	if s.err != nil {
		return nil
	}
	b := make([]byte, n)
	if got, err := s.r.ReadAt(b, int64(at)); got < len(b) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		s.fail(err)
		return nil
	}
	return b
}

// Offsets of the sections.
func (s *stored) postingsAt() uint64 { return s.blocks }
func (s *stored) groupsAt() uint64   { return s.blocks + s.postings }
func (s *stored) pagesAt() uint64    { return s.groupsAt() + s.groups }
func (s *stored) topAt() uint64      { return s.pagesAt() + s.pages }
func (s *stored) tableAt() uint64    { return s.topAt() + s.top }

// readTable makes the segments and sets the counts of the index.
func (s *stored) readTable() {
	b := s.read(s.tableAt(), s.table)
	x := s.index
	at, left := uint64(0), s.docs
	for i := 0; len(b) > 0; i++ {
		u64 := binary.LittleEndian.Uint64
		p := &storedPart{attached: map[uint32]span{}, docs: int(min(left, maxDocs)), at: at, size: u64(b[32:]) & (1<<32 - 1)}
		p.lengths = lengths{int(u64(b[32:]) >> 32), int(u64(b[16:])), u64(b[24:])}
		seg := &segment{stored: p}
		seg.minID, seg.maxID = u64(b), u64(b[8:])
		b = b[recordSize:]
		at += p.size
		left -= uint64(p.docs)
		last := i == 0 || s.segments[i-1].maxID < seg.minID
		if !last || seg.maxID < seg.minID || seg.maxID-seg.minID < uint64(p.docs-1) || !p.lengths.possible(p.docs) || at > s.blocks {
			s.damaged(s.tableAt()+uint64(i*recordSize), "a segment is not possible")
			return
		}
		s.segments = append(s.segments, seg)
		x.live += p.docs
		x.lengths.add(p.lengths)
	}
	if at != s.blocks {
		s.damaged(s.tableAt(), "the blocks of documents have another size")
	}
}

// readDocs reads the documents of a segment.
func (s *stored) readDocs(seg *segment) {
	p := seg.stored
	if p.read || s.err != nil {
		return
	}
	p.read = true
	b := s.read(p.at, p.size)
	if b == nil {
		return
	}
	n := p.docs
	ids, lens := make([]uint64, n), make([]uint32, n)
	next := uvarints{b: b}
	ids[0] = seg.minID
	contiguous := seg.maxID-seg.minID == uint64(n-1)
	for i := 1; i < n; i++ {
		gap := uint64(0)
		if !contiguous {
			gap = next.next()
		}
		if ids[i] = ids[i-1] + gap + 1; gap >= seg.maxID-ids[i-1] {
			next.bad = true
			break
		}
	}
	class := next.bytes(n)
	for _, c := range class {
		next.bad = next.bad || c >= removed
	}
	var sum lengths
	for i := range lens {
		dl := next.next()
		if lens[i] = uint32(dl); dl > maxStored {
			next.bad = true
			break
		}
		sum.add(lengthsOf(int(dl)))
	}
	if next.bad || len(next.b) > 0 || ids[n-1] != seg.maxID || sum != p.lengths {
		s.damaged(p.at, "a block of documents is not possible")
		return
	}
	seg.ids, seg.class, seg.lens = ids, slices.Clone(class), lens
}

// remove removes a document of a segment and updates the counts of the index.
func (s *stored) remove(seg *segment, d uint16) {
	for term := range seg.stored.attached {
		if c, _ := seg.code(term, d); c != 0 {
			s.index.df[term]--
		}
	}
	s.dead++
	s.index.forget(int(seg.lens[d]))
	seg.kill(d)
}

// lacks reports whether storage does not contain a term.
func (s *stored) lacks(id uint32) bool {
	if s == nil {
		return true
	}
	if s.looked[id] == nil {
		s.find(s.index.lexer.Dict().AppendTerm(nil, id))
	}
	return s.looked[id].df == 0
}
