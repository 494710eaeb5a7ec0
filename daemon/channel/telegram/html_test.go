package telegram

import (
	"encoding/json"
	"html"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"

	"crabmem/daemon/channel"
	"crabmem/daemon/channel/telegram/telegramtest"
)

func TestHTML(t *testing.T) {
	for source, want := range map[string]string{
		"# Title\n\n**b** *i* ~~s~~ `a<b`":      "<b>Title</b>\n\n<b>b</b> <i>i</i> ~~s~~ <code>a&lt;b</code>",
		"- a\n- b\n  1. c\n  2. d":              "• a\n• b\n  1. c\n  2. d",
		"```go\na & b\n```":                     "<pre><code class=\"language-go\">a &amp; b</code></pre>",
		"```two words\na\n```":                  "<pre>two words\na</pre>",
		"> a\n> > b":                            "<blockquote>a\n\nb</blockquote>",
		"[x](https://a.b/?c=1&d=\"2\")":         "<a href=\"https://a.b/?c=1&amp;d=&#34;2&#34;\">x</a>",
		"[x](javascript:y) ![p](https://a.b/q)": "x (javascript:y) p (https://a.b/q)",
		"[x]: hidden":                           "[x]: hidden",
		"<b>raw</b> &copy; \\*":                 "&lt;b&gt;raw&lt;/b&gt; © *",
		"# **a**":                               "<b>a</b>",
		"a\n~~~x":                               "a\n\n<pre>x</pre>",
		"one\ntwo":                              "one\ntwo",
		"---":                                   "———",
	} {
		if got := toHTML(source); got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}

var (
	href     = regexp.MustCompile(`<a href="([^"]*)">`)
	language = regexp.MustCompile(`<code class="language-([^"]*)">`)
	tags     = regexp.MustCompile(`<[^>]*>`)
)

// letters returns the letters of a text, sorted by their number: a link's address follows its text.
func letters(s string) (counts [128]int) {
	for _, r := range s {
		if r < 128 && unicode.IsLetter(r) {
			counts[r]++
		}
	}
	return counts
}

// TestRandomHTML splits and renders random texts: the tags of each part are balanced, and no
// letter is lost. CRABMEM_HTML_TEXTS is the number of texts, and CRABMEM_HTML_RECORD the file for
// the parts, with the texts that people see.
func TestRandomHTML(t *testing.T) {
	pieces := []string{"word", "x", " ", " ", "\n", "\n\n", "*", "**", "_", "`", "```\n", "```go\n", "\n```\n", "- ", "1. ", "> ", "# ", "[", "](", ")", "http://x.y", "<b>", "</i>", "<", "&", "~~", "\\", "    ",
		"😀", "é", "\"", "'", "!", "[a](http://b.c)", "![", "|", "---\n", "[a]: b\n", "<!-- c -->", "\t"}
	n := 2000
	if s := os.Getenv("CRABMEM_HTML_TEXTS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	var record *json.Encoder
	if name := os.Getenv("CRABMEM_HTML_RECORD"); name != "" {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		record = json.NewEncoder(f)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		var b strings.Builder
		for range 1 + random.IntN(60) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		source := b.String()
		for _, part := range channel.Split(source, 40+random.IntN(200)) {
			out := toHTML(part)
			text, err := telegramtest.ParseHTML(out)
			if err != nil {
				t.Fatalf("text %d: %q: %q: %v", i, part, out, err)
			}
			if got, want := visible(out), len(utf16.Encode([]rune(text))); got != want {
				t.Errorf("text %d: %q has %d units, want %d", i, out, got, want)
			}
			if record != nil {
				if err := record.Encode(map[string]string{"html": out, "text": text}); err != nil {
					t.Fatal(err)
				}
			}
			all := html.UnescapeString(tags.ReplaceAllString(language.ReplaceAllString(href.ReplaceAllString(out, "$1"), "$1"), ""))
			if letters(all) != letters(html.UnescapeString(part)) {
				t.Fatalf("text %d: letters of %q: %q", i, part, out)
			}
		}
	}
}
