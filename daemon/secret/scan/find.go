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
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
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

// Known are texts that a program knows to be secret, such as the values of a store of
// secrets, whatever their form. A nil *Known contains none.
type Known struct {
	byFirst map[[firstBytes]byte][]string // by their first bytes, the longest first
	longest int
}

const (
	// knownKind is the kind of a Match that is a value.
	knownKind = "stored-secret"

	minValue   = 8 // bytes of the shortest value that counts
	firstBytes = 4
)

// NewKnown returns the values that count: those of 8 bytes or more that do not stand for
// a secret, such as "changeme". They count as they are, as JSON writes them, and in
// base64, hexadecimal, and URL form.
func NewKnown(values []string) *Known {
	k := &Known{byFirst: make(map[[firstBytes]byte][]string)}
	for _, v := range values {
		if len(v) < minValue || isDummy(v) || strings.Contains(marker(knownKind), v) {
			continue
		}
		for _, text := range forms(v) {
			first := [firstBytes]byte([]byte(text))
			if !slices.Contains(k.byFirst[first], text) {
				k.byFirst[first] = append(k.byFirst[first], text)
				k.longest = max(k.longest, len(text))
			}
		}
	}
	for _, list := range k.byFirst {
		slices.SortFunc(list, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	}
	return k
}

// isDummy reports whether a value is a usual one in place of a secret.
func isDummy(v string) bool {
	lower := strings.ToLower(v)
	return strings.Trim(lower, lower[:1]) == "" || strings.Contains("01234567890123456789", lower) || slices.Contains(samples, lower) || isCommonWord(v, lettersOf(v))
}

// forms returns the texts in which a value may occur.
func forms(v string) []string {
	list := []string{v, fmt.Sprintf("%x", v), fmt.Sprintf("%X", v), url.QueryEscape(v), url.PathEscape(v), lowerEscapes(url.QueryEscape(v)), lowerEscapes(url.PathEscape(v))}
	var b strings.Builder
	for _, html := range []bool{true, false} {
		b.Reset()
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(html)
		_ = e.Encode(v) // never fails for a string
		list = append(list, strings.Trim(b.String(), "\"\n"))
	}
	// The value may be a part of the encoded text, at one of three places in a group.
	for before := range 3 {
		from, to := (8*before+5)/6, 8*(before+len(v))/6 // the characters that depend on the value alone
		for _, code := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			list = append(list, code.EncodeToString(append(make([]byte, before), v...))[from:to])
		}
	}
	return list
}

// lowerEscapes returns a text in URL form with escapes in lower case.
func lowerEscapes(text string) string {
	b := []byte(text)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(text[i+1:i+3]))
		}
	}
	return string(b)
}

// Find is [Find], and also returns the values.
func (k *Known) Find(text string) []Match {
	list := Find(text)
	if k == nil || len(k.byFirst) == 0 {
		return list
	}
	for i := 0; i+minValue <= len(text); i++ {
		for _, v := range k.byFirst[[firstBytes]byte([]byte(text[i:i+firstBytes]))] {
			if strings.HasPrefix(text[i:], v) {
				list = append(list, Match{knownKind, i, i + len(v)})
				break
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Match) int { return cmp.Compare(a.Start, b.Start) })
	return merge(list)
}

// merge joins matches that overlap. The result has the kind of the first.
func merge(list []Match) []Match {
	var merged []Match
	for _, m := range list {
		if n := len(merged); n > 0 && m.Start < merged[n-1].End {
			merged[n-1].End = max(merged[n-1].End, m.End)
			continue
		}
		merged = append(merged, m)
	}
	return merged
}

// Redact is [Redact], and also replaces the values.
func (k *Known) Redact(text string) (string, []Match) {
	found := k.Find(text)
	return Replace(text, found), found
}

// beginning returns the offset from which a text is the beginning of a value, at or
// after an offset, or its length.
func (k *Known) beginning(text string, from int) int {
	if k == nil {
		return len(text)
	}
	for i := max(from, len(text)-k.longest); i < len(text); i++ {
		rest := text[i:]
		for first, list := range k.byFirst {
			if !strings.HasPrefix(rest, string(first[:min(len(rest), firstBytes)])) {
				continue
			}
			if slices.ContainsFunc(list, func(v string) bool { return len(v) > len(rest) && strings.HasPrefix(v, rest) }) {
				return i
			}
		}
	}
	return len(text)
}
