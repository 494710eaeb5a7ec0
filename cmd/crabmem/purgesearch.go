package main

import (
	"cmp"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/chat"
	"crabmem/crmem"
	"crabmem/crmem/tree"
	"crabmem/daemon/box"
	"crabmem/daemon/errtable"
	"crabmem/daemon/space"
	"crabmem/sessionlog"
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
	Kind   string `json:"kind" op:"words=entry|version|session|file|tree" jsonschema:"version: an earlier version of an entry; tree: the merge base of a tree"`
	Space  string `json:"space,omitempty" jsonschema:"of an entry"`
	Name   string `json:"name,omitempty" jsonschema:"of the entry; ID of the session or of the tree"`
	Path   string `json:"path"` // of the file
	Remedy string `json:"remedy"`
	Reason string `json:"reason,omitempty" jsonschema:"why --everywhere did not purge the place"`
}

// textSearch finds the places outside a purge that contain the texts of an entry.
type textSearch struct {
	*app
	everywhere bool // the caller purges the places

	ids     []uint64 // entries to purge
	texts   []string // trimmed
	short   bool     // texts were omitted because they are short
	omitted bool     // texts were omitted because of a limit

	trees      []string // merge bases that contain the entries, or entries to purge
	left       int64    // bytes to compare
	places     []textPlace
	incomplete bool // the search did not read everything
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
// contains another. It ignores redacted texts, which no file of the store contains.
func (t *textSearch) collectTexts(s *crmem.Store, ids map[uint64]bool) {
	versions, size := make(map[string]bool), 0
	add := func(e *crmem.Entry) {
		text := strings.TrimSpace(e.Content)
		switch {
		case e.ID == 0 || !ids[e.ID] || versions[text]:
		case len(text) < minSearched:
			t.short = true
		case len(versions) == maxVersions || size+len(text) > maxCopied:
			t.omitted = true
		default:
			versions[strings.Clone(text)] = true
			size += len(text)
		}
	}
	for e := range s.All() {
		add(&e)
	}
	for ch := range s.Changes() { // collect has warned of errors
		if ch.BeforeRedacted.IsZero() {
			add(&ch.Before)
		}
		if ch.AfterRedacted.IsZero() {
			add(&ch.After)
		}
	}
	for _, text := range slices.SortedFunc(maps.Keys(versions), func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }) {
		if slices.ContainsFunc(t.texts, func(part string) bool { return strings.Contains(text, part) }) {
			continue
		}
		if len(t.texts) == maxTexts {
			t.omitted = true
			break
		}
		t.texts = append(t.texts, text)
	}
}

// contains reports whether a text contains one of the texts.
func (t *textSearch) contains(text string) bool {
	return t.takes(int64(len(text))) && slices.ContainsFunc(t.texts, func(part string) bool { return strings.Contains(text, part) })
}

