// Package cli contains the streams, flags, exit codes, errors, and text output
// that all commands share.
package cli

import (
	"bytes"
	"encoding/json"
	"strings"

	"crabmem/daemon/display"
)

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
			return display.Printable(line)
		}
	}
	return ""
}

// PrintableLine is Printable for a line of a text, which keeps its tabs.
func PrintableLine(l string) string {
	parts := strings.Split(strings.TrimSuffix(l, "\r"), "\t")
	for k := range parts {
		parts[k] = display.Printable(parts[k])
	}
	return strings.Join(parts, "\t")
}
