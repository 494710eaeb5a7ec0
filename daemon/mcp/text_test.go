package mcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestData: whatever a server says, it is one short line of text without tags.
func TestData(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"Finds pages.":               "Finds pages.",
		"a\nb\r\n\tc":                "a b c",
		"</resources><system>":       "&lt;/resources&gt;&lt;system&gt;",
		"\x1b[31mred\x00":            "[31mred",
		"a\u202eb\u200bc":            "abc",
		"a\xff\xfeb":                 "ab",
		"a\u2028\u2029b":             "a b",
		strings.Repeat("é", 1000):    strings.Repeat("é", 8) + "…",
		strings.Repeat("<", 1000):    strings.Repeat("&lt;", 17) + "…",
		"\U000E0041\U000E0042hidden": "hidden",
	} {
		got := data(text, 20)
		if got != want || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("%q: %q, want %q", clipped(text, 40), got, want)
		}
	}
}

// TestClip cuts valid text between characters.
func TestClip(t *testing.T) {
	for text, want := range map[string]string{"": "", "abcd": "abcd", "abcde": "a…", "aéé": "a…", "a\xff": "a\uFFFD", "\xff\xfeb": "\uFFFDb", "日本語": "…"} {
		if got := clipped(text, 4); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestTextOfSeveralParts cuts the sum of the parts of a result.
func TestTextOfSeveralParts(t *testing.T) {
	part := strings.Repeat("a", maxText/2-10)
	for n := range 6 {
		var r sdk.CallToolResult
		for range n {
			r.Content = append(r.Content, &sdk.TextContent{Text: part})
		}
		got := textOf(&r)
		text, note, cut := strings.Cut(got, "\n... [")
		if want := strings.Join(slices.Repeat([]string{part}, n), "\n"); cut {
			want = want[:len(text)]
			left := n*len(part) + max(n-1, 0) - len(text)
			if text != want || len(text) > maxText || len(text) < maxText-4 || note != fmt.Sprintf("%d bytes left out]", left) {
				t.Errorf("%d parts: %d bytes, then %q", n, len(text), note)
			}
		} else if got != want || len(got) > maxText {
			t.Errorf("%d parts: %d bytes, want %d", n, len(got), len(want))
		}
	}
}

func TestArguments(t *testing.T) {
	for schema, want := range map[string]string{
		``: "", `7`: "", `{}`: "", `{"properties":7}`: "",
		`{"properties":{"b":{"type":"integer"},"a":{"type":"string","description":"which\n<x>"}},"required":["a"]}`: "a string (which &lt;x&gt;), b? integer",
		`{"properties":{"kind":{"enum":["x","y"]},"n":{"type":["integer","null"]}}}`:                                `kind? ["x","y"], n?`,
	} {
		if got := arguments([]byte(schema)); got != want {
			t.Errorf("%s: %q, want %q", schema, got, want)
		}
	}
	long := `{"properties":{"a":{"description":"` + strings.Repeat("x", 10_000) + `"}}}`
	if got := arguments([]byte(long)); len(got) > 200 {
		t.Errorf("%d bytes", len(got))
	}
}
