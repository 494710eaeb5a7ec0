package crmem

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"crabmem/crmem/internal/format"
)

// A Destination is where a link leads.
type Destination struct {
	Entry Entry
	Rest  string // the end of the target that names a heading or a block of the entry, with #
	Alias bool   // an alias of the entry matches, and its name does not
}

// Link returns the destination of a link's target, as [metadata.Target] returns it. The
// target is a name or an alias, as for [Store.Get]. Else the part before the last or the
// first # is. Else one entry has the name, or else the alias, if neither case, Unicode
// form, an ending .md, nor folders at the start of one of the two count. Link counts no
// read. Errors: [ErrNotFound]; *[AmbiguousError] if several entries match equally well.
func (s *Store) Link(target string) (d Destination, err error) {
	part := target
	d.Entry, err = s.findBy(target, func(t *table, target string) (r format.Record, owners []uint64) {
		r, part, owners = t.resolveLink(target)
		return r, owners
	})
	d.Rest = target[len(part):]
	d.Alias = err == nil && fit(d.Entry.Name, part) == 0
	return d, err
}

// resolveLink returns the record of the entry that a link leads to, and the part of its
// target that names the entry; or the ids of several entries.
func (t *table) resolveLink(target string) (r format.Record, part string, owners []uint64) {
	parts := []string{target}
	for _, i := range []int{strings.LastIndexByte(target, '#'), strings.IndexByte(target, '#')} {
		if i > 0 && len(parts[len(parts)-1]) > i {
			parts = append(parts, strings.TrimRight(target[:i], " "))
		}
	}
	for _, part = range parts {
		if r, owners = t.resolve(part); r != "" || len(owners) > 0 {
			return r, part, owners
		}
	}
	for _, part = range parts {
		if owners = t.like(part); len(owners) == 1 {
			return t.byID(owners[0]), part, nil
		} else if len(owners) > 0 {
			return "", part, owners
		}
	}
	return "", target, nil
}

// like returns the ids of the entries whose names fit a text best, ascending, or else of
// those whose aliases do. The map of aliases exists.
func (t *table) like(text string) []uint64 {
	key := linkKey(text)
	for _, alias := range []bool{false, true} {
		best := 1
		var owners []uint64
		add := func(id uint64, name string) {
			n := fit(name, text)
			if n > best {
				best, owners = n, nil
			}
			if n == best {
				owners = append(owners, id)
			}
		}
		spelled := t.linkNames
		if alias {
			spelled = t.linkAlias
		}
		for _, name := range append([]string{key}, spelled[key]...) {
			if alias {
				for _, id := range t.aliased(name) {
					add(id, name)
				}
			} else if r := t.byName(name); r != "" {
				add(r.ID(), name)
			}
		}
		for _, id := range t.withFile(nil, key, alias, func(other string) bool { return fit(other, text) > 0 }) {
			r := t.byID(id)
			for _, name := range r.Aliases() {
				if alias {
					add(id, name)
				}
			}
			if !alias {
				add(id, r.Name())
			}
		}
		if slices.Sort(owners); len(owners) > 0 {
			return slices.Compact(owners)
		}
	}
	return nil
}

// fit returns how well a name or an alias fits the part of a link that names an entry: 0
// if it does not, more for each equal folder, and most if no folder differs.
func fit(name, link string) int {
	for cut := true; cut; {
		dots := link[:len(link)-len(strings.TrimLeft(link, "."))]
		link, cut = strings.CutPrefix(link, dots+"/")
	}
	name, link = linkForm(name), linkForm(link)
	if name == link {
		return 2 * (2 + strings.Count(name, "/"))
	}
	if len(name) > len(link) {
		name, link = link, name
	}
	if name == "" || !strings.HasSuffix(link, "/"+name) {
		return 0
	}
	return 2 + 2*strings.Count(name, "/")
}

// Fits reports whether the part of a link that names an entry may mean a name or an alias.
func Fits(name, part string) bool { return fit(name, part) > 0 }

// linkKey returns a name's form by which links of other spellings find it.
func linkKey(name string) string {
	form := linkForm(name)
	return form[strings.LastIndexByte(form, '/')+1:]
}

// linkForm returns a name without an ending .md, in lower case and normal form C.
func linkForm(name string) string {
	if n := len(name) - len(".md"); n > 0 && name[n-1] != '/' && strings.EqualFold(name[n:], ".md") {
		name = name[:n]
	}
	for i := range len(name) {
		if c := name[i]; c >= utf8.RuneSelf {
			return norm.NFC.String(strings.ToLower(norm.NFC.String(name)))
		}
	}
	return strings.ToLower(name)
}
