// Package refdec is an independent decoder and encoder of CRMEM v1 and of the log.
// It follows RFC 0150 and crmem/FORMAT.md and shares no code with package crmem,
// so that tests can compare the two. It is simple and slow, and it copies all
// data. Only tests use it.
package refdec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"unicode/utf8"
)

// Entry is one entry of a snapshot.
type Entry struct {
	ID, CreatedAt uint64
	Kind          uint32
	Name, Content string
	Aliases       []string
}

// Store contains the data of a snapshot.
type Store struct {
	NextID  uint64
	Entries []Entry
}

// Fault is the first rule that a file breaks.
type Fault struct {
	Class  string // magic, version, flags, reserved, truncated, trailing, utf8, kind, order, dup-id, dup-name, next-id
	Field  string
	Offset int64
	Entry  int // index of the entry, from 0; -1 outside the entries
}

func (f *Fault) Error() string {
	return fmt.Sprintf("offset %d, entry %d, %s: %s", f.Offset, f.Entry, f.Field, f.Class)
}

// Snapshot reads a CRMEM v1 file. The error is a *Fault.
func Snapshot(file []byte) (*Store, error) {
	r := &source{Reader: bytes.NewReader(file), size: int64(len(file)), entry: -1}
	s, f := r.snapshot()
	if f != nil {
		return nil, f
	}
	return s, nil
}

// source is a reader with the current offset and entry.
type source struct {
	*bytes.Reader
	size  int64
	entry int
}

func (r *source) at() int64   { return r.size - int64(r.Len()) }
func (r *source) left() int64 { return int64(r.Len()) }

func (r *source) fault(class, field string, offset int64) *Fault {
	return &Fault{Class: class, Field: field, Offset: offset, Entry: r.entry}
}

// take reads n bytes. It panics if fewer are left.
func (r *source) take(n int64) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		panic(fmt.Sprintf("refdec: %d bytes at %d: %v", n, r.at(), err))
	}
	return b
}

func (r *source) u32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *source) u64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *source) snapshot() (*Store, *Fault) {
	const sign = "CRMEM\x00"
	// Even a file without a complete header may have a wrong magic.
	head := r.take(min(r.left(), int64(len(sign))))
	if string(head) != sign[:len(head)] {
		return nil, r.fault("magic", "magic", 0)
	}
	if r.size < 28 {
		return nil, r.fault("truncated", "header", r.size)
	}
	if r.u32() != 1 {
		return nil, r.fault("version", "version", 6)
	}
	if binary.LittleEndian.Uint16(r.take(2)) != 0 {
		return nil, r.fault("flags", "flags", 10)
	}
	if !bytes.Equal(r.take(4), make([]byte, 4)) {
		return nil, r.fault("reserved", "reserved", 12)
	}
	s := &Store{NextID: r.u64()}
	if s.NextID == 0 {
		return nil, r.fault("next-id", "next_id", 16)
	}
	count := int64(r.u32())
	// The minimum entry has 8 bytes of id, 8 of time, 4 of kind, and 3 lengths.
	if 32*count > r.left() {
		return nil, r.fault("truncated", "entry_count", 24)
	}
	names := map[string]bool{}
	for r.entry = 0; int64(r.entry) < count; r.entry++ {
		start := r.at()
		if r.left() < 32 {
			return nil, r.fault("truncated", "entry", r.size)
		}
		e, f := r.readEntry(start, s)
		if f != nil {
			return nil, f
		}
		if names[e.Name] {
			return nil, r.fault("dup-name", "name", start+24)
		}
		names[e.Name] = true
		s.Entries = append(s.Entries, e)
	}
	r.entry = -1
	if r.left() > 0 {
		return nil, r.fault("trailing", "trailing", r.at())
	}
	return s, nil
}

func (r *source) readEntry(start int64, s *Store) (e Entry, f *Fault) {
	e.ID = r.u64()
	if n := len(s.Entries); n > 0 {
		switch last := s.Entries[n-1].ID; {
		case e.ID == last:
			return e, r.fault("dup-id", "id", start)
		case e.ID < last:
			return e, r.fault("order", "id", start)
		}
	}
	if e.ID >= s.NextID {
		return e, r.fault("next-id", "id", start)
	}
	e.CreatedAt = r.u64()
	e.Kind = r.u32()
	if e.Kind > 1 {
		return e, r.fault("kind", "kind", start+16)
	}
	if e.Name, f = r.text("name"); f != nil {
		return e, f
	}
	if e.Content, f = r.text("content"); f != nil {
		return e, f
	}
	at := r.at()
	if r.left() < 4 {
		return e, r.fault("truncated", "alias_count", at)
	}
	count := int64(r.u32())
	if 4*count > r.left() {
		return e, r.fault("truncated", "alias_count", at)
	}
	for range count {
		a, f := r.text("alias")
		if f != nil {
			return e, f
		}
		e.Aliases = append(e.Aliases, a)
	}
	return e, nil
}

func (r *source) text(field string) (string, *Fault) {
	at := r.at()
	if r.left() < 4 {
		return "", r.fault("truncated", field+"_len", at)
	}
	n := int64(r.u32())
	if n > r.left() {
		return "", r.fault("truncated", field+"_len", at)
	}
	at = r.at()
	text := r.take(n)
	// range yields U+FFFD for an invalid byte, and for the character U+FFFD, which
	// has three bytes.
	for i, c := range string(text) {
		if c == utf8.RuneError && !bytes.HasPrefix(text[i:], []byte("\uFFFD")) {
			return "", r.fault("utf8", field, at+int64(i))
		}
	}
	return string(text), nil
}

// Bytes encodes s. It does not check or sort the entries.
func (s *Store) Bytes() []byte {
	var b bytes.Buffer
	put := func(v any) {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			panic("refdec: " + err.Error())
		}
	}
	text := func(t string) {
		put(uint32(len(t)))
		b.WriteString(t)
	}
	b.WriteString("CRMEM\x00")
	put(uint32(1))
	put(uint16(0))
	put(uint32(0))
	put(s.NextID)
	put(uint32(len(s.Entries)))
	for _, e := range s.Entries {
		put(e.ID)
		put(e.CreatedAt)
		put(e.Kind)
		text(e.Name)
		text(e.Content)
		put(uint32(len(e.Aliases)))
		for _, a := range e.Aliases {
			text(a)
		}
	}
	return b.Bytes()
}
