// Package display formats names, sizes, and times for people and models: on one
// line, and without characters that control a terminal.
package display

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Printable replaces what would move the cursor or change the terminal.
func Printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !Showable(r) }) < 0 {
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

// OneLine is text with its white space made single blanks.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Quoted is a name in quotes.
func Quoted(name string) string { return "\"" + Printable(name) + "\"" }

// SessionLabel is a session as a person sees it.
func SessionLabel(id, title string) string {
	if title == "" {
		return Label(id)
	}
	return Label(id) + " " + Quoted(title)
}

// Showable reports whether a rune stays where it is put. Bidirectional controls
// reorder what surrounds them.
func Showable(r rune) bool {
	return !unicode.IsControl(r) && !(r >= 0x202a && r <= 0x202e) && !(r >= 0x2066 && r <= 0x2069)
}
