package tty

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
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
