package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"

	"golang.org/x/text/unicode/norm"

	"crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// BasesSuffix, appended to the path of a store, is the directory of the merge
// bases of the store: one file for each tree, named after the tree.
const BasesSuffix = "-trees"

const (
	baseFormat  = "crabmem base"
	baseVersion = 1
	maxBase     = 256 << 20 // bytes
	maxDumps    = 100
)

// base is the merge base: what one store last exchanged with one tree, by a dump
// or a load. It is in the directory of the store, because a tree may be copied
// and may exchange entries with several stores. A lost base costs conflicts, but
// no text.
type base struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Tree    string `json:"tree"`
	Store   string `json:"store"`   // identity of the store, or "" before its first write
	NextID  uint64 `json:"next_id"` // of the store
	// Dumps are the last dumps of the store, oldest first, at most maxDumps. If the
	// tree does not come from the last one, it is older, and the base does not
	// apply.
	Dumps []string `json:"dumps,omitempty"`
	Next  string   `json:"next,omitempty"` // a dump that runs or was interrupted

	Pages []basePage `json:"pages"`

	next []basePage // pages of the dump Next
	text []byte     // as read
}

// basePage is an exchanged page with its entry.
type basePage struct {
	Path    string `json:"path"`
	Name    string `json:"name"`
	ID      uint64 `json:"id"`
	Created uint64 `json:"created"`
	// Date is the date of the page, if load kept another time of the entry.
	Date  *uint64 `json:"date,omitempty"`
	Entry string  `json:"entry"`          // entryHash
	Page  string  `json:"page,omitempty"` // pageHash; empty after a conflict
	Size  int64   `json:"size"`           // bytes of the page
	Bare  bool    `json:"bare,omitempty"` // the page has no metadata block
	Next  bool    `json:"next,omitempty"` // a page of the dump Next
}

// encode writes one line per page.
func (b *base) encode() ([]byte, error) {
	head := *b
	head.Format, head.Version, head.Pages = baseFormat, baseVersion, []basePage{}
	text, err := format.MarshalJSON(head)
	if err != nil {
		return nil, err
	}
	text = bytes.TrimSuffix(text, []byte("]}"))
	sep := "\n"
	for i := range len(b.Pages) + len(b.next) {
		var p basePage
		if i < len(b.Pages) {
			p = b.Pages[i]
		} else {
			p = b.next[i-len(b.Pages)]
			p.Next = true
		}
		line, err := format.MarshalJSON(p)
		if err != nil {
			return nil, err
		}
		text = append(append(text, sep...), line...)
		sep = ",\n"
	}
	return append(text, "\n]}\n"...), nil
}

// bases are the merge bases of a store.
type bases struct {
	fsys  vfs.FS
	dir   string // "" if the store keeps none
	store string // identity
}

func (s *bases) path(tree string) string { return s.dir + "/" + tree + ".json" }

// read returns the base of a tree, and a warning if it is damaged. Without a base
// for this state of the store it returns an empty one: of a store that was
// replaced by an older copy, or of another store.
func (s *bases) read(tree string, sn *crmem.Snapshot) (b *base, warning string, err error) {
	b = &base{}
	if s.dir == "" || tree == "" {
		return b, "", nil
	}
	text, err := vfs.ReadFile(s.fsys, s.path(tree), maxBase)
	if errors.Is(err, fs.ErrNotExist) {
		return b, "", nil
	}
	if _, large := errors.AsType[*vfs.TooLargeError](err); err != nil && !large {
		return b, "", err
	}
	if err == nil {
		err = json.Unmarshal(text, b)
	}
	if err == nil && (b.Format != baseFormat || b.Version != baseVersion || b.Tree != tree) {
		err = fmt.Errorf("format %q, version %d, tree %q", b.Format, b.Version, b.Tree)
	}
	if err != nil {
		return &base{}, fmt.Sprintf("%s: %v: crabmem treats the tree as that of another store", s.path(tree), err), nil
	}
	if b.Store != "" && s.store != "" && b.Store != s.store || b.NextID > sn.NextID {
		return &base{}, "", nil
	}
	b.text = text
	pages := b.Pages
	b.Pages = nil
	for _, p := range pages {
		if p.Next {
			p.Next = false
			b.next = append(b.next, p)
		} else {
			b.Pages = append(b.Pages, p)
		}
	}
	return b, "", nil
}

// save replaces the base of a tree if it differs from old.
func (s *bases) save(b, old *base) error {
	if s.dir == "" {
		return nil
	}
	b.Store = s.store
	sort.Slice(b.Pages, func(i, j int) bool { return b.Pages[i].Path < b.Pages[j].Path })
	text, err := b.encode()
	if err != nil || bytes.Equal(text, old.text) {
		return err
	}
	if err := vfs.MkdirAll(s.fsys, s.dir, 0o700); err != nil {
		return err
	}
	return replaceFile(s.fsys, s.path(b.Tree), text)
}

// applies reports whether the base is of this tree, so that a comparison with it finds
// the changes of the tree.
func (b *base) applies(t *treeState) bool {
	return b.Tree != "" && len(b.Dumps) == len(t.past(b.Dumps))
}

// byName indexes the exchanged entries by name.
func (b *base) byName() map[string]*basePage {
	entries := make(map[string]*basePage, len(b.Pages))
	for i := range b.Pages {
		entries[b.Pages[i].Name] = &b.Pages[i]
	}
	return entries
}

// basePages are the pages that a store exchanged with a tree, by the normal form C of
// the path: some file systems decompose names.
type basePages map[string][]*basePage

// byPath indexes the exchanged pages, and those that an interrupted dump wrote.
func (b *base) byPath() basePages {
	pages := make(basePages, len(b.Pages))
	for _, list := range [][]basePage{b.Pages, b.next} {
		for i := range list {
			pages.add(&list[i])
		}
	}
	return pages
}

func (p basePages) add(page *basePage) {
	form := norm.NFC.String(page.Path)
	p[form] = append(p[form], page)
}

// at returns the exchanged pages at a path.
func (p basePages) at(path string) []*basePage { return p[norm.NFC.String(path)] }

// has reports whether the page at path was exchanged with this hash.
func (p basePages) has(path, hash string) bool {
	return slices.ContainsFunc(p.at(path), func(known *basePage) bool { return known.Page == hash && hash != "" })
}

// size returns the size of the largest exchanged page at path.
func (p basePages) size(path string) (size int64) {
	for _, known := range p.at(path) {
		size = max(size, known.Size)
	}
	return size
}
