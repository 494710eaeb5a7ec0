package snippet_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"crabmem/bm25/analysis"
	"crabmem/bm25/snippet"
)

// TestCut checks that a snippet contains the part with most of the query.
func TestCut(t *testing.T) {
	filler := strings.Repeat("nothing of note happens here. ", 30)
	for _, c := range []struct{ query, text, want string }{
		{"amber fuse", filler + "amber. " + filler + "the amber fuse is in rack seven. " + filler, "the amber fuse is"},
		{"start", "start here. " + filler, "start here."},
		{"finish", filler + "and finish", "and finish"},
		{"砂糖", strings.Repeat("今日は天気がいい。", 40) + "味噌と砂糖を混ぜる。" + strings.Repeat("また明日。", 40), "砂糖"},
		{"running", filler + "she ran and runs, " + filler, "runs"},
	} {
		terms := make(map[string]float64)
		for term := range analysis.Standard.Tokens(c.query) {
			terms[term] = 1
		}
		for n := 40; n < 400; n += 7 {
			got := snippet.Cut(c.text, analysis.Standard, terms, n)
			if !strings.Contains(got, c.want) || len(got) > n || len(got) < n-28 || !utf8.ValidString(got) {
				t.Errorf("%q in %d bytes: %d bytes %q", c.query, n, len(got), got)
			}
		}
	}
	if got := snippet.Cut("short", analysis.Standard, nil, 5); got != "short" {
		t.Errorf("a text that fits is %q", got)
	}
	if got := snippet.Cut(strings.Repeat("é", 50), analysis.Standard, nil, 7); got != "ééé" {
		t.Errorf("a tiny budget gives %q", got)
	}
}

// TestCutUnspaced checks that all characters and pairs of the query count in each part of
// a text without spaces, and that a snippet contains the sentence with most of them.
func TestCutUnspaced(t *testing.T) {
	for _, c := range []struct{ query, filler, want string }{
		{"学生优惠券的有效期是多久", "本条例的目的是规管一般事项，并就相关事宜订立条文。", "学生优惠券的有效期为三百天，逾期作废。"},
		{"優惠券的期限是什麼", "學生的家長是這個委員會的成員，期間為一年。", "優惠券的有效期限為三百天。"},
		{"寿司の値段", "駅の前の店の人は毎日の仕事の値を見る。", "スシの寿司屋の値段は千円です。"},
		{"すし", "駅の前に店がある。", "スシは千円です。"},
		{"ราคาตั๋วรถไฟ", "ผู้โดยสารทุกคนต้องมีบัตรประชาชน ", "ราคาของตั๋วรถไฟคือร้อยบาท"},
	} {
		terms := make(map[string]float64)
		for term := range analysis.Standard.Tokens(c.query) {
			terms[term] = 1
		}
		for _, k := range []int{3, 30, 400} {
			text := strings.Repeat(c.filler, k) + c.want + strings.Repeat(c.filler, k)
			for _, n := range []int{150, 240, 480} {
				if got := snippet.Cut(text, analysis.Standard, terms, n); !strings.Contains(got, c.want) {
					t.Errorf("%q after %d sentences, in %d bytes: %q", c.query, k, n, got)
				}
			}
		}
	}
}

// TestCutLongWord cuts words that are longer than the snippet.
func TestCutLongWord(t *testing.T) {
	word := strings.Repeat("x", 900)
	for _, text := range []string{"a " + word, word + " b", "a " + word + " b " + strings.Repeat("y ", 100)} {
		for _, n := range []int{0, 1, 3, 6, 12, 40, 800, 899} {
			got := snippet.Cut(text, analysis.Plain, map[string]float64{word: 1}, n)
			if len(got) > n || !utf8.ValidString(got) {
				t.Errorf("%d bytes: %q", n, got)
			}
		}
	}
}

// FuzzCut cuts texts that may be invalid UTF-8.
func FuzzCut(f *testing.F) {
	f.Add("the amber fuse", "fuse", 10)
	f.Add(strings.Repeat("\x80", 200), "\x80", 40)
	f.Add("é"+strings.Repeat("\xbf", 300)+" x", "x", 100)
	f.Add(strings.Repeat("味噌と砂糖", 40), "砂糖", 50)
	f.Fuzz(func(t *testing.T, text, term string, n int) {
		n = min(n, 1<<16)
		got := snippet.Cut(text, analysis.Standard, map[string]float64{term: 1}, n)
		if len(got) > max(n, 0) || utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%d bytes: %q", n, got)
		}
	})
}
