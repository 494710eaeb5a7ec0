// Package analysis turns text into the terms that an index stores and a query
// searches.
//
// Programs use [Analyzer] and [Phrase]. The other types serve package bm25: a
// [Scanner] splits a text into runs of word bytes, and a [Lexer] turns documents
// into numbers of terms, which its [Dict] contains.
package analysis

import (
	"fmt"
	"iter"
)

// An Analyzer is a rule that turns text into terms. An index uses the same analyzer
// for documents and queries.
type Analyzer uint8

const (
	// Standard reads prose and identifiers of many languages. Its terms are Unicode
	// words with folded case, width, and diacritics; English stems and the words of
	// irregular forms; single characters and pairs of unspaced scripts; emoji;
	// camelCase names, complete and in parts; names joined by signs, complete and
	// by adjacent parts; versions and other numbers with signs, units, or a word
	// before them; and days in common spellings. Stop words are terms, too, but a
	// query with other words omits them.
	Standard Analyzer = iota

	// Plain is exactly the rule of the reference implementation: runs of Unicode
	// alphanumerics of more than one character, in lower case, without 49 English
	// stop words.
	Plain
)

// String returns "standard" or "plain".
func (a Analyzer) String() string {
	switch a {
	case Standard:
		return "standard"
	case Plain:
		return "plain"
	}
	return fmt.Sprintf("analyzer(%d)", uint8(a))
}

// ParseAnalyzer returns the analyzer with a name that String returns.
func ParseAnalyzer(s string) (Analyzer, error) {
	switch s {
	case "standard":
		return Standard, nil
	case "plain":
		return Plain, nil
	}
	return 0, fmt.Errorf("analyzer %q is unknown: use standard or plain", s)
}

// Length returns the length of the document s, which normalizes its score: the
// number of terms without compounds, which repeat other terms.
func (a Analyzer) Length(s string) int {
	var sc Scanner
	n := 0
	sc.each(a, []string{s}, func([]byte) { n++ })
	return n - sc.extra
}

// Tokens yields the terms of the document s, in order and with repetitions.
func (a Analyzer) Tokens(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		var sc Scanner
		more := true
		sc.each(a, []string{s}, func(term []byte) {
			if more {
				more = yield(string(term))
			}
		})
	}
}

// QueryTerms yields the terms of a query and the weight of each, a factor of its
// IDF: 1, or less for a part of a name. If a term occurs several times, the
// largest weight counts.
func (a Analyzer) QueryTerms(s string) iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		var sc Scanner
		more := true
		sc.Query(a, s, func(term []byte, weight float64) {
			if more {
				more = yield(string(term), weight)
			}
		})
	}
}
