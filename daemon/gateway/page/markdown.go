package page

import (
	"bytes"
	"context"
	"errors"
	"html/template"
	"net/url"
	"strings"

	"crabmem/crmem/metadata"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// maxSteps limits the steps of rendering a text: bytes that the parsers of blocks read, and
// as many that those of paragraphs may read. At the limit, it takes about 0.25 s.
const maxSteps = 1 << 25

// cellSteps are the steps of a cell of a table.
const cellSteps = 64

// rendered is a text as HTML, or as it is if it would take too long to render.
type rendered struct {
	HTML  template.HTML
	Plain string
}

// markdown renders Markdown with the extensions of GitHub. Lines break where the text
// does. HTML of the text is text.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(
	html.WithHardWraps(), renderer.WithNodeRenderers(util.Prioritized(htmlAsText{}, 100))))

// render renders Markdown. HTML in it, and links to scripts, have no effect. A link of the
// store leads to the page of its entry.
func (p *Page) render(ctx context.Context, source string) rendered {
	md := linked(source)
	if paragraphSteps(md) > maxSteps {
		return rendered{Plain: source}
	}
	select {
	case p.rendering <- struct{}{}:
		defer func() { <-p.rendering }()
	case <-ctx.Done():
		return rendered{Plain: source}
	}
	page, ok := convert(ctx, []byte(md), maxSteps)
	if !ok {
		return rendered{Plain: source}
	}
	return rendered{HTML: template.HTML(page)} // htmlAsText and goldmark escape all text
}

// paragraphSteps returns a limit of the steps of rendering the paragraphs of a text. In a
// paragraph, each sign may make a parser read all of it. In a table, each row has a cell
// for each column.
func paragraphSteps(text string) int {
	steps, size, signs, lines, columns := 0, 0, 0, 0, 0
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			steps, size, signs, lines, columns = steps+size*signs+lines*columns*cellSteps, 0, 0, 0, 0
		}
		size, lines, columns = size+len(line), lines+1, max(columns, strings.Count(line, "|"))
		for i := range len(line) {
			if strings.IndexByte("*_[]><`~", line[i]) >= 0 {
				signs++
			}
		}
	}
	return steps + size*signs + lines*columns*cellSteps
}

// convert renders a text. It returns false if that takes more than limit steps, or when
// ctx ends.
func convert(ctx context.Context, source []byte, limit int) (page string, ok bool) {
	defer func() {
		if r := recover(); r == errSteps {
			page, ok = "", false
		} else if r != nil {
			panic(r)
		}
	}()
	doc := markdown.Parser().Parse(&countedReader{Reader: text.NewReader(source), ctx: ctx, left: limit})
	var b strings.Builder
	err := markdown.Renderer().Render(&b, source, doc)
	return b.String(), err == nil
}

// errSteps is the panic that ends a conversion.
var errSteps = errors.New("too many steps")

// countedReader counts the bytes that parsers of blocks look at.
type countedReader struct {
	text.Reader
	ctx  context.Context
	left int
}

func (r *countedReader) PeekLine() ([]byte, text.Segment) {
	line, s := r.Reader.PeekLine()
	if r.left -= 1 + len(line); r.left < 0 || r.ctx.Err() != nil {
		panic(errSteps)
	}
	return line, s
}

// htmlAsText renders HTML of a text as text.
type htmlAsText struct{}

func (htmlAsText) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHTMLBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		_, _ = w.WriteString("<p>")
		lines := n.Lines()
		for i := range lines.Len() {
			line := lines.At(i)
			_, _ = w.Write(util.EscapeHTML(bytes.TrimRight(line.Value(source), "\r\n")))
			_, _ = w.WriteString("<br>\n")
		}
		if h := n.(*ast.HTMLBlock); h.HasClosure() {
			_, _ = w.Write(util.EscapeHTML(bytes.TrimRight(h.ClosureLine.Value(source), "\r\n")))
		}
		_, _ = w.WriteString("</p>\n")
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			segments := n.(*ast.RawHTML).Segments
			for i := range segments.Len() {
				segment := segments.At(i)
				_, _ = w.Write(util.EscapeHTML(segment.Value(source)))
			}
		}
		return ast.WalkSkipChildren, nil
	})
}

// linked replaces the links of the store by links of Markdown. ReplaceLinks leaves the
// brackets; NUL marks those to remove.
func linked(text string) string {
	text = metadata.ReplaceLinks(text, func(link, _ string) string {
		target := metadata.Target(link)
		if !metadata.IsEntry(target) {
			return link
		}
		shown := target
		if _, after, ok := strings.Cut(link, "|"); ok {
			shown = strings.TrimSpace(after)
		}
		return "\x00[" + escapeMarkdown(shown) + "](/ui/memories?name=" + url.QueryEscape(target) + ")\x00"
	})
	return strings.NewReplacer("[[\x00", "", "\x00]]", "").Replace(text)
}

// escapeMarkdown escapes all signs of a text.
func escapeMarkdown(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < 0x80 && strings.ContainsRune("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
