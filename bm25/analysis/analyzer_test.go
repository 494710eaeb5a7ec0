package analysis_test

import (
	"slices"
	"strings"
	"testing"

	"crabmem/bm25/analysis"
)

func TestTokens(t *testing.T) {
	for _, c := range []struct {
		analyzer analysis.Analyzer
		text     string
		want     string // space-separated
	}{
		{analysis.Plain, "The quick-brown Fox, a 4x4; x", "quick brown fox 4x4"},
		{analysis.Plain, "snake_case v2.6.1", "snake case v2"},
		{analysis.Plain, "don't user's", "don user"},
		{analysis.Plain, "ISTANBUL İstanbul", "istanbul i\u0307stanbul"},
		{analysis.Plain, "ΟΔΟΣ ΣΟΦΟΣ ΣΣ ΑΣ1 ΑΣΑ", "οδος σοφος σς ας1 ασα"},
		{analysis.Plain, "é éé 京 京都", "éé 京都"},
		{analysis.Plain, "cafe\u0301 \u00e9t\u00e9", "cafe \u00e9t\u00e9"},
		{analysis.Plain, "नमस्ते", "नमस ते"},
		{analysis.Plain, "²³ ⅣⅤ ①②", "²³ ⅳⅴ ①②"},
		{analysis.Plain, "ab\xffcd\xc3", "ab cd"},
		{analysis.Plain, "œufs—THE Crème l'été", "œufs crème été"},
		{analysis.Plain, strings.Repeat("x", 63) + " " + strings.Repeat("Y", 200), strings.Repeat("x", 63) + " " + strings.Repeat("y", 200)},
		{analysis.Plain, "", ""},
		{analysis.Standard, "The user's engines are Running", "the user engin are run"},
		{analysis.Standard, "deploy deploys Deployed deploying deployment redeployments", "deploy deploy deploy deploy deploy redeploy"},
		{analysis.Standard, "employer's enjoyable days say said eyes eyed eye buys", "employ enjoy day say say ey ey ey buy"},
		{analysis.Standard, "carry carries happily daily dyed", "carri carri happili daili dy"},
		{analysis.Standard, "user’s don't", "user don"},
		{analysis.Standard, "getUserName HTTPServer utf8", "getusernam get user name httpserver http server utf8 utf 8"},
		{analysis.Standard, "snake_case v2.6.1", "snake snakecas case v2 v 2 2.6.1 6 1"},
		{analysis.Standard, "max_wal_size On-Call", "max maxwal walsiz maxwals wal size on oncal call"},
		{analysis.Standard, "tests/fixtures/a.rs", "test testsfixtur fixturesa ar fixtur a rs"},
		{analysis.Standard, "go1.26 Go 1.26 1.0.0-rc.2", "go1 go 1 1.26 go1.26 26 go 1 1.26 go1.26 26 1 1.0.0 1.0.0rc rc2 1.0.0rc2 0 0 rc 2"},
		{analysis.Standard, "10.20.30.40 10:30", "10 10.20.30.40 20 30 40 10 10:30 30"},
		{analysis.Standard, "ORA-00942 HTTP 404 the 404", "ora ora00942 00942 http 404 http404 the 404"},
		{analysis.Standard, "4GiB 5 GHz 1.5kg 1.5 kg iOS", "4gib 4 gib 5 5ghz ghz 1 1.5 1.5kg 5kg 5 kg 1 1.5 1.5kg 5 kg io"},
		{analysis.Standard, "1,000,000 10_000 1,2", "1 1000000 000 000 10 10000 000 1 2"},
		{analysis.Standard, "C++ c# A#4", "c c++ c c# a a# 4"},
		{analysis.Standard, "AT&T U.S.A.", "at att t u usa s a"},
		{analysis.Standard, "👍🏽 👩‍💻 ❤️ 1️⃣ 🇩🇪🇫🇷x ©→─", "👍 👩 💻 ❤ 1 🇩🇪 🇫🇷 x"},
		{analysis.Standard, "️ ́ 🏽", ""},
		{analysis.Standard, "ＯＲＡ－０９ 15㎏ १२ ٣٠يوم", "ora ora09 09 15kg 15 kg 12 30 يوم"},
		{analysis.Standard, "“getUserName”—rate‑limit no… 2", "getusernam get user name rate ratelimit limit no 2"},
		{analysis.Standard, "記憶ストレージ", "記 記憶 憶 憶す す すと と とれ れ れー ー ーじ じ"},
		{analysis.Standard, "カ\u3099ヴ ゔ ヶ ヾ", "が がゔ ゔ ゔ ゖ ゞ"},
		{analysis.Standard, "Il·lustració IL·LUSIÓ co\u0140lega a·l l·a", "illustracio illusio collega a l l a"},
		{analysis.Standard, "ﾃｽﾄ ＡＢＣ", "て てす す すと と abc"},
		{analysis.Standard, "Cafe\u0301 caf\u00e9 CAFÉS", "cafe cafe cafe"},
		{analysis.Standard, "Straße ΟΔΟΣ", "strass οδοσ"},
		{analysis.Standard, "soft\u00adware", "softwar"},
		{analysis.Standard, "नमस्ते", "नमस्"},
		{analysis.Standard, "серверы сервера Ещё её", "сервер сервер ещ е"},
		{analysis.Standard, "הַפְּגִישָׁה פגישה ולבית בית", "הפגישה פגישה פגישה ולבית לבית בית בית"},
		{analysis.Standard, "الكتاب كتاب", "كتاب كتاب"},
		{analysis.Standard, "Łódź Ørsted", "lodz orst"},
	} {
		got := strings.Join(slices.Collect(c.analyzer.Tokens(c.text)), " ")
		if got != c.want {
			t.Errorf("%v: %q gives %q, want %q", c.analyzer, c.text, got, c.want)
		}
	}
}

