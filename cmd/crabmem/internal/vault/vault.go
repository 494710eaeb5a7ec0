// Package vault writes and reads entries as notes of a vault of Obsidian.
//
// A note begins with front matter: the metadata of the entry, which are lines of its
// content, and then properties of crabmem. The text follows.
//
//	---
//	type: decision
//	tags: [release, infra]
//	aliases: ["ship"]
//	crabmem-id: 7
//	crabmem-created: 2026-04-14T10:23:45
//	---
//	We deploy from main. See [[canary]].
//
// The properties of crabmem:
//
//	aliases             the aliases, after the name if the file has another one
//	crabmem-aliases     the aliases, if the metadata contains a key aliases
//	crabmem-id          the entry's ID, which marks the notes that crabmem wrote
//	crabmem-created     the time in UTC; from year 10000 on, seconds since 1970
//	crabmem-kind        archive, or missing
//	crabmem-name        the name, if the file has another one
//	crabmem-links       the links whose text differs in the entry; see linkMap
//	crabmem-front       the front matter of the entry, if the lines in the note differ:
//	                    for tags and links that Obsidian does not accept
//	crabmem-line-ends   CRLF, if the content contains it
//
// Obsidian finds the target of a link by the name of the file, not by an alias.
package vault

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/crmem/tree"
)

// Name is the name of the format.
const Name = "obsidian"

const (
	keyPrefix  = "crabmem-"
	keyAliases = "aliases"
	keyOwn     = keyPrefix + "aliases"
	keyID      = keyPrefix + "id"
	keyCreated = keyPrefix + "created"
	keyKind    = keyPrefix + "kind"
	keyName    = keyPrefix + "name"
	keyLinks   = keyPrefix + "links"
	keyFront   = keyPrefix + "front"
	keyEnds    = keyPrefix + "line-ends"

	crlf       = "CRLF"
	timeLayout = "2006-01-02T15:04:05" // of Obsidian's dates with a time
)

// Format returns the format for one export.
func Format() *tree.Format {
	v := &vault{stems: map[string]string{}}
	return &tree.Format{Name: Name, Stem: stem, Begin: v.begin, Append: v.append, Parse: Parse}
}

// vault is one export.
type vault struct {
	stems map[string]string // by name, and by alias of one entry; "" for an alias of several
}

// stem returns a name without the characters that links of Obsidian do not accept.
// It escapes them as the tree does. Obsidian writes names in normal form C, and adds
// .md only to links without it.
func stem(name string) string {
	name = norm.NFC.String(name)
	if n := len(name) - len(".md"); n >= 0 && strings.EqualFold(name[n:], ".md") {
		name = name[:n] + "=2E" + name[n+1:]
	}
	return strings.NewReplacer("[", "=5B", "]", "=5D", "^", "=5E").Replace(name)
}

func (v *vault) begin(entries []crmem.Entry, stems []string) {
	for i := range entries {
		for _, a := range entries[i].Aliases {
			if old, taken := v.stems[a]; taken && old != stems[i] {
				v.stems[a] = ""
			} else {
				v.stems[a] = stems[i]
			}
		}
	}
	for i := range entries {
		v.stems[entries[i].Name] = stems[i]
	}
}

// note is an entry in its form for Obsidian.
type note struct {
	open, end string // lines before and after the front matter
	front     string // lines of the metadata
	text      string
	ours      []string // lines of the properties
	links     bool     // some links differ from those of the entry
}

func (v *vault) append(b []byte, e *crmem.Entry, stem string) []byte {
	n := v.note(e, stem, v.resolve)
	page := n.append(b)
	if n.links {
		var got crmem.Entry
		if err := Parse(page[len(b):], stem, &got); err != nil || !got.Equal(*e) {
			n = v.note(e, stem, func(string) string { return "" })
			return n.append(b)
		}
	}
	return page
}

func (n *note) append(b []byte) []byte {
	b = append(append(b, n.open...), n.front...)
	for _, line := range n.ours {
		b = append(append(b, line...), '\n')
	}
	return append(append(b, n.end...), n.text...)
}

