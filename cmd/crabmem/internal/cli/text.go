// Package cli contains the streams, flags, exit codes, errors, and text output
// that all commands share.
package cli

import (
	"bytes"
	"crabmem/daemon/errtable"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// EncodeJSON encodes v on one line, without HTML escapes, and ends it.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// Printable replaces what would move the cursor or change the terminal.
func Printable(s string) string {
	clean := true
	for _, r := range s {
		if !Showable(r) {
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
		case Showable(r):
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

// Label is a name as a person sees it: quoted when it is empty or begins or
// ends in a blank.
func Label(name string) string {
	if name == "" || strings.TrimSpace(name) != name {
		return "\"" + Printable(name) + "\""
	}
	return Printable(name)
}

// Fit cuts s to at most n columns, with a mark where it was cut.
func Fit(s string, n int) string {
	if n <= 0 || Columns(s) <= n {
		return s
	}
	w := 0
	for i, r := range s {
		if w += RuneColumns(r); w > n-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// Size writes a number of bytes for a person.
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return Plural(n, "byte", "bytes")
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

func Plural[N int | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, one)
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Day writes a creation time; one that no calendar holds stays a number.
func Day(unix uint64) string {
	if unix > 253402300799 { // the last second of the year 9999
		return fmt.Sprintf("@%d", unix)
	}
	return time.Unix(int64(unix), 0).UTC().Format(time.DateOnly)
}

// FirstLine returns the first line of s that has something on it.
func FirstLine(s string) string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			return Printable(line)
		}
	}
	return ""
}

// CutBytes returns the longest prefix of s of at most n bytes that ends
// between two characters.
func CutBytes(s string, n int) string {
	if n >= len(s) {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:max(n, 0)]
}

// OneLine is text with its white space made single blanks.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Quoted is a name in quotes.
func Quoted(name string) string { return "\"" + Printable(name) + "\"" }

// ShellWord is [errtable.ShellWord].
func ShellWord(word string) string { return errtable.ShellWord(word) }

// SessionLabel is a session as a person sees it.
func SessionLabel(id, title string) string {
	if title == "" {
		return Label(id)
	}
	return Label(id) + " " + Quoted(title)
}

// PrintableLine is Printable for a line of a text, which keeps its tabs.
func PrintableLine(l string) string {
	parts := strings.Split(strings.TrimSuffix(l, "\r"), "\t")
	for k := range parts {
		parts[k] = Printable(parts[k])
	}
	return strings.Join(parts, "\t")
}
