package analysis

import (
	"strings"
	"testing"
	"unicode"
)

// TestDecimal compares the value of each digit with its position among the digits of
// its script.
func TestDecimal(t *testing.T) {
	n := rune(0)
	for r := range rune(unicode.MaxRune) {
		if !unicode.Is(unicode.Nd, r) {
			n = 0
			continue
		}
		if got, want := decimal(r), '0'+n%10; got != want {
			t.Errorf("%U has the digit %q, want %q", r, got, want)
		}
		n++
	}
	if got := decimal('x'); got != 'x' {
		t.Errorf("x has the digit %q", got)
	}
}

// TestNarrowed checks the characters at the edges of the ranges that narrow replaces.
func TestNarrowed(t *testing.T) {
	for text, want := range map[string]byte{
		"\uff00": 0, "\uff01": '!', "\uff5e": '~', "\uff5f": 0, "\u009f": 0, "\u00a0": ' ', "\u00a1": 0, "\u1fff": 0, "\u2000": ' ', "\u200a": ' ',
		"\u200b": 0, "\u2010": '-', "\u2011": '-', "\u2012": ';', "\u2015": ';', "\u2016": 0, "\u2018": '\'', "\u2019": '\'', "\u201a": 0, "\u201c": ';', "\u201d": ';',
		"\u201e": ';', "\u2022": ';', "\u2026": ';', "\u202f": ' ', "\u2212": '-', "\u2213": 0, "\u3000": ' ', "\u3001": 0, "a": 0, "é": 0, "\xe2\x80": 0,
	} {
		size := 0
		if want != 0 {
			size = len(text)
		}
		if c, n := narrowed([]byte(text + "x")); c != want || n != size {
			t.Errorf("%+q becomes %q, %d bytes, want %q, %d", text, c, n, want, size)
		}
	}
}

// TestLetters checks which runs are words of at most maxWord letters.
func TestLetters(t *testing.T) {
	letters := func(s string, n int) string { return strings.Repeat(s, n) }
	for run, want := range map[string]string{
		"": "", "Abc": "abc", "É": "e", "नम": "नम", "a1": "", "1a": "", "京": "", "a京": "", "한": "", "a\xff": "", "😀": "", "ａ": "a",
		letters("x", 40): letters("x", 40), letters("x", 41): "", letters("𐐀", 40): letters("𐐨", 40), letters("𐐀", 41): "",
		letters("e\u0301", 53): "", letters("e\u0301", 40): letters("e", 40),
		"e" + letters("\u0301", 79): "e", "ee" + letters("\u0301", 79): "ee", "eee" + letters("\u0301", 79): "", "ß" + letters("x", 38): "ss" + letters("x", 38), "ß" + letters("x", 39): "",
	} {
		var s Scanner
		s.Scan(run)
		if text, _ := s.Runs(); !strings.HasPrefix(string(text), strings.ReplaceAll(run, "ａ", "a")) {
			t.Errorf("the scanned text of %q is %q", run, text)
		}
		if got := s.Letters([]byte(run)); got != want {
			t.Errorf("the letters of %q are %q, want %q", run, got, want)
		}
	}
}
