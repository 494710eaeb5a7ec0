package importer

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"crabmem/bench/gate"
)

func TestCitationMarksAreRemoved(t *testing.T) {
	const open, end, split = "\uE200", "\uE201", "\uE202"
	cases := []struct{ name, in, out, kinds string }{
		{"no mark", "Water at 93 °C.", "Water at 93 °C.", ""},
		{"a source", "Water at 93 °C【11†source】.", "Water at 93 °C.", "source"},
		{"a file and lines", "See 【4:0†report.pdf】 and 【5†L1-L4】", "See and", "source source"},
		{"a search result", "Hot" + open + "cite" + split + "turn0search1" + split + "turn0news2" + end + ". Cold.", "Hot. Cold.", "cite"},
		{"a space before the mark", "Hot " + open + "filecite" + split + "turn0file0" + end + "\nCold", "Hot\nCold", "filecite"},
		{"an entity", "In " + open + "entity" + split + `["city","Paris","capital"]` + end + " it rains", "In Paris it rains", "entity"},
		{"a link", open + "url" + split + "the guide" + split + "https://example.com/g" + end + " says", "the guide (https://example.com/g) says", "url"},
		{"an unknown kind", "a" + open + "chart" + split + "{}" + end + "b", "ab", "chart"},
		{"no end", "a" + open + "cite" + split + "rest of the text", "aciterest of the text", ""},
		{"lone characters", "a\uE203b\uE204c" + end, "abc", ""},
		{"brackets that are text", "【注†】 【a b†c】 【1†no end", "【注†】 【a b†c】 【1†no end", ""},
		{"an empty mark", "a" + open + end + "b", "ab", ""},
		{"an entity of wrong types", "a" + open + "entity" + split + "{7" + end + "b", "ab", "entity"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var kinds []string
			out := withoutMarks(c.in, func(kind string) { kinds = append(kinds, kind) })
			if out != c.out || strings.Join(kinds, " ") != c.kinds {
				t.Errorf("%q and marks %q, want %q and %q", out, kinds, c.out, c.kinds)
			}
		})
	}
}

func TestManyCitationMarks(t *testing.T) {
	for _, in := range []string{strings.Repeat(" \uE200cite\uE202a\uE201", 200_000), strings.Repeat("\uE200", 500_000), strings.Repeat("【1†", 200_000), strings.Repeat("【", 500_000)} {
		began := time.Now()
		out := withoutMarks(in, func(string) {})
		gate.Time(t, "remove marks", began, time.Minute)
		if strings.ContainsRune(out, markOpen) || !utf8.ValidString(out) {
			t.Errorf("the text still has marks: %.40q", out)
		}
	}
}
