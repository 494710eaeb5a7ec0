package analysis_test

import (
	"slices"
	"strings"
	"testing"

	"crabmem/bm25/analysis"
)

// TestTerms checks the terms of numbers, names, dates, and symbols at the limits of
// the rules. A lexer that analyzes the text several times must return them, too.
func TestTerms(t *testing.T) {
	for _, c := range []struct {
		analyzer analysis.Analyzer
		texts    [][2]string // text and space-separated terms
	}{
		{analysis.Standard, numbers}, {analysis.Standard, names}, {analysis.Standard, days}, {analysis.Standard, symbols}, {analysis.Plain, plainTexts},
	} {
		for _, text := range c.texts {
			want := strings.Fields(text[1])
			if got := slices.Collect(c.analyzer.Tokens(text[0])); !slices.Equal(got, want) {
				t.Errorf("%v: %q gives %q, want %q", c.analyzer, text[0], got, want)
			}
			lex := analysis.Terms(c.analyzer)
			slices.Sort(want)
			for range 3 {
				if got := lex(text[:1]); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
					t.Errorf("%v: a lexer reads %q as %q, want %q", c.analyzer, text[0], got, want)
				}
			}
		}
	}
}

var numbers = [][2]string{
	{"1,000 b", "1 1000 000 b"},
	{"1,000-2 kg", "1 1000 000 2 2kg kg"},
	{"x 1,000", "x 1 1000 000"},
	{"1,000.5 kg", "1 1000 000 5 5kg kg"},
	{"12,345,678", "12 12345678 345 678"},
	{"1,0000", "1 0000"},
	{"1,000,00", "1 1000 000 00"},
	{"12,34", "12 34"},
	{"1.2.x", "1 1.2 1.2x 2 x"},
	{"1.x", "1 1x x"},
	{"v1.2-rc", "v1 v 1 1.2 1.2rc 2 rc"},
	{"v1.2 kg", "v1 v 1 1.2 1.2kg 2 kg"},
	{"V1.2", "v1 v 1 1.2 2"},
	{"vv1.2", "vv1 vv 1 1.2 vv1.2 2"},
	{"run v1.2", "run v1 v 1 1.2 2"},
	{"1.2.3é", "1 1.2 2 3e 3 e"},
	{"10:30.5", "10 10:30 10:305 30 5"},
	{"1:2:3:x", "1 1:2:3 1:2:3x 2 3 x"},
	{"5 kbit", "5 5kbit kbit"},
	{"5 kcals", "5 kcal"},
	{"5  kg", "5 kg"},
	{"a 404", "a 404"},
	{"ab 404", "ab 404 ab404"},
	{"ab  404", "ab 404"},
	{"the 404", "the 404"},
	{"ab 4x", "ab 4x 4 x"},
	{"\u0660\u0669 \u0966\u096f \U0001d7d8\U0001d7ff \U000104a0\U000104a9", "09 09 09 09"},
}

var names = [][2]string{
	{"a_b_c", "a abc b c"},
	{"a_b/c", "a b c"},
	{"a/b_c", "a b c"},
	{"a@b", "a ab b"},
	{"a\\b", "a ab b"},
	{"a:b", "a ab b"},
	{"a_b", "a ab b"},
	{"a b_c", "a b bc c"},
	{"C++x", "c c++ x"},
	{"C#", "c c#"},
	{"4#", "4"},
	{"CC++", "cc"},
	{"C+ +", "c"},
	{"x.C#", "x xc c"},
	{"O'Neill", "o oneil neill"},
	{"O\u2019Neill's", "o oneil neill"},
	{"d'Arc", "d darc arc"},
	{"O'neill", "o neill"},
	{"O'Ne", "o ne"},
	{"x O' Neill", "x o neill"},
	{"OO'Neill", "oo neill"},
	{"O'", "o"},
	{"be go did", "be go did"},
	{"GiBs kWh iOSx kWhs x1yZw aBcd abcD", "gib gi bs kwh iosx i o sx kwh k wh x1yzw x 1 yzw abcd a bcd abcd abc d"},
	{"@'s", "s"},
	{"`'s", "s"},
	{"a's", "a"},
	{"é's", "e"},
	{"9's", "9"},
	{"'s", "s"},
}

