package crmem

import (
	"slices"
	"strings"
	"testing"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
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

// TestInspectFrameFields checks the fields of one frame of each log version.
func TestInspectFrameFields(t *testing.T) {
	for version, want := range map[int][]string{
		format.LogVersion1: {"type 1 put", "zero 0x000000", "len 41", "seq 1"},
		format.LogVersion:  {"type 1 put", "zero 0x00", "context_len 0", "len 41", "seq 1"},
	} {
		m := vfs.NewMem()
		s := opened(t, "/m.db", &Options{FS: m, LogVersion: version, FoldOnClose: FoldNever}, 0)
		noErr(t, s.Apply(Add{Name: "name", Content: "text!"}))
		noErr(t, s.Close())
		var got []string
		for f, err := range Inspect(memBytes(t, m, "/m.db-wal")) {
			noErr(t, err)
			if f.Name == "type" || len(got) > 0 && len(got) < len(want) {
				got = append(got, f.Name+" "+f.Value)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("version %d: %q, want %q", version, got, want)
		}
	}
}
