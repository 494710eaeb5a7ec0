package tty

import (
	"strings"
	"unicode/utf8"

	"crabmem/cmd/crabmem/internal/cli"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"
)

// span is a text in one style. The span "\n" ends a line.
type span struct{ text, style string }

// maxInline limits the nesting of styles. Deeper text has the style of its
// parent.
const maxInline = 32

// spans collects the text of a block.
func (w *writer) spans(n ast.Node, style string, depth int, to []span) []span {
	if depth > maxInline {
		return to
	}
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			to = append(to, span{unescape(c.Segment.Value(w.src), c.IsRaw()), style})
			switch {
			case c.HardLineBreak():
				to = append(to, span{"\n", ""})
			case c.SoftLineBreak():
				to = append(to, span{" ", style})
			}
		case *ast.String:
			to = append(to, span{string(c.Value), style})
		case *ast.CodeSpan:
			mark := ""
			if !w.m.Color {
				mark = "`"
			}
			var b strings.Builder
			for t := c.FirstChild(); t != nil; t = t.NextSibling() {
				if t, ok := t.(*ast.Text); ok {
					b.WriteString(strings.ReplaceAll(string(t.Segment.Value(w.src)), "\n", " "))
				}
			}
			code := b.String()
			if w.cell {
				code = strings.ReplaceAll(code, `\|`, "|")
			}
			to = append(to, span{mark + code + mark, add(style, sgrCode)})
		case *ast.Emphasis:
			s := sgrItalic
			if c.Level == 2 {
				s = sgrBold
			}
			to = w.spans(c, add(style, s), depth+1, to)
		case *east.Strikethrough:
			to = w.spans(c, add(style, sgrStrike), depth+1, to)
		case *east.TaskCheckBox:
			box := "[ ] "
			if c.IsChecked {
				box = "[x] "
			}
			to = append(to, span{box, style})
		case *ast.Link:
			before := len(to)
			to = w.spans(c, add(style, sgrUnder), depth+1, to)
			to = w.target(to, before, unescape(c.Destination, false), style)
		case *ast.Image:
			to = append(to, span{"[image] ", style})
			before := len(to)
			to = w.spans(c, style, depth+1, to)
			to = w.target(to, before, unescape(c.Destination, false), style)
		case *ast.AutoLink:
			to = append(to, span{string(c.URL(w.src)), add(style, sgrUnder)})
		case *ast.RawHTML:
			for i := range c.Segments.Len() {
				s := c.Segments.At(i)
				to = append(to, span{strings.ReplaceAll(string(s.Value(w.src)), "\n", " "), style})
			}
		default:
			to = w.spans(c, style, depth+1, to)
		}
	}
	return to
}

// target adds the target of a link unless it is the text of the link.
func (w *writer) target(to []span, from int, url, style string) []span {
	var b strings.Builder
	for _, s := range to[from:] {
		b.WriteString(s.text)
	}
	if url = cli.Clean(strings.ReplaceAll(url, "\n", "")); url == "" || url == b.String() {
		return to
	}
	return append(to, span{" (" + url + ")", add(style, sgrDim)})
}

// unescape resolves backslashes and entities.
func unescape(b []byte, raw bool) string {
	if !raw {
		b = util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(b)))
	}
	return string(b)
}

func add(style, more string) string {
	if style == "" {
		return more
	}
	for part := range strings.SplitSeq(style, ";") {
		if part == more {
			return style
		}
	}
	return style + ";" + more
}

// flow writes the text of a block and breaks lines between words.
func (w *writer) flow(n ast.Node, style, first string) {
	var spans []span
	if first != "" {
		spans = append(spans, span{first, style})
	}
	spans = w.spans(n, style, 0, spans)
	l := &line{w: w}
	for _, s := range spans {
		if s.text == "\n" {
			l.end()
			continue
		}
		l.add(cli.Clean(s.text), s.style)
	}
	l.end()
}

// line is an incomplete line.
type line struct {
	w     *writer
	text  []span // of the line
	cols  int
	word  []span // after the text; a line contains all of it or nothing
	wcols int
	gap   bool // a space precedes the word
}