// takes reports whether the limit permits the search to compare size bytes with each
// text. It counts them.
func (t *textSearch) takes(size int64) bool {
	if t.left -= size * int64(len(t.texts)); t.left < 0 {
		t.incomplete = true
	}
	return t.left >= 0
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

// run searches the stores, the sessions, and the chat input history of the home.
func (t *textSearch) run() error {
	t.places, t.left, t.incomplete = []textPlace{}, maxSearched, false
	known := t.trees
	t.trees = nil
	t.addTrees(known)
	if len(t.texts) == 0 {
		return nil
	}
	home := t.absHome()
	own := t.storePath()
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
	if err := t.chatHistory(home, true); err != nil {
		t.failed(err)
	}
	paths, err := box.Purge(t.fs, home, true, t.texts...)
	if err != nil {
		t.failed(err)
	}
	for _, path := range paths {
		t.add(textPlace{Kind: placeFile, Path: path, Remedy: "run crabmem forget --purge --everywhere with the name of the entry"})
	}
	return t.otherFiles(home)
}

// chatHistory adds the file with the chat input history if it contains a text. If dry is
// not set, it instead removes the messages with a text.
func (t *textSearch) chatHistory(home string, dry bool) error {
	path, err := chat.PurgeHistory(t.fs, home, dry, t.contains)
	if path != "" && dry {
		t.add(textPlace{Kind: placeFile, Path: path, Remedy: "remove the lines with the text"})
	}
	return err
}

// addTrees adds a place for the tree of each merge base.
func (t *textSearch) addTrees(paths []string) {
	for _, path := range paths {
		if slices.Contains(t.trees, path) {
			continue
		}
		t.trees = append(t.trees, path)
		t.add(textPlace{Kind: placeTree, Name: strings.TrimSuffix(filepath.Base(path), ".json"), Path: path,
			Remedy: "the tree whose .crabmem.json has this ID may have the text: run crabmem dump with its directory, then remove other copies of the tree"})
	}
}

// search calls run and shows progress.
func (t *textSearch) search() error { return t.Busy("searching for other copies", t.run) }

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
	found := make(map[uint64]string) // by id, the kind of the place
	for e := range s.All() {
		if (!own || !slices.Contains(t.ids, e.ID)) && !t.full() && t.contains(e.Content) {
			found[e.ID] = placeEntry
		}
	}
	last := make(map[uint64]crmem.Entry) // of entries with a version that contains a text
	for ch, err := range s.Changes() {
		if err != nil {
			t.failed(err)
			continue
		}
		e := ch.Entry()
		if found[e.ID] == "" && (!own || !slices.Contains(t.ids, e.ID)) && !t.full() && (t.contains(ch.Before.Content) || t.contains(ch.After.Content)) {
			found[e.ID] = placeVersion
		}
		if found[e.ID] != "" {
			last[e.ID] = crmem.Entry{Name: strings.Clone(e.Name), Kind: e.Kind}
		}
	}
	for e := range s.All() {
		last[e.ID] = e
	}
	ids := slices.Sorted(maps.Keys(found))
	for _, kind := range []string{placeEntry, placeVersion} {
		for _, id := range ids {
			if found[id] != kind {
				continue
			}
			e, archive := last[id], ""
			if e.Kind == crmem.Archive {
				archive = "--archive "
			}
			p := textPlace{Kind: kind, Space: name, Name: strings.Clone(e.Name), Path: path,
				Remedy: "run crabmem forget --purge " + archive + flags + errtable.ShellWord(e.Name)}
			if other, err := s.Get(e.Name); err == nil && other.Name == e.Name && other.ID != id {
				p.Reason = "a purge of this removed entry also removes the present entry of the same name"
				p.Remedy = "run crabmem rename for the present entry, then " + strings.TrimPrefix(p.Remedy, "run ")
			}
			t.add(p)
		}
	}
	if trees, err := tree.Exchanged(s, ids...); err != nil {
		t.failed(err)
	} else if t.everywhere {
		t.addTrees(trees)
	}
}

// storeFlags returns the flags that select a store of the home.
func (t *textSearch) storeFlags(home, name string, own bool) string {
	name = t.spaceLabel(name)
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

// sessions searches the sessions of the home, and the files of deleted, damaged, and
// kept ones.
func (t *textSearch) sessions() {
	if _, err := t.fs.Lstat(t.sessionsPath()); missing(err) {
		return
	}
	d, err := t.openSessions("", true)
	if err != nil {
		t.failed(err)
		return
	}
	defer d.Close()
	infos, err := d.ListAll()
	if err != nil {
		t.failed(err)
	}
	for i := range infos {
		if !t.full() {
			t.session(d, infos[i].File)
		}
	}
	copies, err := d.PurgeCopies(true, t.texts...)
	if err != nil {
		t.failed(err)
	}
	for _, path := range copies {
		t.add(textPlace{Kind: placeFile, Path: path, Remedy: "remove the file"})
	}
}

// session searches a session.
func (t *textSearch) session(d *sessionlog.Dir, file string) {
	s, err := d.Read(file)
	if errors.Is(err, sessionlog.ErrNotFound) {
		return // deleted or renamed
	}
	if err != nil {
		t.failed(err)
		return
	}
	defer s.Close()
	if !t.takes(s.Size) {
		return
	}
	found, err := s.Contains(t.texts...)
	if err != nil {
		t.failed(err)
	}
	if found {
		t.add(textPlace{Kind: placeSession, Name: s.ID, Path: s.Path, Remedy: "run crabmem sessions delete " + errtable.ShellWord(s.ID) +
			", then remove the file from " + errtable.ShellWord(filepath.Join(d.Path(), ".trash"))})
	}
}
