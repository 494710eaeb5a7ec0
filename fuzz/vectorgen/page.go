package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// page collects bytes and what they are. It writes whatever it is told.
type page struct {
	b     []byte
	lines []line

	field   string // where the fault is: set by here
	offset  int
	entry   int
	inEntry bool

	extra []string // further header lines
}

type line struct {
	section string // not empty: the line begins a file of this name
	at      int
	b       []byte
	comment string
}

// perLine is how many bytes a rendered line holds.
const perLine = 16

func (p *page) put(comment string, b ...byte) {
	for at := 0; at < len(b) || at == 0; at += perLine {
		part := b[at:min(at+perLine, len(b))]
		p.lines = append(p.lines, line{at: len(p.b), b: part, comment: comment})
		p.b = append(p.b, part...)
		comment = ""
	}
}

func (p *page) u16(comment string, v uint16) {
	p.put(fmt.Sprintf("%s %#x", comment, v), binary.LittleEndian.AppendUint16(nil, v)...)
}

func (p *page) u32(comment string, v uint32) {
	p.put(fmt.Sprintf("%s %d", comment, v), binary.LittleEndian.AppendUint32(nil, v)...)
}

func (p *page) u64(comment string, v uint64) {
	p.put(fmt.Sprintf("%s %d", comment, v), binary.LittleEndian.AppendUint64(nil, v)...)
}

func (p *page) text(s string) {
	if s != "" {
		p.put(fmt.Sprintf("%.40q", s), []byte(s)...)
	}
}

func (p *page) str(field, s string) {
	p.u32(field+"_len", uint32(len(s)))
	p.text(s)
}

// here marks the place of the fault: the next byte, plus some.
func (p *page) here(field string, plus ...int) {
	p.field, p.offset = field, len(p.b)
	for _, n := range plus {
		p.offset += n
	}
}

// in marks the fault as one of the entry at position i.
func (p *page) in(i int) { p.entry, p.inEntry = i, true }

// file begins another file of the same vector.
func (p *page) file(name string) {
	p.lines = append(p.lines, line{section: name})
	p.b = nil
}

func (p *page) render(w io.Writer) {
	for _, l := range p.lines {
		if l.section != "" {
			fmt.Fprintf(w, "-- %s --\n", l.section)
			continue
		}
		hex := make([]string, len(l.b))
		for i, c := range l.b {
			hex[i] = fmt.Sprintf("%02x", c)
		}
		s := fmt.Sprintf("%04x  %-*s  %s", l.at, 3*perLine-1, strings.Join(hex, " "), l.comment)
		fmt.Fprintln(w, strings.TrimRight(s, " "))
	}
}

// The parts of a snapshot, as RFC 0150 lists them.

const when = 1776162225 // 2026-04-14T10:23:45Z

func (p *page) magic()         { p.put(`magic "CRMEM\0"`, []byte("CRMEM\x00")...) }
func (p *page) version()       { p.u32("version", 1) }
func (p *page) flags()         { p.u16("flags", 0) }
func (p *page) reserved()      { p.put("reserved", 0, 0, 0, 0) }
func (p *page) fixed()         { p.magic(); p.version(); p.flags(); p.reserved() }
func (p *page) next(id uint64) { p.u64("next_id", id) }
func (p *page) count(n uint32) { p.u32("entry_count", n) }

func (p *page) header(next uint64, count uint32) {
	p.fixed()
	p.next(next)
	p.count(count)
}

// fresh is what begins an entry, up to and without its name_len.
func (p *page) fresh(id uint64, kind uint32) {
	p.u64("id", id)
	p.u64("created_at", when)
	p.u32("kind", kind)
}

func (p *page) record(id uint64, kind uint32, name, content string, aliases ...string) {
	p.fresh(id, kind)
	p.str("name", name)
	p.str("content", content)
	p.u32("alias_count", uint32(len(aliases)))
	for _, a := range aliases {
		p.str("alias", a)
	}
}
