package telegram

import (
	"bufio"
	"bytes"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"

	"crabmem/daemon/channel"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	gmhtml "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// markdown parses Markdown without definitions of links, which have no visible text.
var markdown = parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...),
	parser.WithInlineParsers(parser.DefaultInlineParsers()...))

// toHTML renders Markdown as the HTML of the Bot API. Tags are balanced, and no word is lost.
func toHTML(source string) string {
	r := &htmlWriter{source: []byte(source + "\n")} // the parser drops an info without a line end
	return strings.TrimSpace(r.blocks(markdown.Parse(text.NewReader(r.source)), "\n\n"))
}

// visible returns the UTF-16 units of a text of toHTML that the API counts: those outside tags.
func visible(s string) int {
	var b strings.Builder
	for s != "" {
		before, rest, _ := strings.Cut(s, "<")
		b.WriteString(before)
		_, s, _ = strings.Cut(rest, ">")
	}
	return channel.Units(html.UnescapeString(b.String()))
}

// htmlWriter renders the nodes of a text.
type htmlWriter struct {
	source []byte
	quoted bool     // in a quotation: the API does not nest them
	open   []string // tags of inline nodes
}

// blocks renders the blocks in a node.
func (r *htmlWriter) blocks(n ast.Node, between string) string {
	var list []string
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if s := r.block(c); s != "" {
			list = append(list, s)
		}
	}
	return strings.Join(list, between)
}

func (r *htmlWriter) block(n ast.Node) string {
	switch n := n.(type) {
	case *ast.Heading:
		return r.tag("b", "", n)
	case *ast.ThematicBreak:
		return "———"
	case *ast.List:
		return r.list(n)
	case *ast.Blockquote:
		if r.quoted {
			return r.blocks(n, "\n\n")
		}
		r.quoted = true
		defer func() { r.quoted = false }()
		if s := r.blocks(n, "\n\n"); s != "" {
			return "<blockquote>" + s + "</blockquote>"
		}
		return ""
	case *ast.FencedCodeBlock:
		info := ""
		if n.Info != nil {
			info = strings.TrimSpace(string(n.Info.Value(r.source)))
		}
		return code(info, r.lines(n))
	case *ast.CodeBlock:
		return code("", r.lines(n))
	case *ast.HTMLBlock:
		s := r.lines(n)
		if n.HasClosure() {
			s += string(n.ClosureLine.Value(r.source))
		}
		return html.EscapeString(strings.TrimRight(s, "\n"))
	}
	return r.inlines(n)
}

// list renders a list. The lines of an item are indented.
func (r *htmlWriter) list(n *ast.List) string {
	var items []string
	number := n.Start
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		mark := "• "
		if n.IsOrdered() {
			mark = fmt.Sprintf("%d. ", number)
			number++
		}
		items = append(items, mark+strings.ReplaceAll(r.blocks(c, "\n"), "\n", "\n  "))
	}
	return strings.Join(items, "\n")
}

func (r *htmlWriter) lines(n ast.Node) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		b.Write(line.Value(r.source))
	}
	return b.String()
}

// code returns a block of code. info is a language, or another text.
func code(info, s string) string {
	s = strings.TrimRight(s, "\n")
	isWord := !strings.ContainsFunc(info, func(c rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+#_-", c)
	})
	switch {
	case info != "" && !isWord:
		s = strings.TrimRight(info+"\n"+s, "\n")
	case info != "" && strings.TrimSpace(s) == "":
		s = info
	case info != "":
		return `<pre><code class="language-` + info + `">` + html.EscapeString(s) + "</code></pre>"
	}
	if strings.TrimSpace(s) == "" {
		return ""
	}
	return "<pre>" + html.EscapeString(s) + "</pre>"
}

// tag renders the inline nodes in a node between tags, unless they are open or contain no text.
// The first tag has the attributes, each after a space.
func (r *htmlWriter) tag(name, attributes string, n ast.Node) string {
	if slices.Contains(r.open, name) {
		return r.inlines(n)
	}
	r.open = append(r.open, name)
	s := r.inlines(n)
	r.open = r.open[:len(r.open)-1]
	if strings.TrimSpace(s) == "" {
		return s
	}
	return "<" + name + attributes + ">" + s + "</" + name + ">"
}

// inlines renders the inline nodes in a node.
func (r *htmlWriter) inlines(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		b.WriteString(r.inline(c))
	}
	return b.String()
}

func (r *htmlWriter) inline(n ast.Node) string {
	switch n := n.(type) {
	case *ast.Text:
		s := r.plain(n.Segment.Value(r.source))
		if n.SoftLineBreak() || n.HardLineBreak() {
			s += "\n"
		}
		return s
	case *ast.String:
		return html.EscapeString(string(n.Value))
	case *ast.Emphasis:
		return r.tag([]string{"i", "b"}[min(n.Level, 2)-1], "", n)
	case *ast.CodeSpan:
		var s strings.Builder
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			if t, ok := c.(*ast.Text); ok {
				s.Write(t.Segment.Value(r.source))
			}
		}
		return "<code>" + html.EscapeString(strings.ReplaceAll(s.String(), "\n", " ")) + "</code>"
	case *ast.AutoLink:
		return html.EscapeString(string(n.Label(r.source)))
	case *ast.RawHTML:
		return html.EscapeString(string(n.Segments.Value(r.source)))
	case *ast.Image:
		return r.link(n, n.Destination, n.Title, false)
	case *ast.Link:
		return r.link(n, n.Destination, n.Title, true)
	}
	return r.inlines(n)
}

// link renders a link to a web page, and any other one as a text with its address.
func (r *htmlWriter) link(n ast.Node, to, title []byte, tag bool) string {
	address := string(to)
	if len(title) > 0 {
		address += " " + string(title)
	}
	u, err := url.Parse(address)
	if tag = tag && err == nil && len(title) == 0 && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && !slices.Contains(r.open, "a"); tag {
		if s := r.tag("a", ` href="`+html.EscapeString(address)+`"`, n); strings.TrimSpace(s) != "" {
			return s
		}
	}
	return strings.TrimSpace(r.inlines(n) + " (" + html.EscapeString(address) + ")")
}

// plain resolves the escapes and the entities of Markdown, and escapes the text.
func (r *htmlWriter) plain(raw []byte) string {
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	gmhtml.DefaultWriter.Write(w, raw)
	_ = w.Flush() // to a buffer: never fails
	return b.String()
}
