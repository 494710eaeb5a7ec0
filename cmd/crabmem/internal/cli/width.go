package cli

import (
	"strings"
	"unicode"

	"crabmem/daemon/display"

	"golang.org/x/text/width"
)

// Clean removes characters that move the cursor or change the terminal: control
// characters except line ends, and bidirectional controls. A tab becomes
// blanks.
func Clean(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r != '\n' && !display.Showable(r) }) < 0 {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\t':
			b.WriteString("    ")
		case r == '\n' || display.Showable(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Columns returns the number of columns of s.
func Columns(s string) int {
	n := 0
	for _, r := range s {
		n += RuneColumns(r)
	}
	return n
}

// RuneColumns returns the number of columns of a rune.
func RuneColumns(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Fold breaks a line into pieces of at most n columns, wherever that is.
func Fold(line string, n int) []string {
	if n < 2 {
		n = 2
	}
	var rows []string
	w, from := 0, 0
	for i, r := range line {
		c := RuneColumns(r)
		if w+c > n {
			rows = append(rows, line[from:i])
			w, from = 0, i
		}
		w += c
	}
	return append(rows, line[from:])
}
