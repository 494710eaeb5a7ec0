package scan

import (
	"math"
	"slices"
	"strings"
)

// entropy returns the Shannon entropy of a text, in bits for each byte.
func entropy(text string) float64 {
	var counts [256]int
	for i := range len(text) {
		counts[text[i]]++
	}
	bits := 0.0
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(text))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// samples are parts of keys in documentation.
var samples = []string{"00000000", "12345678", "abcdefgh", "changeme", "example", "placeholder", "redacted", "xxxxx"}

// isSample reports whether a key is one of documentation.
func isSample(key string) bool {
	key = strings.ToLower(key)
	return slices.ContainsFunc(samples, func(s string) bool { return strings.Contains(key, s) })
}

// placeholders stand for passwords. Case, digits, and signs do not count.
var placeholders = []string{
	"", "admin", "api", "apikey", "bar", "baz", "changeit", "changeme", "credential", "credentials", "default", "doe", "dummy", "empty", "example",
	"fake", "foo", "foobar", "guest", "hidden", "key", "login", "masked", "mypass", "mysecret", "none", "null", "opensesame", "pass", "passphrase", "passwd",
	"password", "postgres", "private", "pswd", "pw", "pwd", "redacted", "removed", "root", "sample", "secret", "something", "test", "testing", "testpass",
	"token", "undefined", "user", "username", "xxx",
}

// placeholderParts are parts of placeholders of any length.
var placeholderParts = []string{"example", "password", "passwd", "placeholder", "redacted", "your"}

// minPassword is the length of the shortest password. Shorter ones are letters that
// stand for one.
const minPassword = 4

// isPlaceholder reports whether a text stands for a password: a common word, a
// variable, a mask, or a number as short as a port. user is the name of the account.
func isPlaceholder(user, password string) bool {
	if len(password) < minPassword || strings.EqualFold(user, password) || strings.Trim(password, password[:1]) == "" {
		return true
	}
	if strings.ContainsAny(password[:1], "$%<[{(*:") || strings.ContainsAny(password, "{}") || strings.HasPrefix(password, "...") ||
		strings.HasSuffix(password, "...") || strings.HasSuffix(password, "…") {
		return true
	}
	if len(password) <= len("65535") && strings.Trim(password, "0123456789") == "" {
		return true
	}
	letters := lettersOf(password)
	if letters == "" {
		return isSample(password)
	}
	if strings.Trim(letters, letters[:1]) == "" && len(letters) > 2 {
		return true
	}
	plain := strings.NewReplacer("@", "a", "0", "o", "$", "s").Replace(strings.ToLower(password))
	return isCommonWord(password, letters) || slices.ContainsFunc(placeholderParts, func(p string) bool { return strings.Contains(letters, p) || strings.Contains(plain, p) })
}

// lettersOf returns the ASCII letters of a text, in lower case, and its bytes beyond
// ASCII.
func lettersOf(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z' || r > 0x7f:
			return r
		}
		return -1
	}, text)
}

// isCommonWord reports whether a password with these letters is a common word. Digits
// make a word a password: secret is a placeholder, s3cret! and secret4711 are not.
func isCommonWord(password, letters string) bool {
	_, common := slices.BinarySearch(placeholders, letters)
	return common && len(password)-len(letters) <= 1
}
