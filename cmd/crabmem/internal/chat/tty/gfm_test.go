package tty

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
)

// TestParserEqualsGoldmark renders random texts with newParser and with the
// extensions of goldmark. Most have tables, strikethrough or check boxes.
func TestParserEqualsGoldmark(t *testing.T) {
	reference := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList)).Parser()
	ours := markdownParser
	defer func() { markdownParser = ours }()
	rnd := rand.New(rand.NewPCG(1, 1))
	pieces := []string{
		"|", "|", " | ", "\\|", "-", "---", ":-:", ":--", "--:", "|---|---|\n", "| a | b |\n", "-|-\n", " \t", "\n", "\n", "\n\n", "a", "b c", "`", "`x\\|y`", "``",
		"~", "~~", "~~~", "[ ]", "[x] ", "[X]\n", "- [ ] ", "1. [x] ", "* ", "> ", "*", "**", "\\", "[a](b)", "[r]: u\n", "<b>", "é", "#", "    ", "\v", "\r\n",
	}
	tables, strikes, boxes := 0, 0, 0
	for range 60_000 {
		var b strings.Builder
		for range 1 + rnd.IntN(24) {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		src := b.String()
		if strings.Contains(src, `\\|`) {
			continue // the renderer removes the second backslash of the reference's nodes, too
		}
		render := func(p func() parser.Parser) string {
			markdownParser = p
			return (&Markdown{Width: 40, Color: true}).render(src)
		}
		want := render(func() parser.Parser { return reference })
		if got := render(ours); got != want {
			t.Fatalf("%q\ngot\n%s\nwant\n%s", src, got, want)
		}
		tables += strings.Count(want, "─┼─")
		strikes += strings.Count(want, sgrStrike)
		if strings.Contains(want, "[ ] ") || strings.Contains(want, "[x] ") {
			boxes++
		}
	}
	if tables < 500 || strikes < 500 || boxes < 500 {
		t.Errorf("%d tables, %d strikes, %d check boxes", tables, strikes, boxes)
	}
}