// note returns the note of an entry. resolve changes the targets of links.
func (v *vault) note(e *crmem.Entry, stem string, resolve func(string) string) note {
	m, body, _ := metadata.Parse(e.Content)
	n := note{open: "---\n", end: "---\n", text: e.Content[body:]}
	links := linkMap{resolve: resolve, text: e.Content}
	fields := shown(m.Fields(), &links)
	n.text = links.write(n.text)
	exact := true
	if body > 0 {
		open, lines, end, _, _ := metadata.Split(e.Content[:body])
		if exact = lines != "" && equalFields(fields, m.Fields()); exact {
			n.open, n.front, n.end = open, lines, end
		} else {
			for _, f := range fields {
				n.front += f.Line() + "\n"
			}
		}
	}
	n.properties(e, stem, slices.ContainsFunc(fields, func(f metadata.Field) bool { return f.Key == keyAliases }))
	if n.links = len(links.items) > 0; n.links {
		n.ours = append(n.ours, listLine(keyLinks, links.items))
	}
	if !exact {
		n.ours = append(n.ours, keyFront+": "+metadata.Quote(e.Content[:body]))
	}
	if strings.Contains(e.Content, "\r\n") {
		n.ours = append(n.ours, keyEnds+": "+crlf)
	}
	return n
}

// properties adds the properties of crabmem. ownAliases is set if the metadata has
// aliases.
func (n *note) properties(e *crmem.Entry, stem string, ownAliases bool) {
	list := e.Aliases
	switch {
	case ownAliases:
		n.ours = append(n.ours, listLine(keyOwn, list))
	case e.Name != stem:
		n.ours = append(n.ours, listLine(keyAliases, append([]string{e.Name}, list...)))
	case len(list) > 0:
		n.ours = append(n.ours, listLine(keyAliases, list))
	}
	n.ours = append(n.ours, keyID+": "+strconv.FormatUint(e.ID, 10))
	when := strconv.FormatUint(uint64(e.CreatedAt), 10)
	if e.CreatedAt <= crmem.MaxDate {
		when = e.CreatedAt.Time().Format(timeLayout)
	}
	n.ours = append(n.ours, keyCreated+": "+when)
	if e.Kind != crmem.Note {
		n.ours = append(n.ours, keyKind+": "+e.Kind.String())
	}
	if e.Name != stem {
		n.ours = append(n.ours, keyName+": "+metadata.Quote(e.Name))
	}
}

// listLine returns a property with a list of texts.
func listLine(key string, items []string) string {
	quoted := make([]string, len(items))
	for i, s := range items {
		quoted[i] = metadata.Quote(s)
	}
	return key + ": [" + strings.Join(quoted, ", ") + "]"
}

// shown returns the fields of metadata as Obsidian accepts them. It omits keys that
// properties of crabmem have.
func shown(fields []metadata.Field, links *linkMap) []metadata.Field {
	var list []metadata.Field
	for _, f := range fields {
		if strings.HasPrefix(f.Key, keyPrefix) {
			continue
		}
		if f.Key == metadata.Tags && len(f.Values) > 0 {
			f = shownTags(f)
		} else {
			f.Values = slices.Clone(f.Values)
			for i, value := range f.Values {
				f.Values[i] = links.write(value)
			}
		}
		list = append(list, f)
	}
	return list
}

// shownTags returns tags as a list, which Obsidian requires.
func shownTags(f metadata.Field) metadata.Field {
	values := f.Values
	if len(values) == 1 {
		values = strings.Split(values[0], ",")
	}
	f = metadata.Field{Key: f.Key, List: true}
	for _, tag := range values {
		if tag = shownTag(tag); tag != "" && !slices.Contains(f.Values, tag) {
			f.Values = append(f.Values, tag)
		}
	}
	return f
}

// shownTag returns a tag of the characters that Obsidian accepts: letters, digits, _,
// -, and /, and one that is not a digit. Numbers of YAML are no tags, either.
func shownTag(tag string) string {
	valid := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || strings.ContainsRune("_-/", r) || unicode.Is(unicode.So, r)
	}
	tag = strings.TrimPrefix(strings.TrimSpace(tag), "#")
	tag = strings.Join(strings.FieldsFunc(tag, func(r rune) bool { return !valid(r) }), "-")
	digits := !strings.ContainsFunc(tag, func(r rune) bool { return !unicode.IsDigit(r) })
	_, err := strconv.ParseFloat(tag, 64)
	if number := err == nil && strings.ContainsAny(tag, "0123456789"); tag != "" && (digits || number) {
		tag = "_" + tag
	}
	return tag
}

func equalFields(a, b []metadata.Field) bool {
	return slices.EqualFunc(a, b, func(f, g metadata.Field) bool {
		return f.Key == g.Key && f.List == g.List && slices.Equal(f.Values, g.Values)
	})
}

// resolve returns the stem of the file of a target. It is empty if Obsidian finds the
// file by the target, or if no entry has that name or alias.
func (v *vault) resolve(target string) string {
	if s := v.stems[target]; s != target {
		return s
	}
	return ""
}
