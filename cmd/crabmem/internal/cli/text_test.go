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
		if got := strings.ReplaceAll(CleanInput(in), "\t", "    "); got != Clean(in) || strings.Contains(in, "\t") != strings.Contains(CleanInput(in), "\t") {
			t.Errorf("CleanInput(%q) = %q", in, got)
		}
	}
}

func TestFold(t *testing.T) {
	for _, c := range []struct {
		line string
		n    int
		want string // pieces, separated by |
	}{
		{"", 5, ""},
		{"hello", 5, "hello"},
		{"hello world", 5, "hello|world"},
		{"hello world", 6, "hello|world"},
		{"hello wide world", 12, "hello wide|world"},
		{"hello ", 5, "hello"},
		{"a longestword b", 5, "a|longe|stwor|d b"},
		{"one  two", 4, "one| two"},
		{"    indented code", 8, "    inde|nted|code"},
		{"日本語の文章です", 5, "日本|語の|文章|です"},
		{"see 日本語", 7, "see 日|本語"},
		{"see日本語x", 7, "see日本|語x"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301e\u0301|e\u0301"},
		{"日\u0301本", 2, "日\u0301|本"},
		{"x 👩\u200d👧", 4, "x|👩\u200d👧"},
		{"日本", 1, "日|本"},
	} {
		rows := Fold(c.line, c.n)
		if got := strings.Join(rows, "|"); got != c.want {
			t.Errorf("Fold(%q, %d) = %q, want %q", c.line, c.n, got, c.want)
		}
		for _, row := range rows {
			if Columns(row) > max(c.n, 2) {
				t.Errorf("Fold(%q, %d): a row of %d columns", c.line, c.n, Columns(row))
			}
		}
	}
}