// TestDates checks that each spelling of a day gives its term, and that ambiguous or
// invalid dates do not.
func TestDates(t *testing.T) {
	for _, text := range []string{
		"2026-03-04", "2026/3/4", "2026.03.04", "2026-03-04T10:30:00Z", "20260304", "4 March 2026", "4. Mar. 2026", "4th of March 2026",
		"04-Mar-2026", "March 4, 2026", "mar 4 2026", "MARCH 4TH, 2026", "04.03.2026", "4.3.2026", "on 4 March 2026 at noon",
		"4. März 2026", "4 de marzo de 2026", "4 mars 2026", "4 марта 2026", "2026年3月4日に", "２０２６年０３月０４日", "２０２６－０３－０４", "2026‑03‑04",
		"2026-03-04-draft", "2026.03.04.txt", "2026/03/04/",
	} {
		if !slices.Contains(slices.Collect(analysis.Standard.Tokens(text)), "20260304") {
			t.Errorf("%q does not give the term of its day: %q", text, slices.Collect(analysis.Standard.Tokens(text)))
		}
	}
	for text, day := range map[string]string{
		"13/04/2026": "20260413", "04/13/2026": "20260413", "04/04/2026": "20260404", "04-13-2026": "20260413",
		"03/04/2026": "", "32.03.2026": "", "10.12.2026.1": "", "2026-13-14": "20261314", "4 ma 2026": "", "4 jui 2026": "", "4 Sept 2026": "20260904", "2026年13月4日": "", "2026年3月": "", "4 marches 2026": "", "4 March 20261": "",
		"3000/1/1": "", "0999/12/31": "", "2999/1/1": "29990101", "1000/12/31": "10001231",
		"1900-03-04": "19000304", "2999-12-31": "29991231", "1000/1/1": "10000101",
		"2026:3:4": "", "2026-3/4": "", "2026x-3-4": "", "10:4:2026": "", "4_3_2026": "",
		"14 сентября 2026": "20260914", "9 September 2026": "20260909", "4 septiembre 2026": "20260904",
		"4 March\n\n2026": "", "31.12.999": "", "4, March": "", "March 4": "", "2026-03": "",
	} {
		got := ""
		for term := range analysis.Standard.Tokens(text) {
			if len(term) == 8 && strings.Trim(term, "0123456789") == "" {
				got += term
			}
		}
		if got != day {
			t.Errorf("%q gives the day %q, want %q", text, got, day)
		}
	}
}

// TestLongNames joins the parts of a name up to the length of a word form.
func TestLongNames(t *testing.T) {
	for n := 60; n <= 70; n++ {
		name := strings.Repeat("x", 20) + "_" + strings.Repeat("y", 20) + "_" + strings.Repeat("z", n-40)
		joined := strings.ReplaceAll(name, "_", "")
		if got, want := slices.Contains(slices.Collect(analysis.Standard.Tokens(name)), joined), n <= 64; got != want {
			t.Errorf("a name of %d bytes gives one term: %v, want %v", n, got, want)
		}
		pair := strings.Repeat("x", 30) + "-" + strings.Repeat("y", n-30)
		joined = strings.ReplaceAll(pair, "-", "")
		if got, want := slices.Contains(slices.Collect(analysis.Standard.Tokens(pair)), joined), n <= 64; got != want {
			t.Errorf("a pair of %d bytes gives one term: %v, want %v", n, got, want)
		}
	}
}

func TestParseAnalyzer(t *testing.T) {
	for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
		if got, err := analysis.ParseAnalyzer(a.String()); got != a || err != nil {
			t.Errorf("ParseAnalyzer(%q) = %v, %v", a.String(), got, err)
		}
	}
	if got := analysis.Analyzer(7).String(); got != "analyzer(7)" {
		t.Errorf("the name of analyzer 7 is %q", got)
	}
	a, err := analysis.ParseAnalyzer("bleve")
	if want := `analyzer "bleve" is unknown: use standard or plain`; a != analysis.Standard || err == nil || err.Error() != want {
		t.Errorf("ParseAnalyzer returns %v, %v, want %v, %s", a, err, analysis.Standard, want)
	}
}
