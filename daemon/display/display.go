// Package display formats names, sizes, and times for people and models: on one
// line, and without characters that control a terminal.
package display

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"crabmem/bm25/clip"
)

// JSON encodes v on one line, without escapes of HTML.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Printable replaces the characters of s that would move the cursor or change
// the terminal.
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

// Short returns at most n bytes from the beginning of s, as valid UTF-8 with
// [Printable] characters only. If it cuts s, the result ends in an ellipsis.
func Short(s string, n int) string {
	return clip.Marked(Printable(strings.ToValidUTF8(s, "\uFFFD")), n)
}

// Label returns name for people. It is in quotes if it is empty or begins or
// ends with white space.
func Label(name string) string {
	if name == "" || strings.TrimSpace(name) != name {
		return "\"" + Printable(name) + "\""
	}
	return Printable(name)
}

// Size formats a number of bytes, such as "1.5 KiB".
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

// Plural formats n with the singular one or the plural many, such as "2 notes".
func Plural[N int | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, one)
	}
	return fmt.Sprintf("%d %s", n, many)
}

// TimeIn formats an RFC 3339 time for people, in a time zone, rounded to seconds,
// such as "2026-04-14 12:23:45 CEST". It returns any other text with [Printable]
// characters only.
func TimeIn(text string, zone *time.Location) string {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return Printable(text)
	}
	return At(t, zone)
}

// At formats a time for people, as [TimeIn] does.
func At(t time.Time, zone *time.Location) string {
	return t.Round(time.Second).In(zone).Format("2006-01-02 15:04:05 MST")
}

// OneLine replaces each run of white space in text with one space.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Quoted returns name in quotes, with [Printable] characters only.
func Quoted(name string) string { return "\"" + Printable(name) + "\"" }

// SessionLabel returns the label of a session for people: its ID, then its
// title in quotes.
func SessionLabel(id, title string) string {
	if title == "" {
		return Label(id)
	}
	return Label(id) + " " + Quoted(title)
}

// Showable reports whether r can be printed: it is no control character and no
// bidirectional control, which would reorder the text around it.
func Showable(r rune) bool {
	return !unicode.IsControl(r) && !(r >= 0x202a && r <= 0x202e) && !(r >= 0x2066 && r <= 0x2069)
}

// Distance returns the number of insertions, deletions, replacements, and swaps of
// adjacent letters between a and b. It returns limit+1 for any larger number than limit.
func Distance(a, b []rune, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		least := row[0]
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
			least = min(least, row[j+1])
		}
		if least > limit {
			return limit + 1
		}
		before, last = last, row
	}
	return last[len(b)]
}
