package format

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"crabmem/fuzz/golden"
)

// editBytes calls try with copies of b: with each byte changed in several ways,
// with each number set to bounds of the bytes after it, without each byte, and
// cut at each offset.
func editBytes(b []byte, try func(title string, b []byte)) {
	for off := range b {
		for _, v := range []byte{0, b[off] + 1, b[off] ^ 0x80} {
			c := bytes.Clone(b)
			c[off] = v
			try(fmt.Sprintf("byte %d is %#02x", off, v), c)
		}
		for _, v := range []int{len(b) - off - 5, len(b) - off - 4, len(b) - off - 3, (len(b) - off - 4) / 4, (len(b)-off-4)/4 + 1} {
			if c := bytes.Clone(b); off+4 <= len(b) {
				binary.LittleEndian.PutUint32(c[off:], uint32(v))
				try(fmt.Sprintf("number %d is %d", off, v), c)
			}
		}
		for _, v := range []uint64{0, 2, math.MaxUint64 - 1, math.MaxUint64} {
			if c := bytes.Clone(b); off+8 <= len(b) {
				binary.LittleEndian.PutUint64(c[off:], v)
				try(fmt.Sprintf("long number %d is %d", off, v), c)
			}
		}
		try(fmt.Sprintf("without byte %d", off), slices.Delete(bytes.Clone(b), off, off+1))
		try(fmt.Sprintf("cut at %d", off), bytes.Clone(b[:off]))
	}
	for _, more := range []int{1, 3, 31, 32} {
		try(fmt.Sprintf("%d more bytes", more), append(bytes.Clone(b), make([]byte, more)...))
	}
}

func recordText(r Record) string {
	content, end := r.Content()
	return fmt.Sprintf("%d %d %d %.20q %.20q %d %#v, %d bytes", r.ID(), r.CreatedAt(), r.Kind(), r.Name(), content, end, r.Aliases(), len(r))
}

// decodeText returns the results of the functions that read a snapshot.
func decodeText(b []byte) string {
	var out strings.Builder
	d, next := NewDecoder(b), uint64(0)
	n, err := d.Header(&next)
	fmt.Fprintf(&out, "%d entries, next ID %d\n", n, next)
	for i := 0; i < n && err == nil; i++ {
		var r Record
		if r, err = d.Record(i, next); err == nil {
			fmt.Fprintf(&out, "%s, end at %d\n", recordText(r), d.Offset())
		}
	}
	if err == nil {
		err = d.End()
	}
	if err = d.Explain(err); err != nil {
		fmt.Fprintf(&out, "%v, offset %d\n", err, OffsetOf(err))
	}
	recs, next, size := Salvage(b)
	fmt.Fprintf(&out, "salvage: %d next ID, %d bytes, was a store: %v\n", next, size, WasStore(b))
	for _, r := range recs {
		out.WriteString(recordText(r) + "\n")
	}
	return out.String()
}

func snapshotOf(next uint64, recs ...Record) []byte {
	b := SnapshotHeader(next, len(recs))
	for _, r := range recs {
		b = append(b, r...)
	}
	return b
}

