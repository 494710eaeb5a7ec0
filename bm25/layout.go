package bm25

import (
	"encoding/binary"
	"fmt"

	"crabmem/bm25/analysis"
)

// Layout of a stored index. FORMAT.md describes the bytes.
const (
	layoutMagic  = 0x3558444935324d42 // "BM25IDX5", little-endian
	groupEntries = 64                 // entries of the dictionary that are read together
	pageGroups   = 256                // groups that a page of the group index lists
	mostShared   = 63                 // bytes that an entry shares with the one before
	footerSize   = 8 * 11
	recordSize   = 8 * 5 // of a segment in the table

	// Flags of an entry.
	isTerm = 1 // a document contains it
	isForm = 2 // it is a word form
)

// A footer is the last part of a stored index. The sections precede it in the order
// of their sizes.
type footer struct {
	analyzer uint64
	docs     uint64
	entries  uint64 // of the dictionary
	terms    uint64 // entries that are terms
	blocks   uint64 // sizes in bytes: documents
	postings uint64
	groups   uint64 // the dictionary
	pages    uint64 // the group index
	top      uint64 // the index of the group index
	table    uint64 // a record for each segment
}

func (f *footer) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, layoutMagic)
	for _, v := range []uint64{f.analyzer, f.docs, f.entries, f.terms, f.blocks, f.postings, f.groups, f.pages, f.top, f.table} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// parse reads a footer at the end of size bytes and checks that the sections fit.
func (f *footer) parse(b []byte, size uint64, a analysis.Analyzer) error {
	if binary.LittleEndian.Uint64(b) != layoutMagic {
		return damaged(size-footerSize, "the footer has another magic number")
	}
	sum := uint64(footerSize)
	for i, v := range []*uint64{&f.analyzer, &f.docs, &f.entries, &f.terms, &f.blocks, &f.postings, &f.groups, &f.pages, &f.top, &f.table} {
		*v = binary.LittleEndian.Uint64(b[8+8*i:])
		if i < 4 {
			continue
		}
		if *v > size {
			return damaged(size-footerSize, "a section has %d of %d bytes", *v, size)
		}
		sum += *v
	}
	if f.analyzer != uint64(a) {
		return fmt.Errorf("read index: its analyzer is %v, want %v: rebuild the index", analysis.Analyzer(min(f.analyzer, 255)), a)
	}
	// A document takes two bytes or more, and so does an entry.
	if sum != size || f.docs > f.blocks/2 || f.docs > maxStored || f.entries > f.groups/2 || f.entries > maxStored || f.terms > f.entries || f.table != f.segments()*recordSize {
		return damaged(size-footerSize, "the footer has wrong sizes")
	}
	return nil
}

// maxStored is the largest number of documents, and of entries, of a stored index.
const maxStored = 1 << 31

// mostPostings is the largest number of postings in a segment to which a list is added.
const mostPostings = 1<<31 - 1

// segments returns the number of segments: all but the last are full.
func (f *footer) segments() uint64 { return (f.docs + maxDocs - 1) / maxDocs }

// damaged returns the error for wrong content at an offset.
func damaged(at uint64, format string, args ...any) error {
	return fmt.Errorf("read index at offset %d: %s: rebuild the index", at, fmt.Sprintf(format, args...))
}
