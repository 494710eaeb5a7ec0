package mcpclient

import (
	"fmt"
	"strings"
)

// contextLines is the number of unchanged lines that a diff shows on each side.
const contextLines = 3

// Diff returns the lines that differ between two versions of a file as a unified
// diff with one hunk, and "" for equal versions.
func Diff(path string, before, after []byte) string {
	if string(before) == string(after) {
		return ""
	}
	a, b := splitLines(string(before)), splitLines(string(after))
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	from, last := max(head-contextLines, 0), min(tail, contextLines)
	var s strings.Builder
	fmt.Fprintf(&s, "--- %s\n+++ %s\n@@ -%s +%s @@\n", path, path, span(from, len(a)-tail+last), span(from, len(b)-tail+last))
	write := func(mark string, lines []string) {
		for _, l := range lines {
			s.WriteString(mark + strings.TrimRight(l, "\r\n") + "\n")
		}
	}
	write(" ", a[from:head])
	write("-", a[head:len(a)-tail])
	write("+", b[head:len(b)-tail])
	write(" ", a[len(a)-tail:len(a)-tail+last])
	return s.String()
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.SplitAfter(strings.TrimSuffix(s, "\n"), "\n")
}

// span returns a range of lines as the header of a hunk does: the first line and the
// number of lines.
func span(from, to int) string {
	if from == to {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}
