package tree

import (
	"errors"
	"slices"
	"strings"
	"testing"
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
