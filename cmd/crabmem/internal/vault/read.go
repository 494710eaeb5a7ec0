package vault

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
)

// Page is the entry of a note.
type Page struct {
	crmem.Entry
	Exported bool // crabmem wrote the note; another note is all content
	Timed    bool // the note has the creation time
}

// Parse sets the fields of e to those of a note. It keeps fields that the note does not
// have.
func Parse(page []byte, stem string, e *crmem.Entry) error {
	p, err := Read(string(page), stem)
	if err != nil {
		return err
	}
	if !p.Exported {
		p.ID, p.Kind = e.ID, e.Kind
	}
	if !p.Timed {
		p.CreatedAt = e.CreatedAt
	}
	*e = p.Entry
	return nil
}

// Read reads a note. It returns an error for a note of crabmem whose front matter
// is damaged.
func Read(page, stem string) (*Page, error) {
	if !utf8.ValidString(page) {
		return nil, errors.New("not UTF-8")
	}
	page = strings.TrimPrefix(page, "\ufeff")
	p := &Page{Entry: crmem.Entry{Name: norm.NFC.String(stem), Content: page}}
	open, front, _, _, ok := metadata.Split(page)
	exported := strings.Contains("\n"+front, "\n"+keyID+":")
	if !ok || !exported && len(front) > maxFront {
		return p, nil
	}
	if n := strings.Count(front, "\n"); exported && n > maxFrontLines {
		return nil, fmt.Errorf("front matter has more than %d lines", maxFrontLines)
	}
	keys, err := Keys(front)
	if !exported {
		if err == nil || err == ErrLines {
			list, _ := keyOf(keys, keyAliases).list()
			for _, a := range list {
				if a = strings.TrimSpace(a); a != "" && a != p.Name && !slices.Contains(p.Aliases, a) {
					p.Aliases = append(p.Aliases, a)
				}
			}
		}
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("front matter cannot be read: %w", err)
	}
	// An editor or version control may have changed the line ends of a note.
	if ends, _ := keyOf(keys, keyEnds).text(); ends != crlf && strings.HasSuffix(open, "\r\n") {
		page = strings.ReplaceAll(page, "\r\n", "\n")
		_, front, _, _, _ = metadata.Split(page)
		if keys, err = Keys(front); err != nil {
			return nil, err
		}
	}
	p.properties(keys)
	p.content(page, keys)
	return p, nil
}

// Limits of front matter, because large YAML costs much time. A note of crabmem may have
// long lines.
const (
	maxFront      = 64 << 10 // bytes, of a note that crabmem did not write
	maxFrontLines = 8 << 10  // of a note that crabmem wrote, and an editor may have changed
)

// keyOf returns the first key of a name, or nil.
func keyOf(keys []Key, name string) *Key {
	for i := range keys {
		if keys[i].Name == name {
			return &keys[i]
		}
	}
	return nil
}

// properties sets the fields except for the content.
func (p *Page) properties(keys []Key) {
	p.Exported = true
	if s, ok := keyOf(keys, keyID).text(); ok {
		p.ID, _ = strconv.ParseUint(s, 10, 64)
	}
	name, named := keyOf(keys, keyName).text()
	if named {
		p.Name = name
	}
	if s, ok := keyOf(keys, keyKind).text(); ok && s == crmem.Archive.String() {
		p.Kind = crmem.Archive
	}
	if s, ok := keyOf(keys, keyCreated).text(); ok {
		p.CreatedAt, p.Timed = parseTime(s)
	}
	if own := keyOf(keys, keyOwn); own != nil {
		p.Aliases, _ = own.list()
		return
	}
	p.Aliases, _ = keyOf(keys, keyAliases).list()
	if named && len(p.Aliases) > 0 && p.Aliases[0] == p.Name {
		p.Aliases = p.Aliases[1:]
	}
	if len(p.Aliases) == 0 {
		p.Aliases = nil
	}
}

// parseTime parses a time of an export, or of an editor of properties.
func parseTime(s string) (crmem.UnixTime, bool) {
	if sec, err := strconv.ParseUint(s, 10, 64); err == nil {
		return crmem.UnixTime(sec), true
	}
	for _, layout := range []string{timeLayout, "2006-01-02T15:04", time.DateTime, time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil && t.Unix() >= 0 {
			return crmem.UnixTime(t.Unix()), true
		}
	}
	return 0, false
}

// content sets the content: the front matter without the properties of crabmem, and
// the text.
func (p *Page) content(page string, keys []Key) {
	open, front, end, text, _ := metadata.Split(page)
	links := &linkMap{}
	links.items, _ = keyOf(keys, keyLinks).list()
	links.items = links.items[:min(len(links.items), maxLinks)]
	text = links.read(text)
	remove := func(name string) bool {
		return strings.HasPrefix(name, keyPrefix) || name == keyAliases && keyOf(keys, keyOwn) == nil
	}
	own := ownLines(front, keys, remove)
	if saved, ok := keyOf(keys, keyFront).text(); ok {
		left := slices.DeleteFunc(slices.Clone(keys), func(k Key) bool { return remove(k.Name) })
		if changed, ok := editedFront(saved, left, links); ok {
			p.Content = changed + text
			return
		}
	}
	if own != "" {
		own = open + links.read(own) + end
	}
	p.Content = own + text
}
