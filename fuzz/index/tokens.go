package index

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// stopWords are those of the plain analyzer.
var stopWords = strings.Fields(`a an the is it in of to and or for on at by with as be was are been has had
have do does did but not no if so from that this then than into its my me we he she they you your our his her`)

// plainTokens is analysis.Plain.Tokens, written down as the rule says.
func plainTokens(s string) []string {
	lower := cases.Lower(language.Und)
	var tokens []string
	for _, word := range strings.FieldsFunc(s, func(r rune) bool {
		return r == utf8.RuneError || !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.Is(unicode.Other_Alphabetic, r)
	}) {
		if utf8.RuneCountInString(word) < 2 {
			continue
		}
		if word = lower.String(word); !slices.Contains(stopWords, word) {
			tokens = append(tokens, word)
		}
	}
	return tokens
}
