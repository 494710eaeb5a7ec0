package tree

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem"
)

// TestQuotedShortensLongText checks the texts of errors around 80 bytes.
func TestQuotedShortensLongText(t *testing.T) {
	for n, want := range map[int]string{
		0:   `""`,
		79:  `"` + strings.Repeat("x", 79) + `"`,
		80:  `"` + strings.Repeat("x", 80) + `"`,
		81:  `"` + strings.Repeat("x", 80) + `"…`,
		500: `"` + strings.Repeat("x", 80) + `"…`,
	} {
		if got := quoted(strings.Repeat("x", n)); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
}

// TestPageListsWithoutEndTags parses alias lists whose items or lists have no
// end tag.
func TestPageListsWithoutEndTags(t *testing.T) {
	for _, dd := range []string{
		"<dd><ul><li>one</li><li>two</li></ul></dd>",
		"<dd><ul><li>one<li>two</ul></dd>",
		"<dd><ul><li>one<li>two</dd>",
		"<dd><ul><li>one</li><li>two",
	} {
		p, err := parsePage([]byte("<div id=\"meta\">\n<dl><dt>Aliases</dt>" + dd + "\n<dt>Created</dt><dd><time datetime=\"2026-04-14T10:23:45Z\"></time></dd></dl>\n</div>\n\ntext"))
		if err != nil {
			t.Errorf("%s: %v", dd, err)
			continue
		}
		if !slices.Equal(p.Aliases, []string{"one", "two"}) || !p.hasTime || p.Content != "text" {
			t.Errorf("%s: %q, %q", dd, p.Aliases, p.Content)
		}
	}
}

// TestPageErrorOffset reads a page with an error, with and without a byte order
// mark. The offset counts the mark.
func TestPageErrorOffset(t *testing.T) {
	const text = metaOpen + "\n<b>text</b>\n" + metaClose
	for mark, want := range map[string]int{"": len(metaOpen) + 1, "\ufeff": 3 + len(metaOpen) + 1} {
		_, err := parsePage([]byte(mark + text))
		if e, ok := errors.AsType[*pageError](err); !ok || e.offset != want {
			t.Errorf("mark %q: %+v, want offset %d", mark, err, want)
		}
	}
}

// TestHeading writes and reads headings. A heading is text, one line, and contains
// nothing that the reference or mdbook looks for.
func TestHeading(t *testing.T) {
	for name, want := range map[string]string{
		"deploy":                            "<h1>deploy</h1>",
		"a & <b> </div>":                    "<h1>a &amp; &lt;b&gt; &lt;/div&gt;</h1>",
		`x datetime="2020-01-01T00:00:00Z"`: "<h1>x datetime=&quot;2020-01-01T00:00:00Z&quot;</h1>",
		"{{#include /etc/passwd}}":          "<h1>{&#123;#include /etc/passwd}}</h1>",
		"two\n\nlines":                      "<h1>two\u240a\u240alines</h1>",
		" ":                                 "<h1>(no name)</h1>",
	} {
		e := crmem.Entry{ID: 1, Name: name, Content: "text"}
		b := appendPage(nil, &e, "stem")
		if _, rest, _ := strings.Cut(string(b), "\n"); !strings.HasPrefix(rest, want+"\n<dl>\n") {
			t.Errorf("%q: %s", name, b)
		}
		if err := new(dumper).checkPage(b, &e, "stem"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if p, err := parsePage(b); err != nil || p.heading != shownName(name) {
			t.Errorf("%q: heading %q, %v", name, p.heading, err)
		}
	}
	for _, page := range []string{"<h1>a</h1><h1>b</h1>", "<dl><dt>ID</dt><dd>1</dd></dl><h1>a</h1>", "<h1><b>a</b></h1>", "<h2>a</h2>"} {
		if _, err := parsePage([]byte(metaOpen + page + metaClose)); err == nil {
			t.Errorf("%s: no error", page)
		}
	}
}

// TestFieldsRow writes the fields of front matter. load ignores the row, and the
// content keeps the front matter.
func TestFieldsRow(t *testing.T) {
	e := crmem.Entry{ID: 1, Name: "a", Content: "---\ntype: decision\ntags: [x, \"{{y}} <b>\"]\ncrabmem: 1\n---\ntext"}
	b := appendPage(nil, &e, "a")
	const row = "  <dt class=\"front-matter\">Metadata</dt>\n  <dd>\n    <ul>\n      <li>type: decision</li>\n      <li>tags: x, {&#123;y}} &lt;b&gt;</li>\n    </ul>\n  </dd>\n"
	if !strings.Contains(string(b), row) || !strings.HasSuffix(string(b), metaClose+"\n\n"+e.Content+"\n") {
		t.Errorf("%s", b)
	}
	for _, edited := range []string{row, "", strings.Replace(row, "decision", "fact", 1), "<dt>Metadata</dt><dd>text</dd>"} {
		p, err := parsePage([]byte(strings.Replace(string(b), row, edited, 1)))
		if err != nil || p.Content != e.Content || len(p.warnings) > 0 {
			t.Errorf("row %q: %q, %v", edited, p.Content, err)
		}
	}
	if err := new(dumper).checkPage(b, &e, "a"); err != nil {
		t.Error(err)
	}
}
