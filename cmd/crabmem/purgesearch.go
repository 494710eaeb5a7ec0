package main

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
	"crabmem/daemon/space"
)

// Limits of the search for copies of purged texts.
const (
	minSearched = 12       // bytes of a text
	maxTexts    = 50       // texts
	maxVersions = 1000     // versions of the entry
	maxCopied   = 64 << 20 // bytes of the versions
	maxSearched = 16 << 30 // bytes to compare, for all texts
	maxPlaces   = 100
)

// The kinds of a textPlace.
const (
	placeEntry   = "entry"   // an entry of a space
	placeVersion = "version" // only an earlier version of an entry
	placeSession = "session"
	placeFile    = "file" // of a deleted or damaged session
	placeTree    = "tree" // a merge base: the tree of a dump or a load
)

// textPlace is a place that contains a purged text.
type textPlace struct {
	Kind   string `json:"kind"`
	Space  string `json:"space,omitempty"` // of an entry
	Name   string `json:"name,omitempty"`  // of the entry; ID of the session or of the tree
	Path   string `json:"path"`            // of the file
	Remedy string `json:"remedy"`
}

// textSearch finds the places outside a purge that contain the texts of an entry.
type textSearch struct {
	*app
	ids     []uint64 // entries to purge
	texts   []string // trimmed
	escaped []string // texts in JSON strings
	short   bool     // texts were omitted because they are short, and no text is left

	trees      []string // merge bases that contain the entries
	seen       map[string]bool
	left       int64 // bytes to compare
	places     []textPlace
	incomplete bool
}

// collect finds the entries of a name, their texts, and their trees. It reads the
// history of s.
func (t *textSearch) collect(s *crmem.Store, name string) {
	ids := make(map[uint64]bool)
	t.eachChange(s.Changes(), func(ch *crmem.Change) {
		if ch.After.ID == 0 && ch.Before.Name == name {
			ids[ch.Before.ID] = true
		} else {
			delete(ids, ch.Entry().ID)
		}
	})
	if e, err := s.Get(name); err == nil && e.Name == name {
		ids[e.ID] = true
	}
	t.ids = slices.Sorted(maps.Keys(ids))
	t.collectTexts(s, ids)
	var err error
	if t.trees, err = tree.Exchanged(s, t.ids...); err != nil {
		t.failed(err)
	}
}

// collectTexts sets texts to those of all versions of entries, without a text that
// contains another.
func (t *textSearch) collectTexts(s *crmem.Store, ids map[uint64]bool) {
	versions, size := make(map[string]bool), 0
	add := func(e *crmem.Entry) {
		text := strings.TrimSpace(e.Content)
		switch {
		case e.ID == 0 || !ids[e.ID] || versions[text]:
		case len(text) < minSearched:
			t.short = true
		case len(versions) == maxVersions || size+len(text) > maxCopied:
			t.incomplete = true
		default:
			versions[strings.Clone(text)] = true
			size += len(text)
		}
	}
	for e := range s.All() {
		add(&e)
	}
	for ch := range s.Changes() { // collect has warned of errors
		add(&ch.Before)
		add(&ch.After)
	}
	for _, text := range slices.SortedFunc(maps.Keys(versions), func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }) {
		if slices.ContainsFunc(t.texts, func(part string) bool { return strings.Contains(text, part) }) {
			continue
		}
		if len(t.texts) == maxTexts {
			t.incomplete = true
			break
		}
		t.texts = append(t.texts, text)
		if b, err := cli.EncodeJSON(text); err == nil {
			t.escaped = append(t.escaped, strings.Trim(strings.TrimSpace(string(b)), `"`))
		}
	}
	t.short = t.short && len(t.texts) == 0
}

// contains reports whether a text contains one of the texts.
func (t *textSearch) contains(text string) bool { return t.containsAny(text, t.texts) }

