package sessionlog

import (
	"hash/maphash"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
)

// part is the smallest text that an import compares: a paragraph of a message or of a
// summary, an element that begins a paragraph, or a call. One message may have grown since the last import, and
// another version may split or join messages.
type part struct {
	sum   uint64   // of class and text
	class string   // roles and kinds of texts that no version confuses
	text  string   // "" in a plan, unless known is set
	known []string // the texts around the markers of removed texts; nil without a marker
}

var partSeed = maphash.MakeSeed()

// removedTexts matches the markers that a purge, and the redaction of secrets, write in
// place of a text.
var removedTexts = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(regexp.QuoteMeta(record.Purged) + `|\[redacted: [^\]\n]*\]`)
})

func appendPart(parts []part, class, text string) []part {
	if text = strings.TrimSpace(text); text == "" {
		return parts
	}
	p := part{class: class, text: text, sum: maphash.String(partSeed, class+"\x00"+text)}
	if strings.Contains(text, "[") {
		if known := removedTexts().Split(text, -1); len(known) > 1 {
			p.known = known
		}
	}
	return append(parts, p)
}

// appendParts appends the parts of a message or of a summary.
func appendParts(parts []part, it *Item) []part {
	paragraphs := func(class, text string) {
		open := make(map[string]bool)
		for text = strings.TrimLeft(text, "\n"); text != ""; {
			end := endOfElement(text, open)
			for p := range strings.SplitSeq(text[:end], "\n\n") {
				parts = appendPart(parts, class, p)
			}
			text = strings.TrimLeft(text[end:], "\n")
		}
	}
	if it.Marker {
		paragraphs("compact", it.Summary)
		return parts
	}
	m := &it.Message
	class := m.Role
	parts = appendPart(parts, "result", m.ToolCallID)
	paragraphs(class+" reasoning", m.ReasoningContent)
	paragraphs(class, m.Content)
	for i := range m.ToolCalls {
		f := &m.ToolCalls[i].Function
		parts = appendPart(parts, "call", f.Name+"\n"+f.Arguments)
	}
	return parts
}

// maxOpen bounds the elements without an end that endOfElement searches for in a text.
const maxOpen = 32

// endOfElement returns the end of the element that begins a text, or else of the
// paragraph: a program writes elements before the text of the user. open has the
// elements without an end.
func endOfElement(text string, open map[string]bool) int {
	if i := strings.IndexAny(text[:min(len(text), 64)], " >\n"); i > 1 && text[0] == '<' && !open[text[1:i]] && len(open) < maxOpen {
		end := "</" + text[1:i] + ">"
		if n := strings.Index(text, end); n > 0 {
			return n + len(end)
		}
		open[text[1:i]] = true
	}
	if n := strings.Index(text, "\n\n"); n > 0 {
		return n
	}
	return len(text)
}

// matches reports whether two parts have the same text, except where one has a marker
// in place of a text.
func (p *part) matches(q *part) bool {
	return p.sum == q.sum || p.class == q.class && (p.covers(q) || q.covers(p))
}

// covers reports whether q has the texts around the markers of p.
func (p *part) covers(q *part) bool {
	if p.known == nil {
		return false
	}
	rest, ok := strings.CutPrefix(q.text, p.known[0])
	if !ok {
		return false
	}
	last := len(p.known) - 1
	for _, text := range p.known[1:last] {
		i := strings.Index(rest, text)
		if i < 0 {
			return false
		}
		rest = rest[i+len(text):]
	}
	return strings.HasSuffix(rest, p.known[last])
}

// comparison compares the parts of a session, in order, with the parts of a transcript.
type comparison struct {
	parts []part // of the transcript

	found   int  // parts of the transcript up to the last that matched
	covered int  // the first parts of the transcript, which the session has in this order
	lost    bool // the session has a part that the transcript does not have in this order
	removed bool // the session has a marker where the transcript has a text
}

func (c *comparison) add(p *part) {
	for !c.lost && (c.found == len(c.parts) || !p.matches(&c.parts[c.found])) {
		c.found++
		c.lost = c.found >= len(c.parts)
	}
	if !c.lost {
		c.removed = c.removed || p.known != nil && p.sum != c.parts[c.found].sum
		c.found++
	}
	if c.covered < len(c.parts) && p.matches(&c.parts[c.covered]) {
		c.covered++
	}
}

// outcome returns the outcome of an import: unchanged, updated, older, or differs. A
// session with a marker in place of a text stays, so that an import does not undo a
// purge.
func (c *comparison) outcome() outcome {
	switch complete := c.covered == len(c.parts); {
	case c.lost && complete:
		return older
	case c.lost:
		return differs
	case complete && c.removed:
		return unchanged
	}
	return updated
}

// compareWith compares the parts of the session in a file with those of a transcript.
func compareWith(parts []part, r io.ReaderAt, size, limit int64) (outcome, error) {
	c := comparison{parts: parts}
	var of []part
	for l, err := range line.Numbered(r, 0, 1, size, limit) {
		if err != nil {
			return 0, err
		}
		switch l.Kind {
		case record.KindMessage:
			of = appendParts(of[:0], &Item{Message: l.Message})
		case record.KindMarker:
			of = appendParts(of[:0], &Item{Marker: true, Summary: l.Summary})
		default:
			continue
		}
		for i := range of {
			c.add(&of[i])
		}
	}
	return c.outcome(), nil
}

// compareParts compares the parts of a transcript with those of an earlier one.
func compareParts(parts, earlier []part) outcome {
	c := comparison{parts: parts}
	for i := range earlier {
		c.add(&earlier[i])
	}
	return c.outcome()
}

// withoutTexts returns a copy of parts without the texts that their sums suffice to
// compare.
func withoutTexts(parts []part) []part {
	list := slices.Clone(parts)
	for i := range list {
		if list[i].known == nil {
			list[i].text = ""
		}
	}
	return list
}
