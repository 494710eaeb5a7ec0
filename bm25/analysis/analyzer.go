package analysis

import (
	"fmt"
	"iter"
)

// An Analyzer is a rule that turns text into terms. An index is built with one
// and answers queries with the same one.
type Analyzer uint8

const (
	// Standard reads prose and identifiers of many languages: Unicode words,
	// folded case, width and diacritics, English stems and irregular forms, CJK
	// as single characters and pairs, emoji, camelCase whole and in parts, names
	// joined by signs by every two parts and whole, versions and other numbers
	// with signs, units or a word before them, days in their common spellings.
	// Every word is indexed; stop words are left out of a query unless it has
	// nothing else.
	Standard Analyzer = iota

	// Plain is the rule of the reference implementation, exactly: runs of
	// Unicode alphanumerics of more than one character, lower-cased, without
	// 49 English stop words.
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

// ParseAnalyzer is the inverse of String.
func ParseAnalyzer(s string) (Analyzer, error) {
	switch s {
	case "standard":
		return Standard, nil
	case "plain":
		return Plain, nil
	}
	return 0, fmt.Errorf("analyzer %q is unknown: use standard or plain", s)
}

// Length returns the length of a document consisting of s, by which its score is
// normalized: how many terms it has, names and numbers that are made of other
// terms left out.
func (a Analyzer) Length(s string) int {
	var sc Scanner
	n := 0
	sc.each(a, []string{s}, func([]byte) { n++ })
	return n - sc.extra
}

// Tokens yields the terms that a document consisting of s is indexed under, in
// order and with repetitions.
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

// QueryTerms yields the terms of a query and what each counts, by which its IDF
// is multiplied: 1, or less for a part of a name. Of a term that is there several
// times the largest holds.
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
