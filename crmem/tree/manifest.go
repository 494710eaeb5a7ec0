package tree

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// The files of dump in a tree. Two copies of a tree that were dumped to
// separately merge under version control: the manifest never changes, and each
// dump writes a record with a new name.
const (
	manifestFile = ".crabmem.json" // the tree's identity
	recordDir    = ".crabmem"      // a record of the last dump of each store
	recordExt    = ".json"
)

const (
	manifestFormat  = "crabmem tree"
	manifestVersion = 2
	formatVersion   = 3 // of a manifest with Form

	stateDone       = "done"
	stateUnfinished = "unfinished" // a dump runs or was interrupted

	maxManifest = 256 << 20 // bytes, also of all records
	maxRecords  = 10_000
	maxFormat   = 32 // bytes of the name of a Format
)

type manifest struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Tree    string `json:"tree"`           // random, 32 hexadecimal digits
	Form    string `json:"form,omitempty"` // name of the Format
}

// dumpRecord describes the last dump of one store.
type dumpRecord struct {
	Dump    string `json:"dump"` // random, 32 hexadecimal digits; also the name of the file
	State   string `json:"state"`
	NextID  uint64 `json:"next_id"`
	Entries int    `json:"entries"`
	// After has a link for each earlier dump of the store, or of the store that its
	// home was copied from.
	After []string `json:"after,omitempty"`
	// Unlimited lists the pages with entries that exceed the limits of new
	// entries, which a store may contain.
	Unlimited []unlimitedPage `json:"unlimited,omitempty"`
}

type unlimitedPage struct {
	Path string `json:"path"`
	Page string `json:"page"` // pageHash
	Size int64  `json:"size"`
}

// treeState is the content of the manifest and the records.
type treeState struct {
	id      string                 // "" for a tree without a manifest
	form    string                 // name of the Format
	records map[string]*dumpRecord // by their names
}

