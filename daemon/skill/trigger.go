package skill

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"crabmem/daemon/tool"
)

// maxTriggered is the limit of skills that one message triggers.
const maxTriggered = 3

// maxSearched limits the bytes of a message that are searched for triggers.
const maxSearched = 64 << 10

// Triggered returns the skills, with their bodies, that have a trigger in a
// message, compared as complete words and ignoring case: those of the higher
// tier first, then those of the higher priority, then in order. They restrict a
// run like any other skill.
func (s *Set) Triggered(scope tool.Scope, message string) []Skill {
	message = folded(message[:min(len(message), maxSearched)])
	c := s.scan()
	var list []Skill
	for _, f := range c.skills {
		if !scope.Skills.Allows(f.Name) {
			continue
		}
		for _, t := range f.Triggers {
			if hasWords(message, folded(t)) {
				list = append(list, f.Skill)
				break
			}
		}
	}
	byRank(list)
	var bodies []Skill
	for i := 0; i < len(list) && len(bodies) < maxTriggered; i++ {
		// Other code warns of an invalid skill; no request named it.
		if sk, err := s.read(&c.skills[c.byName[list[i].Name]]); err == nil {
			bodies = append(bodies, *sk)
		}
	}
	return bodies
}

func folded(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// hasWords reports whether text contains words as complete words.
func hasWords(text, words string) bool {
	if words == "" {
		return false
	}
	for from := 0; ; {
		i := strings.Index(text[from:], words)
		if i < 0 {
			return false
		}
		i += from
		if !joined(text, words, i) {
			return true
		}
		_, n := utf8.DecodeRuneInString(text[i:])
		from = i + n
	}
}

// joined reports whether the words at i in text are part of longer words.
func joined(text, words string, i int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	first, _ := utf8.DecodeRuneInString(words)
	last, _ := utf8.DecodeLastRuneInString(words)
	after, _ := utf8.DecodeRuneInString(text[i+len(words):])
	return inWord(before) && inWord(first) || inWord(last) && inWord(after)
}

// inWord reports whether a rune is part of a word, in a script that has blanks
// between words.
func inWord(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_') &&
		!unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
