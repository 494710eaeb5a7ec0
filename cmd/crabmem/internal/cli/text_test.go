package cli

import (
	"strings"
	"testing"
)

func TestColumns(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc": 3, "é": 1, "e\u0301": 1, "部署": 4, "ｆｕｌｌ": 8, "한국": 4, "a\u200bb": 2} {
		if got := Columns(s); got != want {
			t.Errorf("Columns(%q) = %d, want %d", s, got, want)
		}
	}
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{{"deploy", 6, "deploy"}, {"deploy", 5, "depl…"}, {"部署步骤", 5, "部署…"}, {"部署步骤", 6, "部署…"}, {"any", 0, "any"}} {
		if got := Fit(c.s, c.n); got != c.want || c.n > 0 && Columns(got) > c.n {
			t.Errorf("Fit(%q, %d) = %q, want %q", c.s, c.n, got, c.want)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\nlines":                       "plain\nlines",
		"a\x1b[31mred\x1b]0;title\x07\x9b1m": "a[31mred]0;title\u009b1m",
		"bell\a\b\x7f\r":                     "bell",
		"tab\tbed":                           "tab    bed",
		"\u202eevil\u2066":                   "evil",
		"\u009b31m":                          "31m",
	} {
		if got := Clean(in); got != strings.ReplaceAll(want, "\u009b", "\ufffd") {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}
