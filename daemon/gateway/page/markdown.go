package page

import (
	"bytes"
	"context"
	"html/template"
	"net/url"
	"strings"

	"crabmem/crmem/metadata"

	"github.com/yuin/goldmark"
)

// maxCost limits the product of the bytes of a text and the number of its signs: the time
// to render nested signs grows with the product. At the limit, it takes about 0.25 s.
const maxCost = 1 << 25

// rendered is a text as HTML, or as it is if it would take too long to render.
type rendered struct {
	HTML  template.HTML
	Plain string
}

// render renders Markdown. HTML in it, and links to scripts, have no effect. A link of the
// store leads to the page of its entry.
func (p *Page) render(ctx context.Context, text string) rendered {
	text, source := linked(text), text
	signs := 0
	for i := range len(text) {
		if strings.IndexByte("*_[]><`~", text[i]) >= 0 {
			signs++
		}
	}
	if signs > 0 && len(text) > maxCost/signs {
		return rendered{Plain: source}
	}
	select {
	case p.rendering <- struct{}{}:
		defer func() { <-p.rendering }()
	case <-ctx.Done():
		return rendered{Plain: source}
	}
	var b bytes.Buffer
	if err := goldmark.Convert([]byte(text), &b); err != nil {
		return rendered{Plain: source}
	}
	return rendered{HTML: template.HTML(b.String())} // goldmark omits HTML of the text, and escapes the rest
}

// linked replaces the links of the store by links of Markdown. ReplaceLinks leaves the
// brackets; NUL marks those to remove.
func linked(text string) string {
	text = metadata.ReplaceLinks(text, func(link, _ string) string {
		target := metadata.Target(link)
		if target == "" {
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
