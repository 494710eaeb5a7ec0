package scan

import (
	"encoding/base64"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxAuthority is the length of the longest part of a URL between :// and the path.
const maxAuthority = 512

// findURL finds the password of a URL. Its keyword is "://".
func findURL(text string, start, end int) (from, to int, ok bool) {
	if start == 0 || !isAlnum(text[start-1]) {
		return 0, 0, false
	}
	colon, at := -1, -1
	for i, limit := end, min(len(text), end+maxAuthority); i < limit; i++ {
		c := text[i]
		if c <= ' ' || c == 0x7f || strings.IndexByte("/?#\"'`<>\\", c) >= 0 {
			break
		}
		if c == ':' && colon < 0 {
			colon = i
		} else if c == '@' {
			at = i
		}
	}
	if colon < 0 || at <= colon || isPlaceholder(text[end:colon], text[colon+1:at]) {
		return 0, 0, false
	}
	return colon + 1, at, true
}

const (
	maxConnection = 256 // bytes of a connection string before the password
	maxPassword   = 128
)

// findConnection finds the password of a connection string: fields with an equals
// sign, separated by semicolons. Another field must name the server or the user.
func findConnection(text string, start, end int) (from, to int, ok bool) {
	before := strings.TrimRight(text[max(0, start-maxConnection):start], " Pp") // the keyword is "assword="
	if !strings.HasSuffix(before, ";") {
		return 0, 0, false
	}
	to = end
	for to < len(text) && to-end <= maxPassword && text[to] > ' ' && strings.IndexByte(";\"'`<>\\", text[to]) < 0 {
		to++
	}
	if to-end > maxPassword || isPlaceholder("", text[end:to]) || strings.Contains(before, markerStart) {
		return 0, 0, false
	}
	before = strings.ToLower(before[strings.LastIndexByte(before, '\n')+1:])
	named := false
	for _, field := range []string{"server=", "host=", "data source=", "user id=", "uid=", "endpoint=", "database="} {
		named = named || strings.Contains(before, field)
	}
	if !named {
		return 0, 0, false
	}
	return end, to, true
}

// authorization returns the offsets of the credentials of an Authorization header
// with one of the schemes.
func authorization(text string, at int, schemes ...string) (from, to int, ok bool) {
	sign := false
	limit := min(len(text), at+8)
	for at < limit && strings.IndexByte("\"'`\\ \t:=,", text[at]) >= 0 {
		sign = sign || strings.IndexByte(":=,", text[at]) >= 0
		at++
	}
	for _, s := range schemes {
		if sign && len(text) > at+len(s) && strings.EqualFold(text[at:at+len(s)], s) && text[at+len(s)] == ' ' {
			from = at + len(s) + 1
			to = from
			for to < len(text) && (isWord(text[to]) || strings.IndexByte("-.~+/=", text[to]) >= 0) {
				to++
			}
			for to > from && text[to-1] == '.' {
				to-- // the end of a sentence
			}
			return from, to, true
		}
	}
	return 0, 0, false
}

// minBearer is the number of characters of the shortest bearer token.
const minBearer = 20

func findBearer(text string, _, end int) (from, to int, ok bool) {
	from, to, ok = authorization(text, end, "Bearer", "Token")
	if !ok || to-from < minBearer {
		return 0, 0, false
	}
	first := text[from : from+minBearer]
	lower := strings.ToLower(first)
	if entropy(first) < 3 || isSample(first) || strings.Contains(lower, "token") || strings.Contains(lower, "your") || strings.Contains(lower, "secret") {
		return 0, 0, false
	}
	if !strings.ContainsAny(first, "0123456789") && (first == lower || first == strings.ToUpper(first)) {
		return 0, 0, false // words
	}
	return from, to, true
}

func findBasic(text string, _, end int) (from, to int, ok bool) {
	from, to, ok = authorization(text, end, "Basic")
	if !ok || to-from > maxAuthority || strings.HasPrefix(text[to:], markerStart) {
		return 0, 0, false
	}
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text[from:to], "="))
	if err != nil {
		return 0, 0, false
	}
	user, password, ok := strings.Cut(string(plain), ":")
	if !ok || !utf8.Valid(plain) || strings.ContainsFunc(string(plain), unicode.IsControl) || isPlaceholder(user, password) {
		return 0, 0, false
	}
	return from, to, true
}
