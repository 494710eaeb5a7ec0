package metadata

import (
	"strings"
	"unicode"

	"crabmem/bm25/clip"
)

// Limits of a title.
const (
	titleWords = 8
	titleChars = 64
	titleBytes = 64 << 10 // of the text that Title reads
)

// Title returns a name for a content: the first words in the first line with a letter or a
// number, or else in the first line with a symbol, such as an emoji. Without such a line, it
// returns "". It reads no front matter, whatever YAML that is. The name has at most 64
// characters, and no Markdown mark at its beginning.
func Title(content string) string {
	_, _, _, text, _ := Split(content)
	symbols := ""
	for line := range strings.Lines(clip.Bytes(text, titleBytes)) {
		if fenceOf(line) != "" {
			continue
		}
		title := titleOf(line)
		if strings.ContainsFunc(title, func(r rune) bool { return unicode.In(r, unicode.L, unicode.N) }) {
			return title
		}
		if symbols == "" && strings.ContainsFunc(title, isSymbol) {
			symbols = title
		}
	}
	return symbols
}

// isSymbol reports whether a character without a letter or a number can name a note.
func isSymbol(r rune) bool { return unicode.In(r, unicode.So, unicode.Sc) }

// titleOf returns a line's first words. An unspaced script has no words, so the first
// sentence counts. Brackets and the marks for emphasis and code are omitted: links could not
// contain them.
func titleOf(line string) string {
	line = strings.TrimLeftFunc(line, func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.N, unicode.M) && !isSymbol(r) && !strings.ContainsRune(`("'«“‘„「『`, r)
	})
	if end := strings.IndexAny(line, "。！？"); end > 0 {
		line = line[:end]
	}
	line = strings.Map(func(r rune) rune {
		switch {
		case strings.ContainsRune("[]*`|", r), unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d', r == unicode.ReplacementChar:
			return -1
		case unicode.IsControl(r):
			return ' '
		}
		return r
	}, line)
	words := strings.Fields(line)
	title := clipTitle(strings.Join(words[:min(len(words), titleWords)], " "))
	return strings.TrimRight(title, " .,;:!?…-–—。、，！？：；،؛؟।")
}

// clipTitle returns at most titleChars characters. It cuts between words, or else at least
// not between a letter and its accents, or within a joined emoji.
func clipTitle(s string) string {
	runes := []rune(s)
	if len(runes) <= titleChars {
		return s
	}
	joined := func(at int) bool {
		r := runes[at]
		return unicode.Is(unicode.M, r) || r == '\u200c' || r == '\u200d' || runes[at-1] == '\u200d' || '\U0001F3FB' <= r && r <= '\U0001F3FF'
	}
	end := titleChars
	for end > 1 && joined(end) {
		end--
	}
	if end == 1 { // only accents
		end = titleChars
	}
	head := string(runes[:end])
	if space := strings.LastIndexByte(head, ' '); runes[end] != ' ' && space > len(head)/3 {
		head = head[:space]
	}
	return head
}
