package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/fuzz/seed"
	"crabmem/sessionlog"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// markdownParts returns the parts of a document of paragraphs, headings, lists,
// quotes, and code; it reports any other part, and HTML.
func markdownParts(t *testing.T, source []byte) (headings, quotes int, code []string) {
	t.Helper()
	doc := goldmark.DefaultParser().Parse(text.NewReader(source))
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			headings++
			plain(t, n, source)
		case *ast.FencedCodeBlock:
			var b bytes.Buffer
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				b.Write(line.Value(source))
			}
			code = append(code, b.String())
		case *ast.Blockquote:
			if p := n.PreviousSibling(); p == nil || p.Kind() != ast.KindBlockquote {
				quotes++ // the parser may divide a quote
			}
		case *ast.Paragraph, *ast.List:
			plain(t, n, source)
		default:
			t.Errorf("a %s", n.Kind())
		}
	}
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if k := n.Kind(); entering && (k == ast.KindHTMLBlock || k == ast.KindRawHTML) {
			t.Fatalf("a %s in:\n%s", k, source)
		}
		return ast.WalkContinue, nil
	})
	return headings, quotes, code
}

// plain checks that n contains no markup.
func plain(t *testing.T, n ast.Node, source []byte) {
	t.Helper()
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c.Kind() {
		case ast.KindText:
		case ast.KindListItem, ast.KindTextBlock:
			plain(t, c, source)
		default:
			t.Errorf("a %s in %q", c.Kind(), source)
		}
	}
}

// TestExportMarkdown exports conversations of hostile texts. A Markdown parser
// must find every call complete in a separate block, and each message in a
// separate quote without HTML.
func TestExportMarkdown(t *testing.T) {
	t.Parallel()
	r := seed.Random(t)
	pieces := []string{"```", "````", "~~~", "`", "\n", "\n\n", "# h", "<div>", "</div>", "<!--", "-->", "- x", "> q", "word", "a_b", "_a_", " ", "    ", "\t", "[a](b)", "|", "&amp;", "\\", "***", "===\n", "---\n", "茶"}
	draw := func() string {
		var b strings.Builder
		for range r.IntN(12) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		return b.String()
	}
	d, err := sessionlog.OpenDir(filepath.Join(t.TempDir(), "sessions"), &sessionlog.Options{Sync: sessionlog.SyncNone})
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	indented := []string{"\t```<div>\n\n````\n`\t</div>", "```\n ```\n<div>", "```\n   ```\n<div>", "- x\n  ```\n```\n<div>"}
	for i := range 150 {
		l, err := d.Create(sessionlog.Meta{Agent: "a" + draw(), CreatedBy: "b" + draw(), Title: draw()})
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		wantHeadings, wantQuotes := 1, 0
		quote := func(s string) {
			if s != "" {
				wantQuotes++
			}
		}
		add := func(s string) { // a block ends in a line end
			if s != "" && !strings.HasSuffix(s, "\n") {
				s += "\n"
			}
			want = append(want, s)
		}
		for range 1 + r.IntN(4) {
			m := sessionlog.Message{Role: "r" + draw(), Content: draw(), ReasoningContent: draw(), ToolCallID: draw()}
			for range r.IntN(3) {
				m.ToolCalls = append(m.ToolCalls, sessionlog.ToolCall{ID: draw(), Function: sessionlog.Function{Name: draw(), Arguments: draw()}})
			}
			summary := draw()
			if i < len(indented) {
				summary = indented[i]
			}
			if err := l.Append(m); err != nil {
				t.Fatal(err)
			}
			if err := l.Compact(summary); err != nil {
				t.Fatal(err)
			}
			wantHeadings += 2
			quote(m.ReasoningContent)
			quote(m.Content)
			for _, call := range m.ToolCalls {
				add(call.Function.Arguments)
			}
			wantQuotes++ // a summary may be empty
		}
		s, err := d.Read(l.ID())
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := exportMarkdown(context.Background(), &b, s, func(s string) string { return s }); err != nil {
			t.Fatal(err)
		}
		headings, quotes, code := markdownParts(t, b.Bytes())
		if diff := cmp.Diff(want, code); diff != "" || headings != wantHeadings || quotes != wantQuotes {
			t.Fatalf("%d headings, want %d; %d quotes, want %d; %s\n%s", headings, wantHeadings, quotes, wantQuotes, diff, b.String())
		}
		blocks += len(code)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if blocks < 300 {
		t.Errorf("%d blocks", blocks)
	}
	t.Logf("blocks: %d", blocks)
}
