package search

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"crabmem/bm25"
	"crabmem/bm25/clip"
	"crabmem/bm25/snippet"
	"crabmem/crmem/vfs"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
)

// maxText is how much of a text a snippet and a message of a window show, in
// bytes.
const maxText = 1 << 10

// Limits of the bytes that are read of a line: of a hit, whose snippet is
// selected, and of the messages around it.
const (
	maxHitLine    = 256 << 10
	maxWindowLine = 64 << 10
	maxCallerBack = 64 // results between the window and the message that called
)

// cut copies from an entry, which may change later, the places of a window of n
// around the hit: as many before it as after, where there are so many.
func (f *finding) cut(e *entry, hit, n int) {
	n = min(n, len(e.places))
	first := max(0, min(hit-(n-1)/2, len(e.places)-n))
	last := first + n
	from, to := first, last
	if n == 0 && hit >= 0 {
		from, to = hit, hit+1
	}
	// A place that is not a document may be a result, too.
	for n > 0 && from > 0 && first-from < maxCallerBack && (e.places[from].role == classTool || from == first && !e.places[from].doc()) {
		from--
	}
	f.at = -1
	if hit >= 0 {
		f.at = hit - from
	}
	if from < to {
		f.places, f.others, f.end = slices.Clone(e.places[from:to]), e.others, e.end(to-1)
		f.first, f.last = max(0, first-from), max(0, last-from)
	}
}

// A viewer reads the texts of findings from their files.
type viewer struct {
	index  *Index
	files  map[string]vfs.File // nil for a file that cannot be opened
	buf    []byte
	record line.Record
	calls  map[string]string // of the last message that is no result: tools by ID of the call
}

func (v *viewer) close() {
	for _, f := range v.files {
		if f != nil {
			f.Close() // it was only read
		}
	}
}

// open returns a session's file, or nil if it cannot be opened.
func (v *viewer) open(name string) vfs.File {
	f, known := v.files[name]
	if !known {
		f, _ = v.index.folder.FS.Open(v.index.file(name))
		v.files[name] = f
	}
	return f
}

// show fills in the snippet and the window of a finding.
func (v *viewer) show(f *finding, words []bm25.Explanation) {
	file := v.open(f.File)
	if file == nil {
		return
	}
	clear(v.calls)
	for i, p := range f.places {
		shown := f.first <= i && i < f.last
		if !shown && i != f.at && p.role == classTool {
			continue
		}
		limit, end := maxWindowLine, f.end
		if i == f.at {
			limit = maxHitLine
		}
		if i+1 < len(f.places) {
			end = f.places[i+1].offset
		}
		text := ""
		if v.load(file, p, end, limit, f.others) {
			text = v.text(p)
			if p.role != classTool {
				v.called()
			}
		}
		if i == f.at {
			var weights map[string]float64
			if k := slices.IndexFunc(words, func(e bm25.Explanation) bool { return e.ID == f.doc }); f.long && k >= 0 {
				weights = words[k].Weights()
			}
			text = snippet.Cut(text, v.index.analyzer, weights, maxText)
			f.Snippet = text
		}
		if shown {
			f.Window = append(f.Window, Windowed{int64(p.line), roleName(p.role, f.others), clip.Marked(text, maxText)})
		}
	}
}

// load reads and decodes the line at a place, up to limit bytes. It returns
// false if the line differs from the indexed one.
func (v *viewer) load(file vfs.File, p place, end int64, limit int, others []string) bool {
	from := max(0, p.offset-1) // the \n before
	n := min(int(end-from), limit)
	if cap(v.buf) < n {
		v.buf = make([]byte, max(n, 8<<10))
	}
	b := v.buf[:n]
	n, err := file.ReadAt(b, from)
	if err != nil && err != io.EOF {
		return false
	}
	b = b[:n]
	if p.offset > 0 {
		if n == 0 || b[0] != '\n' && !p.glued() {
			return false
		}
		b = b[1:]
	}
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		b = b[:i]
	}
	r := &v.record
	r.Decode(b, p.offset == 0)
	if r.Kind == record.KindBad && !r.Truncated { // more of the line may follow
		if found := line.Pieces(nil, b, p.offset == 0); len(found) > 0 {
			r.Decode(b[:found[0].Hi], p.offset == 0)
		}
	}
	switch {
	case r.Kind == record.KindBad && !r.Truncated:
		return false
	case r.Kind == record.KindMarker:
		return p.role == classCompact
	case r.Kind == record.KindMessage:
		return p.role != classCompact && v.role() == roleName(p.role, others)
	}
	return r.Kind == record.KindBad && (v.role() == "" || v.role() == roleName(p.role, others))
}

// role returns the role of the message in hand.
func (v *viewer) role() string {
	return clip.Bytes(v.record.Text(v.record.Values[line.KeyRole]), maxRole)
}

// text returns the text to show of the current record. It omits results, which
// are not indexed, also if only the beginning of the line was read.
func (v *viewer) text(p place) string {
	r := &v.record
	if p.role == classCompact {
		return r.Summary()
	}
	if v.index.tools {
		return v.body()
	}
	if p.role == classTool || r.IsResult() {
		return v.result()
	}
	if !p.doc() && r.Kind == record.KindBad { // the part with the role may be after the read bytes
		return ""
	}
	return v.body()
}

// body returns the content and the calls of the message in hand.
func (v *viewer) body() string {
	r := &v.record
	text := r.Text(r.Values[line.KeyContent])
	var calls []string
	for c := range r.Calls {
		name := r.Text(c.Name)
		if v.index.tools {
			name += " " + r.Text(c.Arguments)
		}
		calls = append(calls, name)
	}
	if calls != nil {
		list := "[calls " + strings.Join(calls, ", ") + "]"
		if text != "" {
			text += "\n"
		}
		text += list
	}
	return text
}

// called records the calls of the current message, which the following results
// belong to.
func (v *viewer) called() {
	r := &v.record
	clear(v.calls)
	for c := range r.Calls {
		v.calls[r.Text(c.ID)] = r.Text(c.Name)
	}
}

// result describes the current result by its tool and length.
func (v *viewer) result() string {
	r := &v.record
	n, over := len(r.Text(r.Values[line.KeyContent])), ""
	if r.Kind == record.KindBad {
		over = "over "
	}
	of := ""
	if name := v.calls[r.Text(r.Values[line.KeyToolCallID])]; name != "" {
		of = " of " + clip.Marked(name, maxRole)
	}
	return fmt.Sprintf("[result%s, %s%d bytes]", of, over, n)
}
