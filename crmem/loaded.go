package crmem

import (
	"strings"
	"unsafe"

	"crabmem/crmem/internal/format"
)

// loaded is the buffer of a file whose records the table uses. The buffer stays
// in memory while one record refers to it. If few bytes are still in use, the
// table copies those records and releases the buffer. Copying each record at
// Open instead takes 2.1 times as long for 100,000 entries.
type loaded struct {
	from, to uintptr // address range; it does not keep the buffer alive
	left     int64   // bytes of the records in the buffer that the table uses
}

// keepLoaded limits the work of copyRecords, which blocks readers: at most
// 1/keepLoaded of a buffer is copied.
const keepLoaded = 4

func (l *loaded) has(r format.Record) bool {
	at := uintptr(unsafe.Pointer(unsafe.StringData(string(r))))
	return l.from <= at && at < l.to
}

// loadedFrom records the buffers that the table's records point into.
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

// releaseRecord updates the live byte count of the buffer of a record that the
// table no longer uses.
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

// copyRecords copies the records that point into buffer i and releases it.
func (t *table) copyRecords(i int) {
	l := t.loaded[i]
	for k := range t.recs {
		if r := &t.recs[k]; r.enc != "" && l.has(r.enc) {
			r.enc = format.Record(strings.Clone(string(r.enc)))
		}
	}
	t.loaded = append(t.loaded[:i:i], t.loaded[i+1:]...)
}