var days = [][2]string{
	{"on 2026-03-04", "on 2026 20260304 03 04"},
	{"1 March 2026", "1 20260301 march 2026"},
	{"March 1, 2026", "march 1 20260301 2026"},
	{"0 March 2026", "0 march 2026 march2026"},
	{"2026-03-04:30 kg", "2026 20260304 03 04 30 30kg kg"},
	{"2026-03-04T10: 30 kg", "2026 20260304 03 04t10 04 t 10 30 30kg kg"},
	{"2026-03-04T10:30 5 kg", "2026 20260304 03 04t10 04 t 10 30 5 5kg kg"},
	{"2026-03-04T10:30:00Z 5 kg", "2026 20260304 03 04t10 04 t 10 30 00z 00 z 5 5kg kg"},
	{"2026-03-04T:30 kg", "2026 20260304 03 04t 04 t 30 kg"},
	{"2026-03-04T10:", "2026 20260304 03 04t10 04 t 10"},
	{"12/03/2026", "12 1203 032026 03 2026"},
	{"03/12/2026", "03 0312 122026 12 2026"},
	{"13/03/2026", "13 20260313 03 2026"},
	{"03/13/2026", "03 20260313 13 2026"},
	{"4 January 2026", "4 20260104 januari 2026"},
	{"January 4 2026", "januari 4 20260104 2026"},
	{"4 of", "4 of"},
	{"4 de", "4 de"},
	{"4 March of", "4 march of"},
	{"4 March of 2026", "4 20260304 march of 2026"},
	{"4 of March of 2026", "4 20260304 of march of 2026"},
	{"4 March 02026", "4 march 02026 march02026"},
	{"00004 March 2026", "00004 march 2026 march2026"},
	{"4 October 2026", "4 20261004 octob 2026"},
	{"October 10, 2026", "octob 10 20261010 2026"},
	{"2026-03-0", "2026 202603 030 2026030 03 0"},
	{"2026-0-4", "2026 20260 202604 0 4"},
	{"2026-03-Tue", "2026 202603 03tue 202603tue 03 tue"},
	{"2026-03x-04", "2026 202603x 03x04 202603x04 03x 03 x 04"},
	{"4-March-2026", "4 20260304 march 2026"},
	{"04.03.26", "04 04.03.26 03 26"},
	{"4.3.2026x", "4 4.3.2026 4.3.2026x 3 2026x 2026 x"},
	{"4 abcdefghijklmnopq 2026", "4 abcdefghijklmnopq 2026"},
	{"4" + strings.Repeat("x", 64) + " March 2026", "4" + strings.Repeat("x", 64) + " 4 " + strings.Repeat("x", 64) + " march 2026 march2026"},
	{"4thx March 2026", "4thx 4 thx march 2026 march2026"},
	{"2026-03-04x", "2026 202603 0304x 20260304x 03 04x 04 x"},
	{"2026-03-04-5", "2026 202603 0304 045 202603045 03 04 5"},
	{"2026-03-04-05-06", "2026 202603 0304 0405 0506 202603040506 03 04 05 06"},
	{"4.3.2026.txt", "4 20260304 3 2026 txt"},
	{"2026年0月4日", "2026 年 0 月 4 日"},
	{"2026年3月0日", "2026 年 3 月 0 日"},
	{"2026年00003月4日", "2026 年 00003 月 4 日"},
	{"202年3月4日", "202 年 3 月 4 日"},
	{"2026年10月31日", "2026 20261031 年 10 月 31 日"},
	{"2026年3月4日5", "2026 20260304 年 3 月 4 日 5"},
}

var symbols = [][2]string{
	{"е\u0301ж", "е\u0301ж"},
	{"а\u0308ж е\u0308", "\u04d3ж е"},
	{"ש\xff\u05b0", "ש"},
	{"a\x80b \x80", "a b"},
	{"\u22ff\u2300\u23e9\u23ff\u2400\u25ff\u2600", "\u2300 \u23e9 \u23ff \u2600"},
	{"\u27bf\u27c0\u2800\u2aff\u2b00\u2bff\u2c00", "\u27bf \u2b00 \u2bff \u2c30"},
	{"\U0001efff\U0001f000\U0001f9e6", "\U0001f000 \U0001f9e6"},
	{"🇦🇿🇦x🇿", "🇦🇿 🇦 x 🇿"},
	{"🇦🇿🇧", "🇦🇿 🇧"},
	{"ולהביתים", "ולהביתים להביתים הביתים"},
	{"ולהבית", "ולהבית להבית הבית"},
	{"להבי", "להבי הבי"},
	{"הבי", "הבי"},
	{"\u0e00ก", "ก"},
}

