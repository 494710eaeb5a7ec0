package tree

import (
	"cmp"
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"crabmem/crmem"
)

const (
	summaryFile    = "SUMMARY.md"
	bookFile       = "book.toml"
	styleFile      = "crabmem.css"
	attributesFile = ".gitattributes"
)

// pageStyle is the style of the metadata block in mdbook.
//
//go:embed crabmem.css
var pageStyle string

// seeds are the files that dump writes once and never changes. book.toml lets
// mdbook serve the tree, with the style, and without front matter in the sidebar, where
// mdbook would list it as a heading. .gitattributes lets git merge tables of
// contents, which the next dump sorts.
var seeds = map[string]string{
	bookFile:       "[book]\ntitle = \"Memory\"\nsrc = \".\"\n\n[output.html]\nadditional-css = [\"" + styleFile + "\"]\nsidebar-header-nav = false\n",
	styleFile:      pageStyle,
	attributesFile: summaryFile + " merge=union\n",
}

var seedFiles = []string{attributesFile, styleFile, bookFile}

const summaryTitle = "# Summary"

var kindTitles = [...]string{crmem.Note: "# Notes", crmem.Archive: "# Archives"}

// summary renders SUMMARY.md, mdbook's table of contents: the entries of each
// kind by name. load ignores it.
func summary(entries []crmem.Entry, paths []string) []byte {
	var b strings.Builder
	b.WriteString(summaryTitle + "\n\n")
	for kind, title := range kindTitles {
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
		b.WriteString(title + "\n\n")
		for _, i := range list {
			b.WriteString(summaryLine(entries[i].Name, paths[i]) + "\n")
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

func summaryLine(name, page string) string {
	return fmt.Sprintf("- [%s](%s)", linkText(name), linkDest(page))
}

// ownSummary reports whether SUMMARY.md has only lines that dumps wrote, in any
// order, and marks of a merge. Lines of pages that the tree lacks are such lines:
// a merge may keep them.
func (d *dumper) ownSummary(text string) bool {
	own := map[string]bool{"": true, summaryTitle: true}
	for _, title := range kindTitles {
		own[title] = true
	}
	for i := range d.entries {
		own[summaryLine(d.entries[i].Name, d.paths[i])] = true
	}
	for _, p := range slices.Concat(d.old.Pages, d.old.next) {
		own[summaryLine(p.Name, p.Path)] = true
	}
	dests := make(map[string]bool, len(d.files))
	for name := range d.files {
		dests[linkDest(name)] = true
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		mark, _, _ := strings.Cut(line, " ")
		if own[line] || mark == "<<<<<<<" || mark == "|||||||" || mark == "=======" || mark == ">>>>>>>" {
			continue
		}
		_, dest, _ := strings.Cut(line, "](")
		dest, ended := strings.CutSuffix(dest, ")")
		inKind := slices.Contains(kindDirs[:], path.Dir(dest))
		if !strings.HasPrefix(line, "- [") || !ended || !inKind || dests[dest] {
			return false
		}
	}
	return true
}

// shownName returns a name as one line of visible text.
func shownName(name string) string {
	shown := strings.Map(func(r rune) rune {
		switch {
		case r < ' ':
			return r + 0x2400 // its control picture
		case r == 0x7f:
			return 0x2421
		case unicode.Is(unicode.Zs, r):
			return ' '
		case !unicode.IsPrint(r) && r != '\u200c' && r != '\u200d': // joiners shape letters and emoji
			return unicode.ReplacementChar
		}
		return r
	}, name)
	if shown = strings.TrimSpace(shown); shown != "" {
		return shown
	}
	return "(no name)"
}

// linkText renders a name as literal text in Markdown.
func linkText(name string) string {
	var b strings.Builder
	for _, r := range shownName(name) {
		if strings.ContainsRune("\\`*_[]<>&~!|$^{}#", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// linkDest renders a page's path as the target of a link. A stem contains no
// percent sign, so readers that decode only %20, as mdbook does, and readers
// that decode all escapes agree.
var linkDest = strings.NewReplacer(" ", "%20", "(", `\(`, ")", `\)`).Replace
