package page

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yuin/goldmark/text"

	"crabmem/fuzz/race"
)

// TestMarkdown checks the HTML of texts. HTML in a text is text.
func TestMarkdown(t *testing.T) {
	p := &Page{rendering: make(chan struct{}, 1)}
	for text, want := range map[string]string{
		"type `x` List<String> here":                   "<p>type <code>x</code> List&lt;String&gt; here</p>\n",
		"git clone <url> now":                          "<p>git clone &lt;url&gt; now</p>\n",
		"<div class=\"a\">\n**b** & c\n</div>":         "<p>&lt;div class=&quot;a&quot;&gt;<br>\n**b** &amp; c<br>\n&lt;/div&gt;<br>\n</p>\n",
		"<!-- note\n-->\n\nafter":                      "<p>&lt;!-- note<br>\n--&gt;</p>\n<p>after</p>\n",
		"a <b\nc=\"d\"> e":                             "<p>a &lt;b\nc=&quot;d&quot;&gt; e</p>\n",
		"one\ntwo":                                     "<p>one<br>\ntwo</p>\n",
		"~~old~~ https://example.com/a":                "<p><del>old</del> <a href=\"https://example.com/a\">https://example.com/a</a></p>\n",
		"- [ ] open\n- [x] done":                       "<ul>\n<li><input disabled=\"\" type=\"checkbox\"> open</li>\n<li><input checked=\"\" disabled=\"\" type=\"checkbox\"> done</li>\n</ul>\n",
		"| port | use |\n|---|:-:|\n| 7100 | <kiln> |": "<table>\n<thead>\n<tr>\n<th>port</th>\n<th style=\"text-align:center\">use</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>7100</td>\n<td style=\"text-align:center\">&lt;kiln&gt;</td>\n</tr>\n</tbody>\n</table>\n",
	} {
		if got := p.render(context.Background(), text); string(got.HTML) != want {
			t.Errorf("%q: %q %q, want %q", text, got.HTML, got.Plain, want)
		}
	}
}

// TestMarkdownSteps renders hostile texts of one size and of twice the size. The steps
// double, or the text is shown as it is.
func TestMarkdownSteps(t *testing.T) {
	race.Skip(t)
	p := &Page{rendering: make(chan struct{}, 1)}
	var slowest time.Duration
	repeat := func(part string) func(int) string {
		return func(n int) string { return strings.Repeat(part, n/len(part)) }
	}
	hostileTexts := map[string]func(int) string{
		"deep list and blank lines": func(n int) string { return strings.Repeat("- ", n/4) + "a\n" + strings.Repeat("\n", n/2) },
		"deep quote and lines":      func(n int) string { return strings.Repeat("> ", n/4) + "a\n" + strings.Repeat("a\n", n/4) },
		"list by indentation": func(n int) string {
			var b strings.Builder
			for i := 0; b.Len() < n; i++ {
				b.WriteString(strings.Repeat("  ", i) + "- a\n")
			}
			return b.String()
		},
		"columns": func(n int) string {
			return strings.Repeat("|a", n/4) + "|\n" + strings.Repeat("|-", n/4) + "|\n" + strings.Repeat("a\n", n/4)
		},
	}
	for _, part := range []string{"+ ", "1. ", "- + ", "> ", ">- ", "* ", "[", "![", "[[a", "[a](", "[a]: b\n", "*a ", "**", "_a_", "a*", "~", "~~a", "`", "`` ` ", "<", "<a ", "<!--", "<?", "&", "&amp;", "\\*", "|", "a|\n-|\n",
		"# ", "    ", "\t", "- a\n", "(http://a.b/", "www.a.b ", "a@b ", "_a@b", "- [ ] ", "\n", " \n", "```\n", "~~~ a\n", "a\n=\n", "[[x]] ", "\x00", "(", "!", "--", "***\n", "<div>\n", "</", "http://", "a_"} {
		hostileTexts[fmt.Sprintf("%q", part)] = repeat(part)
	}
	for name, of := range hostileTexts {
		for _, n := range []int{1 << 11, 1 << 13, 1 << 16} {
			once, ok := steps(of(n))
			twice, ok2 := steps(of(2 * n))
			if n == 1<<16 && ok2 && twice > 3*once {
				t.Errorf("%s: %d steps for %d bytes, %d for twice as many", name, once, n, twice)
			}
			if !ok && ok2 {
				t.Errorf("%s: %d bytes are rendered, and half of them are not", name, 2*n)
			}
			began := time.Now()
			got := p.render(context.Background(), of(n))
			if took := time.Since(began); took > slowest {
				slowest = took
				t.Logf("%s: %d bytes: %v", name, n, took)
			}
			if (got.Plain == "") != ok {
				t.Errorf("%s: %d bytes: rendered %v, want %v", name, n, got.Plain == "", ok)
			}
		}
	}
}

// steps returns the steps of rendering a text, and whether they are within the limit.
func steps(source string) (n int, ok bool) {
	source = linked(source)
	n = paragraphSteps(source)
	if n > maxSteps {
		return n, false
	}
	r := &countedReader{Reader: text.NewReader([]byte(source)), ctx: context.Background(), left: maxSteps}
	defer func() {
		n += maxSteps - r.left
		ok = recover() == nil
	}()
	markdown.Parser().Parse(r)
	return n, true
}

// TestMarkdownStops checks that rendering ends when the browser leaves.
func TestMarkdownStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, ok := convert(ctx, []byte("text"), maxSteps); ok {
		t.Error("a text was rendered for a browser that left")
	}
	if _, ok := convert(context.Background(), []byte("text"), 3); ok {
		t.Error("a text was rendered beyond the limit")
	}
}