// TestReportsOfSnapshots compares the results for snapshots with one change.
func TestReportsOfSnapshots(t *testing.T) {
	var r golden.Reports
	add := func(title string, b []byte) { r.Add(title, decodeText(b)) }
	first := NewRecord(2, 1776162225, KindNote, "é", "text\n", []string{"x", "", "long alias"})
	second := NewRecord(5, math.MaxUint64, KindArchive, "two", "", nil)
	editBytes(snapshotOf(9, first, second), add)
	editBytes(snapshotOf(3, first)[:HeaderSize+33], add)
	for _, ids := range [][]uint64{{1, 2}, {2, 1}, {1, 1}, {1, 3}, {3, 5}, {0, 1}, {math.MaxUint64 - 1, 1}, {math.MaxUint64, 1}, {3, 1, 2}} {
		for _, next := range []uint64{0, 1, 2, 3, 4, 5, math.MaxUint64} {
			var recs []Record
			for i, id := range ids {
				recs = append(recs, NewRecord(id, uint64(i), KindNote, fmt.Sprint("name ", i%2), "", nil))
			}
			add(fmt.Sprintf("IDs %d, next ID %d", ids, next), snapshotOf(next, recs...))
			add(fmt.Sprintf("IDs %d, next ID %d, text between", ids, next), append(append(snapshotOf(next, recs...), "text"...), NewRecord(4, 0, KindNote, "other", "", nil)...))
		}
	}
	for _, n := range []int{1<<16 - 1, 1 << 16, 1<<16 + 1, 1 << 17} {
		add(fmt.Sprintf("name of %d bytes", n), snapshotOf(3, NewRecord(2, 0, KindNote, strings.Repeat("n", n), "", nil)))
	}
	for n := range 40 {
		for _, at := range []uint64{0, 31, 32, 33, uint64(n)} {
			for _, size := range []uint64{0, 1, uint64(n) - at - 1, uint64(n) - at, uint64(n) - at + 1} {
				b := append(SnapshotHeader(at, 0), make([]byte, 12)...)
				binary.LittleEndian.PutUint64(b[24:], size)
				add(fmt.Sprintf("%d bytes with an index of %d bytes at %d", n, int64(size), at), b[:n])
			}
		}
	}
	r.Compare(t, "testdata/snapshots.txt.gz")
}

// TestReportsOfRecords compares the results for records, alias lists, texts, and
// identities with one change.
func TestReportsOfRecords(t *testing.T) {
	var r golden.Reports
	for _, id := range []uint64{0, 1, math.MaxUint64 - 1, math.MaxUint64} {
		rec := NewRecord(id, 5, KindNote, "name", "content", []string{"one", "two"})
		list := AppendAliases(nil, []string{"new", ""})
		r.Addf(fmt.Sprint("record ", id), "%s\n%s\n%s\n%s", recordText(rec), recordText(rec.WithName([]byte("other name"))),
			recordText(rec.WithAliases(list)), recordText(rec.WithName(nil).WithAliases(AppendAliases(nil, nil))))
		editBytes([]byte(rec), func(title string, b []byte) {
			rec, err := DecodeRecord(b)
			if err != nil {
				r.Addf(title, "%v", err)
				return
			}
			r.Add(title, recordText(rec))
		})
	}
	editBytes(AppendAliases(nil, []string{"ä", "", "b"}), func(title string, b []byte) { r.Addf("aliases, "+title, "%v", CheckAliases(b)) })
	for _, s := range []string{"", "a", "\xff", "a\xff", "é\xc3", "\uFFFD", "\uFFFD\x80b", "日本\xe6\x97", "ab"} {
		r.Addf(fmt.Sprintf("text %q", s), "%d", InvalidUTF8([]byte(s)))
	}
	id := ID{1, 2, 0xab}
	editBytes([]byte(IdentityText(id)), func(title string, b []byte) {
		id, ok := ParseIdentity(string(b))
		r.Addf("identity, "+title, "%v %v", id, ok)
	})
	for _, text := range []string{IdentityText(id), IdentityText(ID{}), "identity 00\nsum 0", ""} {
		id, ok := ParseIdentity(text)
		r.Addf(fmt.Sprintf("identity %q", text), "%v %v", id, ok)
	}
	for _, v := range []any{"<a>&\u2028", map[string]int{"b": 1, "a": 2}, nil, func() {}} {
		b, err := MarshalJSON(v)
		r.Addf("JSON", "%q %v", b, err)
	}
	for _, n := range []int{0, 1, 1<<17 - 1, 1 << 17, 1<<17 + 1, 1<<18 + 1} {
		d := DigestOf(bytes.Repeat([]byte("x"), n))
		r.Addf(fmt.Sprint("digest ", n), "%v %x %v", d, d.Append([]byte("x")), ReadDigest(d.Append(nil)) == d)
	}
	for _, err := range []error{&Error{Path: "/p", Offset: 3, Entry: 0, Field: "f", Msg: "m"}, &Error{Entry: -1}, ErrFormat, nil, fmt.Errorf("wrapped: %w", &Error{Offset: 7})} {
		e, ok := err.(*Error)
		r.Addf("error", "%v %v %v", err, OffsetOf(err), ok && e.Is(ErrFormat) && !e.Is(nil))
	}
	r.Compare(t, "testdata/records.txt.gz")
}