// entryHash identifies an entry without its id.
func entryHash(e *crmem.Entry) string {
	r := format.NewRecord(e.ID, uint64(e.CreatedAt), uint32(e.Kind), e.Name, e.Content, e.Aliases)
	h := sha256.New()
	io.WriteString(h, string(r[format.OffCreated:])) // a hash returns no error
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// pageHash identifies a page's bytes.
func pageHash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// newID returns the name of a tree or of a dump.
var newID = func() string { return format.NewID().String() }

func validID(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == len(format.ID{}) && s == strings.ToLower(s)
}

// readState reads the manifest and the records of a tree.
func readState(t vfs.Tree) (*treeState, error) {
	s := &treeState{records: map[string]*dumpRecord{}}
	if err := s.readManifest(t); err != nil {
		return nil, err
	}
	if s.id == "" {
		return s, nil
	}
	return s, s.readRecords(t)
}

// dumped reports whether a dump wrote the tree.
func (s *treeState) dumped() bool { return s.id != "" }

// unfinished returns the file that records an interrupted dump, or "".
func (s *treeState) unfinished() string {
	for _, r := range s.records {
		if r.State == stateUnfinished {
			return r.path()
		}
	}
	return ""
}

// nextID returns the largest next_id of the dumps.
func (s *treeState) nextID() (next uint64) {
	for _, r := range s.records {
		next = max(next, r.NextID)
	}
	return next
}

// mayBeEmpty reports whether a dump of an empty store wrote the tree.
func (s *treeState) mayBeEmpty() bool {
	for _, r := range s.records {
		if r.Entries == 0 {
			return true
		}
	}
	return false
}

// unlimited returns the pages that may exceed the limits of new entries, by path.
func (s *treeState) unlimited() map[string][]unlimitedPage {
	pages := map[string][]unlimitedPage{}
	for _, r := range s.records {
		for _, p := range r.Unlimited {
			pages[p.Path] = append(pages[p.Path], p)
		}
	}
	return pages
}

func (r *dumpRecord) path() string { return recordDir + "/" + r.Dump + recordExt }

// writeManifest gives the tree its identity.
func writeManifest(t vfs.Tree, id, form string) error {
	version := manifestVersion
	if form != "" {
		version = formatVersion
	}
	b, err := format.MarshalJSON(manifest{manifestFormat, version, id, form})
	if err != nil {
		return err
	}
	return replaceFile(t, manifestFile, append(b, '\n'))
}

// link identifies the dump before in the record of dump. It differs in each record,
// so that version control never takes two records for a renamed file.
func link(dump, before string) string { return pageHash([]byte(dump + before))[:16] }

// past returns dumps without the last ones that the tree does not come from.
func (s *treeState) past(dumps []string) []string {
	for n := len(dumps); n > 0; n-- {
		if s.comesFrom(dumps[n-1]) {
			return dumps[:n]
		}
	}
	return nil
}

// comesFrom reports whether a dump, or one after it, wrote the tree.
func (s *treeState) comesFrom(dump string) bool {
	for _, r := range s.records {
		if r.Dump == dump || slices.Contains(r.After, link(r.Dump, dump)) {
			return true
		}
	}
	return false
}

// write replaces the record, which is one line that begins with its name.
func (r *dumpRecord) write(t vfs.Tree) error {
	b, err := format.MarshalJSON(r)
	if err != nil {
		return err
	}
	if err := t.Mkdir(recordDir, 0o700); err == nil {
		err = t.SyncDir(".")
		if err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return replaceFile(t, r.path(), append(b, '\n'))
}

const (
	manifestRemedy = "remove the file; dump then treats DIR as a directory that it did not write"
	oldRemedy      = "run crabmem dump with another directory, then copy the pages that you edited into it"
)

func (s *treeState) readManifest(t vfs.Tree) error {
	b, err := readSmall(t, manifestFile, maxManifest, manifestRemedy)
	if err != nil || b == nil {
		return err
	}
	m := &manifest{}
	if err := json.Unmarshal(b, m); err != nil {
		return jsonError(manifestFile, b, err, manifestRemedy)
	}
	bad := func(msg, remedy string) error { return &Error{Path: manifestFile, Msg: msg, Remedy: remedy} }
	switch {
	case m.Format != manifestFormat:
		return bad(fmt.Sprintf("format %q, not %q", m.Format, manifestFormat), manifestRemedy)
	case m.Version < manifestVersion || m.Version > formatVersion:
		e := &Error{Path: manifestFile, Msg: fmt.Sprintf("version %d, this program reads versions %d and %d", m.Version, manifestVersion, formatVersion),
			Remedy: oldRemedy, version: true}
		if m.Version > formatVersion {
			e.Remedy = "use the newer program, or " + manifestRemedy
		}
		return e
	case (m.Version == formatVersion) != (m.Form != "" && len(m.Form) <= maxFormat):
		return bad(fmt.Sprintf("version %d with form %.80q", m.Version, m.Form), manifestRemedy)
	case !validID(m.Tree):
		return bad(fmt.Sprintf("tree %q is not 32 hexadecimal digits", m.Tree), manifestRemedy)
	}
	s.id, s.form = m.Tree, m.Form
	return nil
}

func (s *treeState) readRecords(t vfs.Tree) error {
	const remedy = "remove it"
	fi, err := t.Lstat(recordDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !fi.IsDir():
		return &Error{Path: recordDir, Msg: "is " + fileType(fi.Mode()) + ", not a directory", Remedy: remedy}
	}
	list, err := t.ReadDir(recordDir)
	if err != nil {
		return err
	}
	if len(list) > maxRecords {
		return &Error{Path: recordDir, Msg: fmt.Sprintf("%d files, at most %d", len(list), maxRecords), Remedy: "remove old files"}
	}
	left := int64(maxManifest)
	for _, d := range list {
		name, found := strings.CutSuffix(d.Name(), recordExt)
		if !found || !validID(name) {
			continue
		}
		r, file := &dumpRecord{}, path.Join(recordDir, d.Name())
		b, err := readSmall(t, file, left, remedy)
		if err != nil {
			return err
		}
		left -= int64(len(b))
		if b == nil {
			continue // removed concurrently
		}
		if err := json.Unmarshal(b, r); err != nil {
			return jsonError(file, b, err, remedy)
		}
		if r.Dump != name || r.State != stateDone && r.State != stateUnfinished {
			return &Error{Path: file, Msg: fmt.Sprintf("dump %q in state %q: not a record of this name", r.Dump, r.State), Remedy: remedy}
		}
		s.records[name] = r
	}
	return nil
}

// readSmall reads a regular file of a tree. It returns nil for a missing file.
func readSmall(t vfs.Tree, name string, limit int64, remedy string) ([]byte, error) {
	fi, err := t.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, &Error{Path: name, Msg: "is " + fileType(fi.Mode()) + ", not a regular file", Remedy: remedy}
	}
	b, err := vfs.ReadFile(t, name, limit)
	if large, ok := errors.AsType[*vfs.TooLargeError](err); ok {
		return nil, &Error{Path: name, Msg: fmt.Sprintf("%d bytes, more than the limit of %d", large.Size, large.Max), Remedy: remedy}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if b == nil {
		b = []byte{}
	}
	return b, err
}

func jsonError(name string, b []byte, err error, remedy string) error {
	e := &Error{Path: name, Msg: err.Error(), Remedy: remedy}
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		e.Line = lineAt(b, int(s.Offset))
	}
	return e
}

// lineAt returns the line number of an offset, from 1.
func lineAt(b []byte, offset int) int {
	return 1 + bytes.Count(b[:min(max(offset, 0), len(b))], []byte("\n"))
}
