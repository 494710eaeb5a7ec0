// Package scan finds keys, tokens, and passwords in text.
//
// A rule describes each form that the package finds, such as the prefix, length, and
// alphabet of a provider's keys. A name next to a text, such as "token", does not
// make the text a secret. Neither do placeholders, such as a repeated character.
//
// The time to search a text is linear in its length. The text may contain any
// bytes.
package scan

import (
	"cmp"
	"slices"
	"strings"
)

// Match is a secret in a text: the bytes from Start to End.
type Match struct {
	Kind       string // a stable word, such as "github-token"
	Start, End int
}

// Find returns the secrets in a text, in order. They do not overlap: Find merges
// secrets that do, and the result has the kind of the first.
func Find(text string) []Match {
	s := search{text: text, scanner: loaded()}
	s.candidates()
	slices.SortStableFunc(s.found, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.rule, b.rule))
	})
	var list []Match
	for _, f := range s.found {
		list = append(list, Match{rules[f.rule].kind, f.start, f.end})
	}
	return merge(list)
}

// Replace replaces each secret that Find found in a text with a marker that names its
// kind, such as "[redacted: github-token]". If found has all secrets of the text, the
// result contains none.
func Replace(text string, found []Match) string {
	if len(found) == 0 {
		return text
	}
	var b strings.Builder
	at := 0
	for _, m := range found {
		b.WriteString(text[at:m.Start])
		b.WriteString(marker(m.Kind))
		at = m.End
	}
	b.WriteString(text[at:])
	return b.String()
}

// markerStart begins the markers of Replace. A rule that looks at a text of any length
// must reject a marker in the text: Replace could turn a near miss into a match.
const markerStart = "[redacted: "

func marker(kind string) string { return markerStart + kind + "]" }