var plainTexts = [][2]string{
	{"aʰΣ", "aʰς"},
	{"ΑΣʰ", "αςʰ"},
	{"ΑΣʰα", "ασʰα"},
	{"ʰΣα", "ʰσα"},
	{"ΑΣʰʰ", "αςʰʰ"},
	{"aʰʰΣ", "aʰʰς"},
	{"ʰʰΣ 1ʰΣ", "ʰʰσ 1ʰσ"},
	{"ab\u0080cd", "ab cd"},
	{"x é xé", "xé"},
}

// TestLimits checks that a text of max bytes, words, or letters gives a term, and
// that a longer one does not.
func TestLimits(t *testing.T) {
	repeat := strings.Repeat
	word := func(n int) string { // of n bytes
		return "ра" + repeat("1", n%2) + repeat("ж", (n-4)/2)
	}
	for _, c := range []struct {
		name string
		max  int
		text func(n int) (text, term string)
	}{
		{"number", 64, func(n int) (string, string) { s := repeat("1", n-2) + ".5"; return s, s }},
		{"number after a word", 64, func(n int) (string, string) { return "ab " + repeat("7", n), "ab" + repeat("7", n) }},
		{"number before a unit", 64, func(n int) (string, string) { return repeat("7", n) + " kg", repeat("7", n) + "kg" }},
		{"word before a number", 16, func(n int) (string, string) { return repeat("q", n) + " 404", repeat("q", n) + "404" }},
		{"words of a name", 8, func(n int) (string, string) { return "a" + repeat("_x", n-1), "a" + repeat("x", n-1) }},
		{"date with a time", 64, func(n int) (string, string) { return "2026-03-04T" + repeat("x", n-3), "20260304" }},
		{"English word", 40, func(n int) (string, string) { return repeat("o", n-3) + "ing", repeat("o", n-3) }},
		{"Russian word", 80, func(n int) (string, string) { return word(n-6) + "ами", word(n - 6) }},
		{"Hebrew word", 80, func(n int) (string, string) {
			s := repeat("1", n%2) + repeat("ד", n/2-1)
			return "ה" + s, s
		}},
	} {
		for n := c.max - 1; n <= 2*c.max+1; n++ {
			text, term := c.text(n)
			terms := slices.Collect(analysis.Standard.Tokens(text))
			if got, want := slices.Contains(terms, term), n <= c.max; got != want {
				t.Errorf("%s of %d: gives its term: %t, want %t: %q", c.name, n, got, want, terms)
			}
			if got := analysis.Terms(analysis.Standard)([]string{text}); slices.Contains(got, term) != (n <= c.max) {
				t.Errorf("%s of %d: a lexer returns %q", c.name, n, got)
			}
		}
	}
	for n := 62; n < 67; n++ { // a long run does not start a number, so the next may
		terms := slices.Collect(analysis.Standard.Tokens(repeat("7", n) + ".55_x"))
		if got, want := slices.Contains(terms, "55x"), n > 64; got != want {
			t.Errorf("a run of %d digits does not start a number: %t, want %t", n, got, want)
		}
	}
	for n := 19; n < 24; n++ {
		terms := slices.Collect(analysis.Standard.Tokens("1" + repeat(",000", n)))
		if want := "1" + repeat("000", min(n, 21)); terms[1] != want {
			t.Errorf("%d thousands give %s, want %s", n, terms[1], want)
		}
	}
}

// TestStopWords checks IsStopWord with stop words, a stem, and other words.
func TestStopWords(t *testing.T) {
	for term, want := range map[string]bool{"the": true, "thi": true, "don": true, "whose": true, "": false, "engin": false} {
		if got := analysis.IsStopWord([]byte(term)); got != want {
			t.Errorf("IsStopWord(%q) = %t, want %t", term, got, want)
		}
	}
}
