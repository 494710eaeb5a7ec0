package tty

import (
	"fmt"
	"strings"
	"sync"

	"crabmem/cmd/crabmem/internal/cli"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// Markdown turns a text that comes in pieces into formatted text, block by
// block as they become complete. Its zero value is ready.
type Markdown struct {
	Width int  // columns; 0 = do not break lines
	Color bool // may use escapes for bold and the like

	line  strings.Builder // that has no end yet
	block strings.Builder // whole lines of a block that goes on
	blank bool            // the last line was empty
	fence string          // what ends the block of code; "" outside of one
	shown bool            // something was, and an empty line parts what follows from it
}

// maxBlock is how long a block may be to be parsed: the time that the parser
// takes may grow with the cube of it. A longer one is shown as it is.
const maxBlock = 8 << 10

// maxLine is where a line is broken that does not end.
const maxLine = 4 << 10

// Write takes more of the text in and returns what is complete now.
func (m *Markdown) Write(s string) string {
	var out strings.Builder
	for s != "" {
		piece, rest, ended := strings.Cut(s, "\n")
		if room := maxLine - m.line.Len(); len(piece) > room {
			n := room
			for n > 0 && n < len(piece) && piece[n]&0xc0 == 0x80 {
				n--
			}
			if n > 0 || m.line.Len() > 0 {
				m.line.WriteString(piece[:n])
				s = s[n:]
				m.endLine(&out)
				continue
			}
			// No character ends there: there is none.
			m.line.WriteString(piece[:room])
			s = s[room:]
			m.endLine(&out)
			continue
		}
		m.line.WriteString(piece)
		if ended {
			m.endLine(&out)
		}
		s = rest
	}
	return out.String()
}

// Flush returns the rest of the text, complete or not, and resets m.
func (m *Markdown) Flush() string {
	var out strings.Builder
	if m.line.Len() > 0 {
		m.endLine(&out)
	}
	m.endBlock(&out)
	*m = Markdown{Width: m.Width, Color: m.Color}
	return out.String()
}

// Pending returns what is not shown yet, as it is.
func (m *Markdown) Pending() string { return cli.Clean(m.block.String() + m.line.String()) }

func (m *Markdown) endLine(out *strings.Builder) {
	line := strings.TrimSuffix(m.line.String(), "\r")
	m.line.Reset()
	if m.fence != "" {
		if isFenceEnd(line, m.fence) {
			m.fence = ""
			return
		}
		m.code(out, line)
		return
	}
	if strings.TrimSpace(line) == "" {
		m.blank = true
		if m.block.Len() > 0 {
			m.block.WriteString("\n")
		}
		return
	}
	indented := line[0] == ' ' || line[0] == '\t'
	if m.blank && !indented || m.block.Len()+len(line) > maxBlock {
		m.endBlock(out)
	}
	m.blank = false
	if fence := isFence(line); fence != "" && !(indented && m.block.Len() > 0) { // else it is in a list
		m.endBlock(out)
		m.fence = fence
		m.part(out)
		return
	}
	m.block.WriteString(line)
	m.block.WriteString("\n")
}

// part puts an empty line between blocks.
func (m *Markdown) part(out *strings.Builder) {
	if m.shown {
		out.WriteString("\n")
	}
	m.shown = true
}

func (m *Markdown) endBlock(out *strings.Builder) {
	src := cli.Clean(m.block.String())
	m.block.Reset()
	if strings.TrimSpace(src) == "" {
		return
	}
	m.part(out)
	out.WriteString(m.render(src))
}

// code writes a line of a block of code, which is shown as it comes.
func (m *Markdown) code(out *strings.Builder, line string) {
	w := &writer{m: m, prefix: []string{"    "}}
	w.raw(cli.Clean(line), sgrCode)
	out.WriteString(w.b.String())
}

// isFence returns what begins a block of code; "" is nothing.
func isFence(line string) string {
	l := strings.TrimLeft(line, " ")
	if len(line)-len(l) > 3 || len(l) < 3 {
		return ""
	}
	c := l[0]
	if c != '`' && c != '~' {
		return ""
	}
	n := len(l) - len(strings.TrimLeft(l, string(c)))
	if n < 3 || c == '`' && strings.Contains(l[n:], "`") {
		return ""
	}
	return l[:n]
}

func isFenceEnd(line, fence string) bool {
	l := strings.TrimLeft(line, " ")
	if len(line)-len(l) > 3 {
		return false
	}
	l = strings.TrimRight(l, " \t")
	return len(l) >= len(fence) && strings.Trim(l, fence[:1]) == ""
}

var markdownParser = sync.OnceValue(newParser)

// render formats whole blocks.
func (m *Markdown) render(src string) string {
	w := &writer{m: m, src: []byte(src)}
	if len(src) > maxBlock {
		w.raw(strings.TrimRight(src, "\n"), "")
		return w.b.String()
	}
	doc := markdownParser().Parse(text.NewReader(w.src))
	w.blocks(doc, 0)
	return w.b.String()
}

// The styles, as SGR parameters.
const (
	sgrBold   = "1"
	sgrDim    = "2"
	sgrItalic = "3"
	sgrUnder  = "4"
	sgrStrike = "9"
	sgrCode   = "36"
)

// writer writes blocks as lines.
type writer struct {
	m      *Markdown
	src    []byte
	b      strings.Builder
	prefix []string // of every line, by depth
	first  string   // in the place of the last prefix, for one line
	cell   bool     // in a table, where code has | as \|
}

// maxDepth is how deep blocks are shown in others. Deeper ones are shown as
// their text.
const maxDepth = 12

// push begins something that stands in something else. A bullet whose line it
// would be on gets a line of its own.
func (w *writer) push(prefix, first string) {
	if w.first != "" {
		w.endLine("")
	}
	w.prefix, w.first = append(w.prefix, prefix), first
}

func (w *writer) pop() { w.prefix, w.first = w.prefix[:len(w.prefix)-1], "" }

// takePrefix returns what a line begins with.
func (w *writer) takePrefix() string {
	p := strings.Join(w.prefix, "")
	if w.first != "" {
		p = strings.Join(w.prefix[:len(w.prefix)-1], "") + w.first
		w.first = ""
	}
	return p
}

func (w *writer) room() int {
	if w.m.Width <= 0 {
		return 1 << 30
	}
	return max(w.m.Width-cli.Columns(strings.Join(w.prefix, "")), 8)
}

func (w *writer) endLine(s string) {
	w.b.WriteString(strings.TrimRight(w.takePrefix()+s, " ") + "\n")
}

// raw writes lines as they are, folded where they are too long.
func (w *writer) raw(s, style string) {
	for line := range strings.SplitSeq(s, "\n") {
		for _, row := range cli.Fold(line, w.room()) {
			w.endLine(w.styled(row, style))
		}
	}
}

func (w *writer) styled(s, style string) string {
	if !w.m.Color || style == "" || s == "" {
		return s
	}
	return "\x1b[" + style + "m" + s + "\x1b[0m"
}

// blocks writes the blocks in another.
func (w *writer) blocks(parent ast.Node, depth int) {
	tight := false
	if l, ok := parent.Parent().(*ast.List); ok && parent.Kind() == ast.KindListItem {
		tight = l.IsTight
	}
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		if n != parent.FirstChild() && !tight && w.first == "" {
			w.endLine("")
		}
		w.block(n, depth)
	}
}

