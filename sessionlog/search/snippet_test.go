package search_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"crabmem/bm25/analysis"
	"crabmem/fuzz/seed"
	"crabmem/sessionlog"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/search"
)

// searchOne indexes one message and searches it.
func searchOne(t testing.TB, a analysis.Analyzer, content, query string) search.Hit {
	t.Helper()
	dir := t.TempDir()
	line := line.AppendMessage(nil, &sessionlog.Message{Role: "user", Content: content})
	writeSession(t, dir, "one.jsonl", `{"agent":"crab","created_by":"user","created_at":""}`, strings.TrimSuffix(string(line), "\n"))
	x := newIndex(t, openSearchDir(t, dir), &search.IndexOptions{Analyzer: a})
	r := mustSearch(t, x, search.Query{Text: query})
	if len(r.Hits) != 1 {
		t.Fatalf("%d hits of %q", len(r.Hits), query)
	}
	return r.Hits[0]
}

// TestSnippetShowsTheMatch puts a word anywhere into a long text of many kinds.
func TestSnippetShowsTheMatch(t *testing.T) {
	r := seed.Random(t)
	for _, filler := range []string{"hay ", "мова \"слово\"\n", "漢字仮名", "\x01\t\\", "x", "🦀🦀 "} {
		for range 12 {
			n := 1000 + r.IntN(8000)
			if r.IntN(6) == 0 {
				n = 70_000
			}
			text := strings.Repeat(filler, n/len(filler))
			at := r.IntN(len(text) + 1)
			for at < len(text) && !utf8.RuneStart(text[at]) {
				at++
			}
			content := text[:at] + " the needles " + text[at:]
			hit := searchOne(t, analysis.Standard, content, "needle")
			if !strings.Contains(hit.Snippet, "needles") {
				t.Errorf("%d of %d bytes of %q: %q does not show the match", at, len(text), filler, hit.Snippet)
			}
			if !sameText(hit.Snippet, content) || !utf8.ValidString(hit.Snippet) {
				t.Errorf("%d of %d bytes of %q: %d bytes: %q", at, len(text), filler, len(hit.Snippet), hit.Snippet)
			}
			if len(hit.Window) != 1 || hit.Window[0].Text != hit.Snippet {
				t.Errorf("window: %+v", hit.Window)
			}
		}
	}
}

// TestSnippetShowsTheMost looks for the place with the most of the terms.
func TestSnippetShowsTheMost(t *testing.T) {
	hay := " " + strings.Repeat("hay and straw ", 150)
	for _, c := range []struct{ content, query, want string }{
		{"port port port " + hay + "the port of the daemon" + hay + "daemon", "daemon port", "the port of the daemon"},
		{hay + "第一章" + hay + "東京都庁の記憶" + hay, "東京 記憶", "東京都庁の記憶"},
		{hay + "getUserName" + hay, "name", "getUserName"},
		{hay + "it’s naïve" + hay, "NAIVE", "naïve"},
		{"the " + hay + "what is the" + hay, "the what", "what is the"},
	} {
		if hit := searchOne(t, analysis.Standard, c.content, c.query); !strings.Contains(hit.Snippet, c.want) {
			t.Errorf("%q: %q does not show %q", c.query, hit.Snippet, c.want)
		}
	}
	plain := searchOne(t, analysis.Plain, hay+"Needle"+hay, "NEEDLE")
	if !strings.Contains(plain.Snippet, "Needle") {
		t.Errorf("plain: %q", plain.Snippet)
	}
}

// TestSnippetAfterByteOrderMark searches a file that begins with a byte order
// mark and a message that is longer than the part that a search reads.
func TestSnippetAfterByteOrderMark(t *testing.T) {
	dir := t.TempDir()
	line := line.AppendMessage(nil, &sessionlog.Message{Role: "user", Content: "the needles " + strings.Repeat("hay ", 100_000)})
	writeSession(t, dir, "one.jsonl", "\ufeff"+strings.TrimSuffix(string(line), "\n"))
	x := newIndex(t, openSearchDir(t, dir), nil)
	r := mustSearch(t, x, search.Query{Text: "needle"})
	if len(r.Hits) != 1 || !strings.Contains(r.Hits[0].Snippet, "needles") {
		t.Errorf("%d hits, %+v", len(r.Hits), r.Hits)
	}
}
