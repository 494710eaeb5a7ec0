package budget

import (
	"slices"
	"strings"
	"testing"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

func TestFences(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"no code", nil},
		{"a\n```\nx\n```\nb", []string{"```\nx\n```"}},
		{"```go\nx\n```", []string{"```go\nx\n```"}},
		{"a\n```\nx", []string{"```\nx"}},
		{"~~~\n```\n~~~\n```\ny\n```\n", []string{"~~~\n```\n~~~", "```\ny\n```"}},
		{"````\n```\n````\nb", []string{"````\n```\n````"}},
		{"```\n``` no\n````  \nb", []string{"```\n``` no\n````  "}},
		{"- a\n  ```sh\n  x\n  ```\n- b", []string{"  ```sh\n  x\n  ```"}},
		{"> ```\r\n> x\r\n> ```\r\n> b", []string{"> ```\r\n> x\r\n> ```"}},
		{"- ```\n  x\n  ```\n", []string{"- ```\n  x\n  ```"}},
		{"```\n- ```\n```\n", []string{"```\n- ```\n```"}},
		{"```inline``` and ``\n``two``\n", nil},
	} {
		var got []string
		for _, f := range fences(c.text) {
			got = append(got, c.text[f.from:f.to])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// TestAround compares every offset of texts with a scan from the start.
func TestAround(t *testing.T) {
	for _, text := range []string{
		"plain", "e\u0301te\u0301", "👩‍💻 🇫🇮🇩🇪🇫🇮 👍🏽", "नमस्ते ทดสอบ 각", "a\r\nb\n\r\nc", "漢字\u3000かな", strings.Repeat("\u0301", 40) + "x",
		"é\n```\n👩‍💻\n```\nö", "abc" + strings.Repeat("👩‍💻", 30) + "d",
	} {
		e := newEdges(text)
		var ends []int
		at := 0
		for g := graphemes.FromString(text); g.Next(); {
			ends = append(ends, at)
			at += len(g.Value())
		}
		ends = append(ends, at)
		ends = slices.DeleteFunc(ends, func(i int) bool {
			return slices.ContainsFunc(e.fences, func(f span) bool { return f.from < i && i < f.to })
		})
		for i := -1; i <= len(text)+1; i++ {
			before, after := e.around(i)
			k, found := slices.BinarySearch(ends, min(max(i, 0), len(text)))
			wantAfter := ends[k]
			if !found {
				k--
			}
			if before != ends[k] || after != wantAfter {
				t.Errorf("%q at %d: %d and %d, want %d and %d", text, i, before, after, ends[k], wantAfter)
			}
		}
	}
	wide := newEdges("a" + strings.Repeat("\u0301", 9000) + "b")
	if before, after := wide.around(12000); before > 12000 || after < 12000 {
		t.Errorf("a long one: %d and %d", before, after)
	}
}
