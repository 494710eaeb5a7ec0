package vault

import (
	"slices"
	"strings"

	"crabmem/crmem/metadata"
)

// linkMap changes links whose target is not the name of a file: [[ship]] becomes
// [[deploy|ship]]. For each of them, items contains the stem of the file, "|", and the
// text between the brackets in the entry.
type linkMap struct {
	resolve func(target string) string // stem of another name; may be nil
	text    string                     // the complete content
	items   []string
	seen    map[string]bool // results of changes
}

// write changes the links of a text of the entry to those of the note. It keeps links
// whose form in the note would be ambiguous.
func (m *linkMap) write(text string) string {
	return metadata.ReplaceLinks(text, func(link, line string) string {
		stem := m.resolve(metadata.Target(link))
		if stem == "" || strings.ContainsAny(link, "[]") {
			return link
		}
		item := stem + "|" + link
		if !m.changes(item) {
			return link
		}
		if row := strings.HasPrefix(strings.TrimSpace(line), "|"); row {
			return tableLink(item)
		}
		return shownLink(item)
	})
}

// maxLinks is the largest number of different links of an entry that may change, because
// each of them costs a search of the content.
const maxLinks = metadata.MaxLinks

// changes reports whether a link changes, and adds it to the items.
func (m *linkMap) changes(item string) bool {
	ok, seen := m.seen[item]
	if seen || len(m.seen) >= maxLinks {
		return ok
	}
	if ok = slices.Contains(m.items, item); !ok && !m.ambiguous(item) {
		m.items, ok = append(m.items, item), true
	}
	if m.seen == nil {
		m.seen = make(map[string]bool)
	}
	m.seen[item] = ok
	return ok
}

// ambiguous reports whether the changed link is in the content, or is the form of
// another link.
func (m *linkMap) ambiguous(item string) bool {
	link := shownLink(item)
	return strings.Contains(m.text, "[["+link+"]]") || strings.Contains(m.text, "[["+tableLink(item)+"]]") ||
		slices.ContainsFunc(m.items, func(other string) bool { return shownLink(other) == link })
}

// read changes the links of a note to those of the entry.
func (m *linkMap) read(text string) string {
	if len(m.items) == 0 {
		return text
	}
	var pairs []string
	for _, item := range m.items {
		_, link, ok := strings.Cut(item, "|")
		if ok {
			pairs = append(pairs, "[["+shownLink(item)+"]]", "[["+link+"]]", "[["+tableLink(item)+"]]", "[["+link+"]]")
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// known returns a link map that resolves the targets of the items.
func (m *linkMap) known() *linkMap {
	return &linkMap{items: m.items, resolve: func(target string) string {
		for _, item := range m.items {
			if stem, link, _ := strings.Cut(item, "|"); metadata.Target(link) == target {
				return stem
			}
		}
		return ""
	}}
}

// shownLink returns the text between the brackets in the note: the stem, "|", and the
// text that the link shows.
func shownLink(item string) string {
	stem, link, _ := strings.Cut(item, "|")
	if _, text, has := strings.Cut(link, "|"); has {
		link = text
	}
	return stem + "|" + link
}

// tableLink returns the text for a table, where | ends a cell.
func tableLink(item string) string { return strings.Replace(shownLink(item), "|", `\|`, 1) }
