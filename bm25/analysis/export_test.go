package analysis

// Terms returns a function that returns the terms of a document, in any order. Its
// lexer keeps the word forms of earlier documents.
func Terms(a Analyzer) func(fields []string) []string {
	l := NewLexer(a)
	return func(fields []string) []string {
		var terms []string
		ids, _ := l.Lex(fields)
		for _, id := range ids {
			terms = append(terms, string(l.dict.AppendTerm(nil, id)))
		}
		return terms
	}
}

// Regular contains the word of each irregular form.
var Regular = regularWords()

// Stem returns the stem of a lower-case word of at least three letters.
func Stem(word string) string { return string(porter([]byte(word))) }

// StemForeign returns the stem of a folded word that is not Latin.
func StemForeign(word string) string {
	var u unicodeFolder
	return string(u.stemForeign([]byte(word)))
}
