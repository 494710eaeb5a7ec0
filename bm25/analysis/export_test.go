package analysis

// Terms returns what documents are indexed under, in any order, by a lexer that
// remembers the documents before.
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

// Regular has the words of irregular forms.
var Regular, _ = irregular()

// StemForeign returns the stem of a folded word of another script than Latin.
func StemForeign(word string) string {
	var u unicodeFolder
	return string(u.stemForeign([]byte(word)))
}
