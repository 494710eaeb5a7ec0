package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"crabmem/cmd/crabmem/tty"
)

// encodeJSON encodes v on one line, without HTML escapes, and ends it.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// printJSON writes v as the answer of the command.
func (c *app) printJSON(v any) error {
	b, err := encodeJSON(v)
	if err != nil {
		return err
	}
	_, err = c.out.Write(b)
	return err
}

// say writes a line for a person that --quiet and --json leave out.
func (c *app) say(format string, args ...any) {
	if !c.quiet && !c.json {
		fmt.Fprintf(c.out, format+"\n", args...)
	}
}

// printable replaces what would move the cursor or change the terminal.
func printable(s string) string {
	clean := true
	for _, r := range s {
		if !showable(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case showable(r):
			b.WriteRune(r)
		case r < 0x20:
			b.WriteRune(0x2400 + r) // its control picture
		case r == 0x7f:
			b.WriteRune('␡')
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// showable reports whether a rune stays where it is put.
func showable(r rune) bool { return tty.Showable(r) }

// label is a name as a person sees it: quoted when it is empty or begins or
// ends in a blank.
func label(name string) string {
	if name == "" || strings.TrimSpace(name) != name {
		return "\"" + printable(name) + "\""
	}
	return printable(name)
}

// columns returns how many columns s takes on a terminal.
func columns(s string) int { return tty.Columns(s) }

// fit cuts s to at most n columns, with a mark where it was cut.
func fit(s string, n int) string {
	if n <= 0 || columns(s) <= n {
		return s
	}
	w := 0
	for i, r := range s {
		if w += tty.RuneColumns(r); w > n-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// table writes rows in columns; the first row is the head. right says which
// columns hold numbers.
func (c *app) table(w io.Writer, rows [][]string, right string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(cell))
		}
	}
	for n, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-columns(cell))
			switch {
			case strings.ContainsRune(right, rune('0'+i)):
				b.WriteString(pad + cell)
			case i == len(row)-1:
				b.WriteString(cell)
			default:
				b.WriteString(cell + pad)
			}
			if i < len(row)-1 {
				b.WriteString("  ")
			}
		}
		line := b.String()
		if n == 0 {
			line = c.dim(line)
		}
		io.WriteString(w, line+"\n")
	}
}

// sizeOf writes a number of bytes for a person.
func sizeOf(n int64) string {
	switch {
	case n < 1<<10:
		return plural(n, "byte", "bytes")
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

func plural[N int | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, one)
	}
	return fmt.Sprintf("%d %s", n, many)
}

// day writes a creation time; one that no calendar holds stays a number.
func day(unix uint64) string {
	if unix > 253402300799 { // the last second of the year 9999
		return fmt.Sprintf("@%d", unix)
	}
	return time.Unix(int64(unix), 0).UTC().Format(time.DateOnly)
}

// firstLine returns the first line of s that has something on it.
func firstLine(s string) string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			return printable(line)
		}
	}
	return ""
}

// cutBytes returns the longest prefix of s of at most n bytes that ends
// between two characters.
func cutBytes(s string, n int) string {
	if n >= len(s) {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:max(n, 0)]
}

// oneLine is text with its white space made single blanks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
