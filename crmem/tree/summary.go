package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"crabmem/crmem"
)

const (
	summaryFile = "SUMMARY.md"
	bookFile    = "book.toml"

	// seedBook configures mdbook to serve the tree. dump writes it once and
	// never changes it.
	seedBook = "[book]\ntitle = \"Memory\"\nsrc = \".\"\n\n[output.html]\n"
)

// summary renders SUMMARY.md, mdbook's table of contents: the entries of each
// kind by name. load ignores it.
func summary(entries []crmem.Entry, paths []string) []byte {
	var b strings.Builder
	b.WriteString("# Summary\n\n")
	for kind, title := range []string{crmem.Note: "Notes", crmem.Archive: "Archives"} {
		var list []int
		for i, e := range entries {
			if e.Kind == crmem.Kind(kind) {
				list = append(list, i)
			}
		}
		if len(list) == 0 {
			continue
		}
		slices.SortFunc(list, func(i, j int) int { return cmp.Compare(entries[i].Name, entries[j].Name) })
		fmt.Fprintf(&b, "# %s\n\n", title)
		for _, i := range list {
			fmt.Fprintf(&b, "- [%s](%s)\n", linkText(entries[i].Name), linkDest(paths[i]))
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// linkText renders a name as literal text in Markdown.
func linkText(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r < ' ':
			r += 0x2400 // its control picture
		case r == 0x7f:
			r = 0x2421
		case unicode.Is(unicode.Zs, r):
			r = ' '
		case !unicode.IsPrint(r) && r != '\u200c' && r != '\u200d': // joiners shape letters and emoji
			r = unicode.ReplacementChar
		}
		if r < 0x80 && strings.ContainsRune("\\`*_[]<>&~!|$^{}#", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	if s := strings.TrimSpace(b.String()); s != "" {
		return s
	}
	return "(no name)"
}

// linkDest renders a page's path as the target of a link. A stem contains no
// percent sign, so readers that decode only %20, as mdbook does, and readers
// that decode all escapes agree.
var linkDest = strings.NewReplacer(" ", "%20", "(", `\(`, ")", `\)`).Replace
