package errtable

import (
	"strings"
	"unicode"
)

// ShellWord quotes a word for a shell, if it needs quotes: users copy commands from
// fixes.
func ShellWord(word string) string {
	plain := word != "" && word[0] != '-' && word[0] != '~'
	for _, r := range word {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./~+,:@%", r) {
			plain = false
		}
	}
	if plain {
		return word
	}
	quoted := "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	if strings.HasPrefix(word, "-") {
		quoted = "-- " + quoted
	}
	return quoted
}
