package main

import (
	"io"
	"strings"
)

// markdownQuote writes a Markdown text as a block quote, and escapes HTML outside
// code. No content of the text can end the quote early.
func markdownQuote(w io.Writer, text string) error {
	b := []byte("\n")
	fence, open := "", false
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		switch run := fenceOf(line); {
		case fence != "":
			if len(run) >= len(fence) && run[0] == fence[0] && strings.TrimRight(line, " \t") == run {
				fence = ""
			}
		case run != "":
			fence, open = run, false
		default:
			if strings.TrimSpace(line) == "" {
				open = false
			}
			line, open = withoutHTML(line, open)
		}
		b = append(b, strings.TrimRight("> "+line, " ")+"\n"...)
	}
	_, err := w.Write(b)
	return err
}

// fenceOf returns the fence that a line begins with, or "". A fence with white
// space before it may belong to a list, which can end it.
func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		rest := strings.TrimLeft(line, c)
		if n := len(line) - len(rest); n >= 3 && (c == "~" || !strings.Contains(rest, c)) {
			return line[:n]
		}
	}
	return ""
}

// withoutHTML escapes each "<" of a line that is not in a code span. open is true if
// an earlier line of the paragraph has an unpaired run of backticks. Then, and after
// an unpaired run on this line, withoutHTML escapes every "<".
func withoutHTML(line string, open bool) (escaped string, stillOpen bool) {
	var b strings.Builder
	for rest := line; ; {
		at := strings.IndexByte(rest, '`')
		if at < 0 || open || strings.HasSuffix(rest[:at], `\`) {
			open = open || at >= 0
			b.WriteString(strings.ReplaceAll(rest, "<", "&lt;"))
			break
		}
		b.WriteString(strings.ReplaceAll(rest[:at], "<", "&lt;"))
		rest = rest[at:]
		run := rest[:len(rest)-len(strings.TrimLeft(rest, "`"))]
		end := closing(rest[len(run):], len(run))
		if end < 0 {
			open = true
			continue
		}
		n := len(run) + end
		b.WriteString(rest[:n])
		rest = rest[n:]
	}
	return b.String(), open
}

// closing returns the offset after the first run of exactly n backticks, or -1.
func closing(s string, n int) int {
	for at := 0; ; {
		i := strings.IndexByte(s[at:], '`')
		if i < 0 {
			return -1
		}
		at += i
		run := len(s[at:]) - len(strings.TrimLeft(s[at:], "`"))
		at += run
		if run == n {
			return at
		}
	}
}
