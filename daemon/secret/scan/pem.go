package scan

import "strings"

const (
	maxLabel    = 64  // characters of the label of a block
	maxHeaders  = 8   // lines before the data of a block
	maxHeader   = 200 // characters of such a line
	minData     = 20  // characters of the first line of data
	minDataLine = 16  // characters of a further line, if no end follows
)

func findPEM(text string, start, end int) (from, to int, ok bool) {
	return block(text, start, end, "PRIVATE KEY")
}

func findPGP(text string, start, end int) (from, to int, ok bool) {
	return block(text, start, end, "PGP PRIVATE KEY BLOCK")
}

// block finds a block in text armor whose label ends with a text. Its end may be
// cut off. A name of such a block without data is no secret.
func block(text string, start, end int, label string) (from, to int, ok bool) {
	at := end
	for at < len(text) && at-end < maxLabel && (text[at] == ' ' || text[at] >= 'A' && text[at] <= 'Z' || text[at] >= '0' && text[at] <= '9') {
		at++
	}
	if !strings.HasSuffix(text[end:at], label) || !strings.HasPrefix(text[at:], "-----") {
		return 0, 0, false
	}
	to, ok = data(text, at+len("-----"))
	return start, to, ok
}

// findPuTTY finds the data of a private key in the format of PuTTY. Its keyword
// precedes the number of lines.
func findPuTTY(text string, start, end int) (from, to int, ok bool) {
	for end < len(text) && text[end] == ' ' {
		end++
	}
	at := end
	for at < len(text) && at-end < 4 && text[at] >= '0' && text[at] <= '9' {
		at++
	}
	if at == end {
		return 0, 0, false
	}
	to, ok = data(text, at)
	return start, to, ok
}

// data returns the end of the base64 data of a block, and of the line that ends the
// block if it follows.
func data(text string, at int) (end int, ok bool) {
	at = skipGap(text, at)
	for range maxHeaders {
		n := header(text[at:])
		if n == 0 {
			break
		}
		at = skipGap(text, at+n)
	}
	end = skipData(text, at)
	if end-at < minData || entropy(text[at:at+minData]) < 2.5 {
		return 0, false
	}
	for {
		next := skipGap(text, end)
		if e := endLine(text, next); e > 0 {
			return e, true
		}
		to := skipData(text, next)
		if to == next || to-next < minDataLine && endLine(text, skipGap(text, to)) == 0 {
			for end < len(text) && isWord(text[end]) {
				end++
			}
			return end, true
		}
		end = to
	}
}

// header returns the length of the line that a text begins with if it is a header,
// such as "Proc-Type: 4,ENCRYPTED", and 0 if not.
func header(text string) int {
	line := text[:min(len(text), maxHeader)]
	for _, stop := range []string{"\n", `\n`} {
		line, _, _ = strings.Cut(line, stop)
	}
	name := 0
	for name < len(line) && (isAlnum(line[name]) || line[name] == '-') {
		name++
	}
	if name == 0 || !strings.HasPrefix(line[name:], ": ") || len(line) == maxHeader || strings.Contains(line, markerStart) {
		return 0
	}
	return len(line)
}

// endLine returns the end of the line that ends a block at an offset, or 0.
func endLine(text string, at int) int {
	const begin, dashes = "-----END ", "-----"
	if !strings.HasPrefix(text[at:], begin) {
		return 0
	}
	at += len(begin)
	rest := text[at:min(len(text), at+maxLabel+len(dashes))]
	if i := strings.Index(rest, dashes); i >= 0 {
		return at + i + len(dashes)
	}
	return at
}

// skipGap returns the offset after white space, line ends as source code writes
// them, quotes, and the marks that continue a string or a comment.
func skipGap(text string, at int) int {
	for at < len(text) {
		c := text[at]
		switch {
		case strings.IndexByte(" \t\r\n\"'`,#>|*", c) >= 0:
			at++
		case c == '\\' && at+1 < len(text) && strings.IndexByte("nrt\r\n", text[at+1]) >= 0:
			at += 2
		case (c == '+' || c == '/') && (at+1 == len(text) || strings.IndexByte(" \t\r\n/", text[at+1]) >= 0):
			at++
		default:
			return at
		}
	}
	return at
}

func skipData(text string, at int) int {
	for at < len(text) && (isAlnum(text[at]) || text[at] == '+' || text[at] == '/' || text[at] == '=') {
		at++
	}
	return at
}