func (w *writer) block(n ast.Node, depth int) {
	if depth > maxDepth {
		w.raw(strings.TrimSpace(string(w.linesOf(n))), "")
		return
	}
	switch n := n.(type) {
	case *ast.Heading:
		w.flow(n, sgrBold, strings.Repeat("#", n.Level)+" ")
	case *ast.Blockquote:
		w.push("│ ", "")
		w.blocks(n, depth+1)
		w.pop()
	case *ast.List:
		w.list(n, depth)
	case *ast.CodeBlock, *ast.FencedCodeBlock:
		w.push("    ", "")
		w.raw(strings.TrimRight(string(w.linesOf(n)), "\n"), sgrCode)
		w.pop()
	case *ast.ThematicBreak:
		w.endLine(w.styled(strings.Repeat("─", min(w.room(), 40)), sgrDim))
	case *ast.HTMLBlock:
		s := string(w.linesOf(n))
		if n.HasClosure() {
			s += string(n.ClosureLine.Value(w.src))
		}
		w.raw(strings.TrimRight(s, "\n"), "")
	case *east.Table:
		w.table(n)
	case *ast.LinkReferenceDefinition: // of a link in a block before, maybe
		w.raw(strings.TrimRight(string(w.linesOf(n)), "\n"), sgrDim)
	default: // paragraphs, and the text of tight items
		if n.Type() == ast.TypeBlock && n.FirstChild() != nil && n.FirstChild().Type() == ast.TypeBlock {
			w.blocks(n, depth+1)
			return
		}
		w.flow(n, "", "")
	}
}

// linesOf are the lines of a block as they were written.
func (w *writer) linesOf(n ast.Node) []byte {
	var b []byte
	if n.Type() != ast.TypeBlock {
		return b
	}
	for i := range n.Lines().Len() {
		s := n.Lines().At(i)
		b = append(b, s.Value(w.src)...)
	}
	return b
}

func (w *writer) list(l *ast.List, depth int) {
	number := l.Start
	for n := l.FirstChild(); n != nil; n = n.NextSibling() {
		if n != l.FirstChild() && !l.IsTight {
			w.endLine("")
		}
		bullet := "• "
		if l.IsOrdered() {
			bullet = fmt.Sprintf("%d. ", number)
			number++
		}
		w.push(strings.Repeat(" ", cli.Columns(bullet)), bullet)
		if n.FirstChild() == nil {
			w.endLine("")
		}
		w.blocks(n, depth+1)
		w.pop()
	}
}
