package bm25

import (
	"bytes"
	"encoding/binary"

	"crabmem/bm25/analysis"
)

// uvarints reads numbers. bad is set after a number that is not complete or too long.
type uvarints struct {
	b   []byte
	bad bool
}

func (u *uvarints) next() uint64 {
	if len(u.b) > 0 && u.b[0] < 0x80 {
		v := uint64(u.b[0])
		u.b = u.b[1:]
		return v
	}
	v, n := binary.Uvarint(u.b)
	if n <= 0 {
		u.bad = true
		return 0
	}
	u.b = u.b[n:]
	return v
}

// bytes returns the next n bytes, or none if there are fewer.
func (u *uvarints) bytes(n int) []byte {
	if n > len(u.b) {
		u.bad = true
		return nil
	}
	b := u.b[:n:n]
	u.b = u.b[n:]
	return b
}

// A storedEntry is a term or a word form of the dictionary.
type storedEntry struct {
	text  []byte // valid until the next entry
	flags byte
	df    uint32
	list  listRef
}

// A listRef is the place of an encoded list.
type listRef struct{ at, size uint64 }

// entries reads entries, a group or all groups.
type entries struct {
	uvarints
	text    []byte
	read    int
	at, end uint64 // of lists
	docs    uint64
}

// next reads an entry. It reports false at the end and, with bad set, if an entry is
// not valid.
func (e *entries) next(it *storedEntry) bool {
	if len(e.b) == 0 || e.bad {
		return false
	}
	head := e.uvarints.bytes(1)[0]
	shared := int(head >> 2)
	n := e.uvarints.next()
	if e.read%groupEntries == 0 && shared > 0 || shared > len(e.text) || n > uint64(len(e.b)) {
		e.bad = true
		return false
	}
	e.read++
	suffix := e.uvarints.bytes(int(n))
	old := e.text
	// The dict has its own uses for the bytes 0 and 0xff.
	if len(old) > 0 && bytes.Compare(suffix, old[shared:]) <= 0 || n == 0 || bytes.IndexByte(suffix, 0) >= 0 || bytes.IndexByte(suffix, 0xff) >= 0 {
		e.bad = true
		return false
	}
	e.text = append(old[:shared], suffix...)
	*it = storedEntry{text: e.text, flags: head & 3}
	if it.flags&isTerm != 0 {
		df, more := e.uvarints.next(), e.uvarints.next()
		if df == 0 || df > e.docs || more > e.end-e.at || df > e.end-e.at-more {
			e.bad = true
			return false
		}
		it.df, it.list = uint32(df), listRef{e.at, df + more}
		e.at += df + more
	}
	if it.flags == 0 || it.flags&isForm != 0 && !analysis.IsWordForm(it.text) {
		e.bad = true
	}
	return !e.bad
}

// A listReader decodes a list.
type listReader struct {
	uvarints
	docs, doc uint64 // number of documents; next document
}

// next returns the next posting. bad is set if it is not valid.
func (l *listReader) next() (doc uint64, tf uint32) {
	v := l.uvarints.next()
	tf = 1
	if v&1 != 0 {
		n := l.uvarints.next()
		if tf = uint32(n); n < 2 || n > maxStored {
			l.bad = true
		}
	}
	gap := v >> 1
	if gap >= l.docs-l.doc {
		l.bad = true
		return 0, 0
	}
	doc = l.doc + gap
	l.doc = doc + 1
	return doc, tf
}
