package tty_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"crabmem/bench/gate"
	"crabmem/cmd/crabmem/internal/chat/tty"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/display"
)

var style = regexp.MustCompile("\x1b\\[[0-9;]+m")

// FuzzRender wants of every text: no panic, no control character but line ends
// and, with colours, styles that end; lines that fit; the same in pieces; and no
// time to speak of.
func FuzzRender(f *testing.F) {
	files, err := filepath.Glob("testdata/*.md")
	if err != nil || len(files) < 5 {
		f.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b), uint8(40), uint16(7))
	}
	for _, piece := range []string{"*a_", "[a](", "> ", "- ", "`", "<a ", "|a", "1. ", "\x1b[2J", "\u202e", "~~~\n", "日"} {
		f.Add(strings.Repeat(piece, 300), uint8(12), uint16(1))
	}
	f.Fuzz(func(t *testing.T, text string, width uint8, piece uint16) {
		if !utf8.ValidString(text) || len(text) > 64<<10 {
			return
		}
		start := time.Now()
		plain := &tty.Markdown{Width: int(width)}
		out := plain.Write(text) + plain.Flush()
		check(t, out)
		colored := &tty.Markdown{Width: int(width), Color: true}
		var got strings.Builder
		for rest := text; rest != ""; {
			n := min(int(piece)+1, len(rest))
			for n < len(rest) && !utf8.RuneStart(rest[n]) {
				n++
			}
			got.WriteString(colored.Write(rest[:n]))
			rest = rest[n:]
		}
		got.WriteString(colored.Flush())
		s := got.String()
		if opened := strings.Count(s, "\x1b[") - strings.Count(s, "\x1b[0m"); opened != strings.Count(s, "\x1b[0m") {
			t.Errorf("styles do not end: %q", s)
		}
		check(t, style.ReplaceAllString(s, ""))
		whole := &tty.Markdown{Width: int(width), Color: true}
		if w := whole.Write(text) + whole.Flush(); w != s {
			t.Errorf("in pieces %q, whole %q", s, w)
		}
		gate.Time(t, "rendering", start, 3*time.Second)
		// Prefixes of quotes and lists take what they take.
		for line := range strings.SplitSeq(out, "\n") {
			if w := int(width); w > 40 && cli.Columns(line) > w+12 {
				t.Errorf("a line of %d columns, want %d: %q", cli.Columns(line), w, line)
			}
		}
	})
}

func check(t *testing.T, s string) {
	t.Helper()
	for _, r := range s {
		if r != '\n' && !display.Showable(r) {
			t.Fatalf("%q in %q", r, s)
		}
	}
}

// FuzzKeys wants of every input: no panic, an editor that stays whole, and a
// view that fits and has the cursor in it.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("hello\r\x1b[A\x1b[13;2u\x1b[200~pasted\r\nlines\x1b[201~\x01\x0b\t\x7f"), uint8(20))
	f.Add([]byte("\x1b\x1b[\x1b[1;5D\x1bOA\x1b[99;5u\xff\xc3"), uint8(3))
	f.Add([]byte("a\\\r日本\x1b[D\x1b[D\x17"), uint8(5))
	f.Fuzz(func(t *testing.T, in []byte, width uint8) {
		var keys tty.Keys
		e := tty.Editor{History: []string{"one", "two\nlines"}, Complete: func(before string) (int, []string) {
			return 0, []string{before + "x", before + "y"}
		}}
		for len(in) > 0 {
			n := min(len(in), 5)
			for _, k := range keys.Feed(in[:n]) {
				if e.Key(k) {
					e.Remember(e.Text())
					e.Reset()
				}
			}
			in = in[n:]
			rows, row, col := e.View("> ", int(width), 5)
			if len(rows) > 5 || row < 0 || row >= len(rows) || col < 0 {
				t.Fatalf("%d rows, cursor at %d, %d", len(rows), row, col)
			}
			for _, r := range rows {
				if w := int(width); w > 10 && cli.Columns(r) >= w {
					t.Fatalf("a row of %d columns: %q", cli.Columns(r), r)
				}
				check(t, r)
			}
			if !utf8.ValidString(e.Text()) {
				t.Fatalf("%q", e.Text())
			}
		}
	})
}
