package tty

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
)

var update = flag.Bool("update", false, "write the golden files")

// TestMarkdown renders testdata/*.md at 40 columns, with and without styles. A
// golden file has escapes as ␛.
func TestMarkdown(t *testing.T) {
	files, err := filepath.Glob("testdata/*.md")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, color := range []bool{false, true} {
				m := &Markdown{Width: 40, Color: color}
				got += m.Write(string(b)) + m.Flush() + "=====\n"
			}
			got = strings.ReplaceAll(got, "\x1b", "␛")
			golden := strings.TrimSuffix(name, ".md") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestMarkdownInPieces wants the same whatever the pieces are that a text comes
// in, and complete blocks at once.
func TestMarkdownInPieces(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.md")
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		whole := &Markdown{Width: 40, Color: true}
		want := whole.Write(string(b)) + whole.Flush()
		m := &Markdown{Width: 40, Color: true}
		got := ""
		for _, r := range string(b) {
			got += m.Write(string(r))
		}
		if got += m.Flush(); got != want {
			t.Errorf("%s: rune by rune %q, want %q", name, got, want)
		}
	}
	m := &Markdown{}
	if got := m.Write("one\n\ntwo\n```\ncode\n"); got != "one\n\ntwo\n\n    code\n" {
		t.Errorf("complete: %q", got)
	}
	if got := m.Write("mo"); got != "" || m.Pending() != "mo" {
		t.Errorf("%q is complete, %q pending", got, m.Pending())
	}
}

// TestMarkdownWraps breaks lines between words, next to wide characters, in words that are
// longer than a line, and in code, whatever the length of the source line.
func TestMarkdownWraps(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"one two three four five", "one two three\nfour five\n"},
		{"see 日本語の文章です, ok", "see 日本語の文章\nです, ok\n"},
		{"a https://example.org/path b", "a\nhttps://example.\norg/path b\n"},
		{"- one two three four", "• one two three\n  four\n"},
		{"```\nif a == b { return nil }\n```\n", "    if a == b {\n    return nil }\n"},
	} {
		for piece := 1; piece <= len(tc.text); piece += 3 {
			m, got := &Markdown{Width: 16}, ""
			for b := range slices.Chunk([]byte(tc.text), piece) {
				got += m.Write(string(b))
			}
			if got += m.Flush(); got != tc.want {
				t.Errorf("%q in pieces of %d: %q, want %q", tc.text, piece, got, tc.want)
			}
		}
	}
	for _, width := range []int{40, 0} {
		m := &Markdown{Width: width}
		text := strings.Repeat("wörters ", 2000)
		got := m.Write(text) + m.Flush()
		if strings.Join(strings.Fields(got), " ") != strings.TrimSpace(text) {
			t.Errorf("width %d: a word of a long line is in pieces", width)
		}
	}
}

// TestMarkdownTime renders what parsers take long for.
func TestMarkdownTime(t *testing.T) {
	for _, piece := range []string{"*a_", "[a](", "> ", "[", "![", "`", "- ", "<a ", "**a", "a|", "\\", "&#", "1. ", "| - ", "[^1]", "<!--", "\t", "_", "~~~"} {
		for _, sep := range []string{"", "\n", "\n\n"} {
			text := strings.Repeat(piece+sep, (32<<10)/len(piece+sep))
			start := time.Now()
			m := &Markdown{Width: 80, Color: true}
			n := len(m.Write(text)) + len(m.Flush())
			gate.Time(t, fmt.Sprintf("%q %q, %d bytes", piece, sep, n), start, 5*time.Second)
		}
	}
}
