package bm25_test

import (
	"slices"
	"strings"
	"testing"

	"crabmem/bm25"
)

func TestTokens(t *testing.T) {
	for _, c := range []struct {
		analyzer bm25.Analyzer
		text     string
		want     string // space-separated
	}{
		{bm25.Plain, "The quick-brown Fox, a 4x4; x", "quick brown fox 4x4"},
		{bm25.Plain, "snake_case v2.6.1", "snake case v2"},
		{bm25.Plain, "don't user's", "don user"},
		{bm25.Plain, "ISTANBUL İstanbul", "istanbul i\u0307stanbul"},
		{bm25.Plain, "ΟΔΟΣ ΣΟΦΟΣ ΣΣ ΑΣ1 ΑΣΑ", "οδος σοφος σς ας1 ασα"},
		{bm25.Plain, "é éé 京 京都", "éé 京都"},
		{bm25.Plain, "cafe\u0301 \u00e9t\u00e9", "cafe \u00e9t\u00e9"},
		{bm25.Plain, "नमस्ते", "नमस ते"},
		{bm25.Plain, "²³ ⅣⅤ ①②", "²³ ⅳⅴ ①②"},
		{bm25.Plain, "ab\xffcd\xc3", "ab cd"},
		{bm25.Plain, "œufs—THE Crème l'été", "œufs crème été"},
		{bm25.Plain, strings.Repeat("x", 63) + " " + strings.Repeat("Y", 200), strings.Repeat("x", 63) + " " + strings.Repeat("y", 200)},
		{bm25.Plain, "", ""},
		{bm25.Standard, "The user's engines are Running", "the user engin ar run"},
		{bm25.Standard, "user’s don't", "user don"},
		{bm25.Standard, "getUserName HTTPServer utf8", "getusernam get user name httpserver http server utf8 utf 8"},
		{bm25.Standard, "snake_case v2.6.1", "snake case v2 v 2 6 1"},
		{bm25.Standard, "記憶ストレージ", "記 記憶 憶 憶ス ス スト ト トレ レ レー ー ージ ジ"},
		{bm25.Standard, "ﾃｽﾄ ＡＢＣ", "テ テス ス スト ト abc"},
		{bm25.Standard, "Cafe\u0301 caf\u00e9 CAFÉS", "cafe cafe cafe"},
		{bm25.Standard, "Straße ΟΔΟΣ", "strass οδοσ"},
		{bm25.Standard, "soft\u00adware", "softwar"},
		{bm25.Standard, "नमस्ते", "नमस्"},
		{bm25.Standard, "серверы сервера Ещё её", "сервер сервер ещ е"},
		{bm25.Standard, "الكتاب كتاب", "كتاب كتاب"},
		{bm25.Standard, "Łódź Ørsted", "lodz orst"},
	} {
		got := strings.Join(slices.Collect(c.analyzer.Tokens(c.text)), " ")
		if got != c.want {
			t.Errorf("%v: %q gives %q, want %q", c.analyzer, c.text, got, c.want)
		}
	}
}

func TestParseAnalyzer(t *testing.T) {
	for _, a := range []bm25.Analyzer{bm25.Standard, bm25.Plain} {
		if got, err := bm25.ParseAnalyzer(a.String()); got != a || err != nil {
			t.Errorf("ParseAnalyzer(%q) = %v, %v", a.String(), got, err)
		}
	}
	if _, err := bm25.ParseAnalyzer("bleve"); err == nil {
		t.Error("an unknown analyzer is accepted")
	}
}

// TestStopWords: stop words match only when a query has nothing else, and under
// Plain never.
func TestStopWords(t *testing.T) {
	for _, c := range []struct {
		analyzer bm25.Analyzer
		query    string
		want     int
	}{
		{bm25.Standard, "to be or not to be", 1},
		{bm25.Standard, "to be or whatever", 0},
		{bm25.Standard, "that question", 1},
		{bm25.Plain, "to be or not to be", 0},
		{bm25.Plain, "that question", 1},
	} {
		x := bm25.New(c.analyzer)
		x.Add(bm25.Doc{ID: 1, Fields: []string{"To be, or not to be, that is the question"}})
		if got := len(x.Search(bm25.Query{Text: c.query}).Hits); got != c.want {
			t.Errorf("%v: %q finds %d documents, want %d", c.analyzer, c.query, got, c.want)
		}
	}
}
