// Package cli contains the streams, flags, exit codes, errors, and text output
// that all commands share.
package cli

import (
	"bytes"
	"encoding/json"
	"strings"

	"crabmem/bm25/snippet"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
)

// Functions of other packages under the names that commands use.
var (
	CutBytes     = snippet.Clip
	Day          = display.Day
	Label        = display.Label
	OneLine      = display.OneLine
	Printable    = display.Printable
	Quoted       = display.Quoted
	SessionLabel = display.SessionLabel
	ShellWord    = errtable.ShellWord
	Showable     = display.Showable
	Size         = display.Size
)

// Plural is [display.Plural].
func Plural[N int | int64 | uint64](n N, one, many string) string {
	return display.Plural(n, one, many)
}

// EncodeJSON encodes v on one line, without HTML escapes, with a line end.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
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

// FirstLine returns the first line of s that is not blank.
func FirstLine(s string) string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			return Printable(line)
		}
	}
	return ""
}

// PrintableLine is Printable for a line of a text, which keeps its tabs.
func PrintableLine(l string) string {
	parts := strings.Split(strings.TrimSuffix(l, "\r"), "\t")
	for k := range parts {
		parts[k] = Printable(parts[k])
	}
	return strings.Join(parts, "\t")
}
