package channel

import (
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// fence begins and ends a block of code.
const fence = "```"

// maxInfo is the longest line that begins a block of code and is repeated in a later part.
const maxInfo = 64 // bytes

// Split cuts a text into parts of at most limit UTF-16 units, at paragraphs, lines, blanks, or
// characters. A block of code that a cut divides ends with the part, and begins again in the
// next one. A text without visible characters has no parts.
func Split(text string, limit int) (parts []string) {
	text = strings.ToValidUTF8(text, "\ufffd")
	open := "" // line that begins the block of code at the cut
	for {
		text = strings.TrimLeft(text, "\n")
		if strings.TrimSpace(text) == "" {
			return parts
		}
		begin := ""
		if open != "" {
			begin = open + "\n"
		}
		if Units(begin)+Units(text) <= limit {
			return append(parts, begin+strings.TrimRight(text, " \n"))
		}
		n := cut(text, limit-Units(begin)-len("\n"+fence))
		part := begin + strings.TrimRight(text[:n], " \n")
		text = text[n:]
		if open = openFence(part); open != "" {
			part += "\n" + fence
			if rest, ok := strings.CutPrefix(strings.TrimLeft(text, "\n"), fence); ok && (rest == "" || rest[0] == '\n') {
				text, open = rest, "" // the block ends at the cut
			}
		}
		parts = append(parts, part)
	}
}

// Units returns the number of UTF-16 units.
func Units(s string) (n int) {
	for _, r := range s {
		n += unitsOf(r)
	}
	return n
}

func unitsOf(r rune) int {
	if r > 0xffff {
		return 2
	}
	return 1
}

// cut returns the length in bytes of the longest beginning of at most limit units that ends at
// the best place in its second half, and not within a character. It is at least one rune.
func cut(s string, limit int) int {
	n, most := 0, 0
	for i, r := range s {
		if n += unitsOf(r); n > limit {
			break
		}
		most = i + utf8.RuneLen(r)
	}
	for _, at := range []string{"\n\n", "\n", " "} {
		if i := strings.LastIndex(s[:most], at); i >= most/2 && i > 0 {
			return i + len(at)
		}
	}
	last := 0
	for g := graphemes.FromString(s[:min(len(s), most+utf8.UTFMax)]); g.Next() && g.End() <= most; {
		last = g.End()
	}
	for last > 0 && last < len(s) && s[last-1] == fence[0] && s[last] == fence[0] {
		last-- // not within a fence
	}
	if last == 0 {
		last = most // one character is longer than a part
	}
	if last == 0 {
		_, last = utf8.DecodeRuneInString(s)
	}
	return last
}

// openFence returns the line that begins a block of code without an end, or "".
func openFence(s string) (open string) {
	for line := range strings.Lines(s) {
		trimmed := strings.TrimSpace(line)
		switch {
		case open == "" && strings.HasPrefix(trimmed, fence):
			if open = trimmed; len(open) > maxInfo {
				open = fence
			}
		case trimmed == fence:
			open = ""
		}
	}
	return open
}
