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
func Clean(s string) string { return strings.ReplaceAll(CleanInput(s), "\t", "    ") }

// CleanInput removes what Clean removes and keeps tabs.
func CleanInput(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || display.Showable(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(s, "\ufffd"))
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

// Fold breaks a line into pieces of at most n columns: at a space, which it omits, or
// next to a wide character, or else anywhere.
func Fold(line string, n int) []string {
	n = max(n, 2)
	var rows []string
	from, w := 0, 0          // start of the piece, and its columns
	cut, next, at := 0, 0, 0 // end of the piece at the last break, start and column of the next one
	last := ' '
	for i, r := range line {
		c := RuneColumns(r)
		if r == ' ' && last != ' ' {
			cut, next, at = i, i+1, w+1
		} else if c > 0 && i > from && last != ' ' && last != '\u200d' && (c == 2 || RuneColumns(last) == 2) {
			cut, next, at = i, i, w
		}
		if w+c > n {
			if cut <= from {
				cut, next, at = i, i, w
			}
			rows = append(rows, line[from:cut])
			from, cut, w = next, next, w-at
		}
		w += c
		last = r
	}
	if from < len(line) || len(rows) == 0 {
		rows = append(rows, line[from:])
	}
	return rows
}
