package analysis_test

import (
	"strings"
	"testing"

	"crabmem/bm25/analysis"
)

func TestPhrase(t *testing.T) {
	for _, c := range []struct {
		phrase string
		texts  []string
		want   bool
	}{
		{"red fox", []string{"a red fox ran"}, true},
		{"red fox", []string{"Red, FOX!"}, true},
		{"red fox", []string{"red fox"}, true},
		{"red fox", []string{"red\n\n  fox"}, true},
		{"red fox", []string{"fox red"}, false},
		{"red fox", []string{"red brown fox"}, false},
		{"red fox", []string{"red", "fox"}, false},
		{"red fox", []string{"", "no", "a red fox"}, true},
		{"red fox", nil, false},
		{"red fox", []string{"bored fox"}, false},
		{"red fox", []string{"red foxes"}, false},
		{"red fox", []string{"bored fox, red foxes, and a red fox"}, true},
		{"red fox", []string{"bored foxes and bored foxes"}, false},
		{"a a", []string{"aa a a"}, true},
		{"aba", []string{"ababa aba"}, true},
		{"aba", []string{"ababa"}, false},
		{"café", []string{"The CAFE\u0301"}, true},
		{"cafe", []string{"cafés"}, false},
		{"ＡＢＣ", []string{"abc"}, true},
		{"京都", []string{"東京都庁"}, true},
		{"京", []string{"a京b"}, true},
		{"नमस्ते", []string{"नमस्ते!"}, true},
		{"नमस", []string{"नमस्ते"}, false},
		{"x", []string{"\xffx\xff"}, true},
		{"ﷺ", []string{"ﷺ"}, true},
		{strings.Repeat("ﷺ", 10), []string{"", "x", strings.Repeat("ﷺ", 10)}, true},
		{"x", []string{"y"}, false},
		{"", []string{"anything"}, true},
		{" ,. ", nil, true},
	} {
		if got := analysis.NewPhrase(c.phrase).In(c.texts...); got != c.want {
			t.Errorf("NewPhrase(%q).In(%q) = %v, want %v", c.phrase, c.texts, got, c.want)
		}
	}
}
