package crmem

import (
	"strings"
	"unsafe"

	"crabmem/crmem/internal/format"
)

// A loaded file stays in memory whole while one record is a piece of it. When
// little of it is left, that is copied, and the file is let go of.
type loaded struct {
	from, to uintptr // where the file is; it is not held by these
	left     int64   // bytes of the records that are pieces of it
}

// keepLoaded is the part of a file, one in so many, of which records may be
// pieces. It bounds what is copied while readers wait.
const keepLoaded = 4

func (l *loaded) has(r format.Record) bool {
	at := uintptr(unsafe.Pointer(unsafe.StringData(string(r))))
	return l.from <= at && at < l.to
}

// loadedFrom tells the table of the files that its records were read from.
func (t *table) loadedFrom(files ...[]byte) {
	t.loaded = nil
	for _, b := range files {
		if len(b) == 0 {
			continue
		}
		l := loaded{from: uintptr(unsafe.Pointer(unsafe.SliceData(b)))}
		l.to = l.from + uintptr(len(b))
		for _, r := range t.recs {
			if r.enc != "" && l.has(r.enc) {
				l.left += int64(len(r.enc))
			}
		}
		if l.left > 0 {
			t.loaded = append(t.loaded, l)
		}
	}
}

// releaseRecord takes note that a record is none of the table's any more.
func (t *table) releaseRecord(r format.Record) {
	for i := range t.loaded {
		l := &t.loaded[i]
		if !l.has(r) {
			continue
		}
		if l.left -= int64(len(r)); l.left < int64(l.to-l.from)/keepLoaded {
			t.copyRecords(i)
		}
		return
	}
}

// copyRecords copies the records that are pieces of a file.
func (t *table) copyRecords(i int) {
	l := t.loaded[i]
	for k := range t.recs {
		if r := &t.recs[k]; r.enc != "" && l.has(r.enc) {
			r.enc = format.Record(strings.Clone(string(r.enc)))
		}
	}
	t.loaded = append(t.loaded[:i:i], t.loaded[i+1:]...)
}
