// Package clip cuts texts to a length, between two characters.
package clip

import "unicode/utf8"

// ellipsis ends a text that Marked or Chars has cut.
const ellipsis = "…"

// Bytes returns the beginning of s, at most n bytes, without a partial character.
func Bytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n = max(n, 0)
	for i := n; i >= 0 && i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:n] // s is not UTF-8
}

// Marked returns at most n bytes from the beginning of s. If it cuts s, the result
// ends in an ellipsis, unless n is too small for one.
func Marked(s string, n int) string {
	if len(s) <= n || n < len(ellipsis) {
		return Bytes(s, n)
	}
	return Bytes(s, n-len(ellipsis)) + ellipsis
}

// Chars returns at most n characters from the beginning of s; n is at least 1. If it
// cuts s, the last character is an ellipsis.
func Chars(s string, n int) string {
	end, count := 0, 0
	for i := range s {
		if count == n-1 {
			end = i
		}
		if count++; count > n {
			return s[:end] + ellipsis
		}
	}
	return s
}
