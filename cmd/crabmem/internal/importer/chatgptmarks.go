package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ChatGPT marks citations in the text of an answer, in two ways:
//
//	【11†source】 or 【4:0†report.pdf】
//	<U+E200>cite<U+E202>turn0search1<U+E202>turn0news2<U+E201>
//
// Private-use characters separate the parts of the second form. The kinds entity
// and url contain text that the user saw; all others refer to sources that are
// not in the export.
const (
	markOpen  = '\uE200'
	markClose = '\uE201'
	markSplit = "\uE202"

	maxMark = 16 << 10 // bytes of a mark; a longer one is text
)

// withoutMarks returns a text without citation marks. It keeps text in marks that the
// user saw, and calls removed with the kind of each mark.
func withoutMarks(s string, removed func(kind string)) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return isMark(r) || r == '【' }) {
		return s
	}
	var b []byte
	for s != "" {
		i := strings.IndexFunc(s, func(r rune) bool { return isMark(r) || r == '【' })
		if i < 0 {
			break
		}
		b = append(b, s[:i]...)
		s = s[i:]
		r, size := utf8.DecodeRuneInString(s)
		length, text, kind := size, "", ""
		switch {
		case r == '【':
			if length = bracketMark(s); length == 0 {
				b, s = append(b, s[:size]...), s[size:]
				continue
			}
			kind = "source"
		case r == markOpen:
			if end := strings.IndexRune(s[:min(len(s), maxMark)], markClose); end > 0 {
				length = end + utf8.RuneLen(markClose)
				text, kind = markText(s[size:end])
			}
		}
		if s = s[length:]; kind != "" {
			removed(kind)
		}
		if b = append(b, text...); text == "" && kind != "" && endsPhrase(s) {
			b = bytes.TrimRight(b, " ")
		}
	}
	return string(append(b, s...))
}

// isMark reports whether a character is one of the private-use characters in
// ChatGPT's marks.
func isMark(r rune) bool { return r >= markOpen && r <= '\uE20F' }

// bracketMark returns the length of a mark such as 【11†source】 that begins s, or
// 0 if s begins with other text in such brackets.
func bracketMark(s string) int {
	at, rest := len("【"), strings.TrimPrefix(s, "【")
	word := strings.TrimLeftFunc(rest, func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(":_.-", r))
	})
	n := len(rest) - len(word)
	if n == 0 || n > 80 || !strings.HasPrefix(word, "†") {
		return 0
	}
	end := strings.IndexAny(word[:min(len(word), 1024)], "】【\n")
	if end < 0 || !strings.HasPrefix(word[end:], "】") {
		return 0
	}
	return at + n + end + len("】")
}

// markText returns the kind of a mark, and the text in it that the user saw.
func markText(mark string) (text, kind string) {
	parts := strings.Split(mark, markSplit)
	switch kind = parts[0]; {
	case kind == "entity" && len(parts) > 1:
		var entity []string
		if json.Unmarshal([]byte(parts[1]), &entity) == nil && len(entity) > 1 {
			text = entity[1]
		}
	case kind == "url" && len(parts) > 1:
		if text = parts[1]; len(parts) > 2 && strings.HasPrefix(parts[2], "http") {
			text += fmt.Sprintf(" (%s)", parts[2])
		}
	}
	return strings.Map(func(r rune) rune {
		if isMark(r) {
			return -1
		}
		return r
	}, text), kind
}

// endsPhrase reports whether a text begins with the end of a phrase. Spaces before it
// are removed together with a mark.
func endsPhrase(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return s == "" || isMark(r) || strings.ContainsRune(" \n.,;:!?)", r)
}
