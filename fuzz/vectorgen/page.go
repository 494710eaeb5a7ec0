package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
)

// page collects bytes and their comments. It does not check them.
type page struct {
	b     []byte
	lines []line
	w     *wal // set by startLog

	field   string // field of the fault, set by at
	offset  int
	entry   int
	inEntry bool

	extra []string // further header lines
}

type line struct {
	section string // if not empty, the line starts a file with this name
	at      int
	b       []byte
	comment string
}

// perLine is the number of bytes in a rendered line.
const perLine = 16

func (p *page) put(comment string, b ...byte) {
	for at := 0; at < len(b) || at == 0; at += perLine {
		bytes := b[at:min(at+perLine, len(b))]
		p.lines = append(p.lines, line{at: len(p.b), b: bytes, comment: comment})
		p.b = append(p.b, bytes...)
		comment = ""
	}
}

// file starts another file of the same vector.
func (p *page) file(name string) {
	p.lines = append(p.lines, line{section: name})
	p.b = nil
}

// cutFile removes the bytes of the current file.
func (p *page) cutFile() {
	for i := len(p.lines) - 1; p.lines[i].section == ""; i-- {
		p.lines = p.lines[:i]
	}
	p.b = nil
}

// capture returns the bytes that x would add to the page. It does not change
// the page, but it advances the state of the log.
func (p *page) capture(x part) []byte {
	keep := *p
	p.b = slices.Clone(p.b)
	p.lines = nil
	x(p)
	b := p.b[len(keep.b):]
	*p = keep
	return b
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

// part adds bytes, marks, or header lines to a page.
type part func(p *page)

func seq(parts ...part) part {
	return func(p *page) {
		for _, x := range parts {
			x(p)
		}
	}
}

// bytesOf returns the bytes of parts that do not use the log.
func bytesOf(parts ...part) []byte {
	var p page
	seq(parts...)(&p)
	return p.b
}

func put(comment string, b ...byte) part { return func(p *page) { p.put(comment, b...) } }

func u16(field string, v uint16) part {
	return put(fmt.Sprintf("%s %#x", field, v), binary.LittleEndian.AppendUint16(nil, v)...)
}

func u32(field string, v uint32) part {
	return put(fmt.Sprintf("%s %d", field, v), binary.LittleEndian.AppendUint32(nil, v)...)
}

func u64(field string, v uint64) part {
	return put(fmt.Sprintf("%s %d", field, v), binary.LittleEndian.AppendUint64(nil, v)...)
}

func text(s string) part {
	if s == "" {
		return seq()
	}
	return put(fmt.Sprintf("%.40q", s), []byte(s)...)
}

func str(field, s string) part { return seq(u32(field+"_len", uint32(len(s))), text(s)) }

// cut adds the first n bytes of x.
func cut(n int, x part) part {
	return func(p *page) { p.put("cut short", p.capture(x)[:n]...) }
}

// flip adds x with the bits of mask inverted in byte i. A negative i counts from
// the end.
func flip(comment string, i int, mask byte, x part) part {
	return func(p *page) {
		b := p.capture(x)
		b[(i+len(b))%len(b)] ^= mask
		p.put(comment, b...)
	}
}

// hole adds a zero byte for each byte of x.
func hole(x part) part {
	return func(p *page) { p.put("hole", make([]byte, len(p.capture(x)))...) }
}

// at marks the fault in field, n bytes after the current end of the file.
func at(field string, n int) part {
	return func(p *page) { p.field, p.offset = field, len(p.b)+n }
}

// in marks entry i, counted from 0, as the entry with the fault.
func in(i int) part { return func(p *page) { p.entry, p.inEntry = i, true } }

// extra adds a header line to the vector.
func extra(s string) part { return func(p *page) { p.extra = append(p.extra, s) } }

func names(s string) part { return extra(strings.TrimRight("names: "+s, " ")) }
