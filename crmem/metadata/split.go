package metadata

import "strings"

// Split splits a text at its front matter, which may be any YAML, and returns its first
// line, the lines between the marks, the line that ends it, and the text after it. Spaces
// may follow a mark. ok is false if the front matter does not begin, and open is then
// empty, or if it does not end.
func Split(text string) (open, lines, end, rest string, ok bool) {
	at := 0
	for line := range strings.Lines(text) {
		next := at + len(line)
		isMark := strings.TrimRight(line, "\r\n \t") == "---"
		switch {
		case at == 0 && !isMark:
			return "", "", "", text, false
		case at == 0:
			open = line
		case isMark:
			return open, text[len(open):at], line, text[next:], true
		}
		at = next
	}
	return open, "", "", text, false
}