func (t *textSearch) containsAny(text string, parts []string) bool {
	if t.left -= int64(len(text)) * int64(len(parts)); t.left < 0 {
		t.incomplete = true
		return false
	}
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// full reports that the search is at a limit.
func (t *textSearch) full() bool {
	full := t.left < 0 || len(t.places) >= maxPlaces
	t.incomplete = t.incomplete || full
	return full
}

func (t *textSearch) add(p textPlace) {
	if !t.full() {
		t.places = append(t.places, p)
	}
}

// failed warns of a place that the search cannot read.
func (t *textSearch) failed(err error) {
	t.incomplete = true
	t.Warn("search for other copies: " + err.Error())
}

// run searches the stores and the sessions of the home.
func (t *textSearch) run() error {
	for _, path := range t.trees {
		id := strings.TrimSuffix(filepath.Base(path), ".json")
		t.add(textPlace{Kind: placeTree, Name: id, Path: path,
			Remedy: "the tree whose .crabmem.json has this ID may have the text: run crabmem dump with its directory, then remove other copies of the tree"})
	}
	if len(t.texts) == 0 {
		return nil
	}
	home, err := t.absHome()
	if err != nil {
		return err
	}
	own, err := t.storePath()
	if err != nil {
		return err
	}
	t.store(own, home, t.space, true)
	names, err := space.Names(t.fs, home)
	if err != nil {
		t.failed(err)
	}
	for _, name := range names {
		if path := space.File(home, name); !t.sameFile(path, own) {
			t.store(path, home, name, false)
		}
	}
	t.sessions()
	return nil
}

// sameFile reports whether two paths lead to the same file.
func (t *textSearch) sameFile(a, b string) bool {
	ra, erra := t.fs.Resolve(a)
	rb, errb := t.fs.Resolve(b)
	return erra == nil && errb == nil && ra == rb
}

// store searches the entries of a store and their earlier versions. own is set for
// the store of the purged entries.
func (t *textSearch) store(path, home, name string, own bool) {
	if _, err := t.fs.Lstat(path); missing(err) {
		return
	}
	s, err := crmem.Open(path, &crmem.Options{FS: t.fs, Now: t.now, Warn: t.Warn, ReadOnly: true, MustExist: true})
	if err != nil {
		if !errors.Is(err, crmem.ErrNoStore) {
			t.failed(err)
		}
		return
	}
	defer s.Close()
	flags := t.storeFlags(home, name, own)
	if name == "" && t.sameFile(path, space.File(home, space.Main)) {
		name = space.Main
	}
	found := make(map[uint64]bool)
	if own {
		for _, id := range t.ids {
			found[id] = true
		}
	}
	add := func(kind string, e *crmem.Entry) {
		if t.full() || found[e.ID] || !t.contains(e.Content) {
			return
		}
		found[e.ID] = true
		archive := ""
		if e.Kind == crmem.Archive {
			archive = "--archive "
		}
		t.add(textPlace{Kind: kind, Space: name, Name: strings.Clone(e.Name), Path: path,
			Remedy: "run crabmem forget --purge " + archive + flags + errtable.ShellWord(e.Name)})
	}
	for e := range s.All() {
		add(placeEntry, &e)
	}
	for ch, err := range s.Changes() {
		switch {
		case t.full():
			return
		case err != nil:
			t.failed(err)
		default:
			add(placeVersion, &ch.Before)
			add(placeVersion, &ch.After)
		}
	}
}

// storeFlags returns the flags that select a store of the home.
func (t *textSearch) storeFlags(home, name string, own bool) string {
	switch {
	case own && t.db != "":
		return "--db " + errtable.ShellWord(t.db) + " "
	case name != "" && name != space.Main && t.home == "":
		return "--space " + name + " "
	case name != "" && name != space.Main:
		return "--home " + errtable.ShellWord(t.home) + " --space " + name + " "
	case t.home != "":
		return "--home " + errtable.ShellWord(t.home) + " "
	case !own && (t.db != "" || t.Getenv("CRABMEM_DB") != ""):
		return "--home " + errtable.ShellWord(home) + " "
	}
	return ""
}

// rawFile searches a file of JSON lines that is not a session.
func (t *textSearch) rawFile(path string) {
	b, err := vfs.ReadFile(t.fs, path, maxCopied)
	switch {
	case missing(err):
	case err != nil:
		t.failed(err)
	case t.containsAny(string(b), t.escaped):
		t.add(textPlace{Kind: placeFile, Path: path, Remedy: "remove the file"})
	}
}

// rawFiles searches the files of a directory.
func (t *textSearch) rawFiles(dir string) {
	entries, err := t.fs.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.failed(err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() && !t.full() {
			t.rawFile(filepath.Join(dir, e.Name()))
		}
	}
}