// add adds a text. A wide character is a word without a gap around it.
func (l *line) add(s, style string) {
	from := 0
	for i, r := range s {
		wide := cli.RuneColumns(r) == 2
		if !wide && r != ' ' && r != '\n' {
			continue
		}
		if from < i {
			l.letters(s[from:i], style)
		}
		l.endWord()
		from = i + utf8.RuneLen(r)
		if wide {
			l.letters(s[i:from], style)
			l.endWord()
		} else {
			l.gap = true
		}
	}
	if from < len(s) {
		l.letters(s[from:], style)
	}
}

func (l *line) letters(s, style string) {
	room := l.w.room()
	for {
		n := cli.Columns(s)
		if l.wcols+n <= room {
			l.word = append(l.word, span{s, style})
			l.wcols += n
			return
		}
		// Break a word that is longer than a line.
		if l.wcols > 0 {
			l.endWord()
			l.newLine()
			continue
		}
		rows := cli.Fold(s, room)
		l.word = append(l.word, span{rows[0], style})
		l.wcols = cli.Columns(rows[0])
		s = s[len(rows[0]):]
		if s == "" {
			return
		}
	}
}

func (l *line) endWord() {
	if l.wcols == 0 && len(l.word) == 0 {
		return
	}
	gap := 0
	if l.gap && l.cols > 0 {
		gap = 1
	}
	if l.cols+gap+l.wcols > l.w.room() {
		l.newLine()
		gap = 0
	}
	if gap > 0 {
		style := ""
		if len(l.text) > 0 && len(l.word) > 0 && l.text[len(l.text)-1].style == l.word[0].style {
			style = l.word[0].style
		}
		l.text = append(l.text, span{" ", style})
	}
	l.text = append(l.text, l.word...)
	l.cols += gap + l.wcols
	l.word, l.wcols, l.gap = nil, 0, false
}

func (l *line) newLine() {
	if len(l.text) == 0 {
		return
	}
	var b strings.Builder
	for i := 0; i < len(l.text); {
		j := i
		var part strings.Builder
		for ; j < len(l.text) && l.text[j].style == l.text[i].style; j++ {
			part.WriteString(l.text[j].text)
		}
		b.WriteString(l.w.styled(part.String(), l.text[i].style))
		i = j
	}
	l.w.endLine(b.String())
	l.text, l.cols = nil, 0
}

func (l *line) end() {
	l.endWord()
	l.newLine()
	l.gap = false
}

// plain returns the text of a block without styles.
func (w *writer) plain(n ast.Node) string {
	var b strings.Builder
	for _, s := range w.spans(n, "", 0, nil) {
		b.WriteString(strings.ReplaceAll(s.text, "\n", " "))
	}
	return strings.TrimSpace(cli.Clean(b.String()))
}

// table writes a table in columns, or with a line for each cell if it is too
// wide.
func (w *writer) table(t *east.Table) {
	var rows [][]string
	var widths []int
	for r := t.FirstChild(); r != nil; r = r.NextSibling() {
		var row []string
		for c := r.FirstChild(); c != nil; c = c.NextSibling() {
			w.cell = true
			cell := w.plain(c)
			w.cell = false
			if len(row) == len(widths) {
				widths = append(widths, 0)
			}
			widths[len(row)] = max(widths[len(row)], cli.Columns(cell))
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	total := 0
	for _, n := range widths {
		total += n + 3
	}
	if len(rows) == 0 || total-3 > w.room() {
		w.cells(rows)
		return
	}
	for i, row := range rows {
		var b strings.Builder
		for j, cell := range row {
			if j > 0 {
				b.WriteString(" │ ")
			}
			b.WriteString(cell)
			if j < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[j]-cli.Columns(cell)))
			}
		}
		style := ""
		if i == 0 {
			style = sgrBold
		}
		w.endLine(w.styled(b.String(), style))
		if i == 0 {
			var rule []string
			for _, n := range widths {
				rule = append(rule, strings.Repeat("─", n))
			}
			w.endLine(w.styled(strings.Join(rule, "─┼─"), sgrDim))
		}
	}
}

func (w *writer) cells(rows [][]string) {
	for i, row := range rows {
		if i == 0 && len(rows) > 1 {
			continue
		}
		if i > 1 {
			w.endLine("")
		}
		for j, cell := range row {
			name := ""
			if i > 0 && j < len(rows[0]) && rows[0][j] != "" {
				name = rows[0][j] + ": "
			}
			l := &line{w: w}
			l.add(name, sgrBold)
			l.gap = name != ""
			l.add(cell, "")
			l.end()
		}
	}
}
