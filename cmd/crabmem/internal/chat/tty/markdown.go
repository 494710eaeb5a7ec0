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

// Markdown formats a text that arrives in parts. It returns each block when the
// block is complete. The zero value is ready.
type Markdown struct {
	Width int  // columns; 0: do not break lines
	Color bool // use escape sequences for styles

	line  strings.Builder // incomplete line
	block strings.Builder // complete lines of an incomplete block
	blank bool            // the last line was empty
	fence string          // end of the code block; "" outside a code block
	shown bool            // an empty line precedes the next block
}

// maxBlock limits a block to parse, in bytes: the time of the parser may grow with
// its cube. A longer block is not formatted.
const maxBlock = 8 << 10

// maxLine limits a line, in bytes. Write breaks a longer one, outside code at a space.
const maxLine = 4 << 10

// Write adds a part of the text and returns the formatted blocks that it
// completes.
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
				m.breakLine(&out)
				continue
			}
			// Not the end of a character: the bytes are not UTF-8.
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

// Flush returns the formatted rest of the text and resets m.
func (m *Markdown) Flush() string {
	var out strings.Builder
	if m.line.Len() > 0 {
		m.endLine(&out)
	}
	m.endBlock(&out)
	*m = Markdown{Width: m.Width, Color: m.Color}
	return out.String()
}

// Pending returns the incomplete block without formatting.
func (m *Markdown) Pending() string { return cli.Clean(m.block.String() + m.line.String()) }

// breakLine ends a line that is too long.
func (m *Markdown) breakLine(out *strings.Builder) {
	line, rest := m.line.String(), ""
	if i := strings.LastIndexByte(line, ' '); m.fence == "" && i > 0 && strings.TrimSpace(line[:i]) != "" {
		line, rest = line[:i], line[i+1:]
	}
	m.line.Reset()
	m.line.WriteString(line)
	m.endLine(out)
	m.line.WriteString(rest)
}

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
	if fence := isFence(line); fence != "" && !(indented && m.block.Len() > 0) { // otherwise the fence is in a list
		m.endBlock(out)
		m.fence = fence
		m.part(out)
		return
	}
	m.block.WriteString(line)
	m.block.WriteString("\n")
}

// part writes an empty line between blocks.
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

// code writes a line of a code block at once.
func (m *Markdown) code(out *strings.Builder, line string) {
	w := &writer{m: m, prefix: []string{"    "}}
	w.raw(cli.Clean(line), sgrCode)
	out.WriteString(w.b.String())
}

// isFence returns the fence that begins a code block, or "".
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

// render formats complete blocks.
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
	prefix []string // of each line, by depth
	first  string   // replaces the last prefix for one line
	cell   bool     // in a table, where \| in code means |
}

// maxDepth limits the nesting of blocks. Deeper blocks are plain text.
const maxDepth = 12

// push begins a nested block. It writes a pending bullet on a separate line.
func (w *writer) push(prefix, first string) {
	if w.first != "" {
		w.endLine("")
	}
	w.prefix, w.first = append(w.prefix, prefix), first
}

func (w *writer) pop() { w.prefix, w.first = w.prefix[:len(w.prefix)-1], "" }

// takePrefix returns the prefix of the next line.
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

// raw writes lines without formatting and folds long lines.
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

// blocks writes the child blocks of a block.
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
	case *ast.LinkReferenceDefinition: // may belong to a link in an earlier block
		w.raw(strings.TrimRight(string(w.linesOf(n)), "\n"), sgrDim)
	default: // paragraphs, and the text of tight items
		if n.Type() == ast.TypeBlock && n.FirstChild() != nil && n.FirstChild().Type() == ast.TypeBlock {
			w.blocks(n, depth+1)
			return
		}
		w.flow(n, "", "")
	}
}

// linesOf returns the source lines of a block.
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
