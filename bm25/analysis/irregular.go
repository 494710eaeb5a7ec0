package analysis

import (
	_ "embed"
	"strings"
	"sync"
)

// irregularWords lists English words with irregular forms: each line is a word and
// the forms that give its terms. It omits forms that are as often another word
// (left, led, lives, saw, spring).
//
//go:embed irregular.txt
var irregularWords string

// irregular returns the word of each form, and the forms of each word by the stem
// of the word. The first call makes both maps.
var irregular = sync.OnceValues(func() (words map[string]string, forms map[string][]string) {
	words, forms = map[string]string{}, map[string][]string{}
	for line := range strings.Lines(irregularWords) {
		word := strings.Fields(line)
		if len(word) == 0 {
			continue
		}
		stem := string(englishStem([]byte(word[0])))
		for _, form := range word[1:] {
			words[form] = word[0]
			forms[stem] = append(forms[stem], form)
		}
	}
	return words, forms
})

// IrregularForms returns the irregular forms of the word with a stem.
func IrregularForms(stem []byte) []string {
	_, forms := irregular()
	return forms[string(stem)]
}

// regular returns the word of an irregular form, or "".
func regular(form []byte) string {
	words, _ := irregular()
	return words[string(form)]
}
