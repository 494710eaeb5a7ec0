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

	"crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// manifestFile records the pages that dump wrote and their entries. Without it
// the tree still loads, but dump treats its pages as files that it did not
// write.
const manifestFile = ".crabmem.json"

const (
	manifestFormat  = "crabmem tree"
	manifestVersion = 1

	stateDone       = "done"
	stateUnfinished = "unfinished" // a dump runs or was interrupted

	maxManifest = 256 << 20 // bytes
)

type manifest struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	State   string `json:"state"`
	NextID  uint64 `json:"next_id"`
	// Summary is the hash of SUMMARY.md; old and new while unfinished.
	Summary    string `json:"summary"`
	OldSummary string `json:"old_summary,omitempty"`
	// Loaded maps the names of entries that were loaded since the dump to a
	// hash: of the entry that a store got from this tree, or of the store's
	// entry in a settled conflict. Merge accepts either as the base of the
	// entry.
	Loaded map[string]string `json:"loaded,omitempty"`
	// Pages has the dumped pages by ascending id. While unfinished it also has
	// the pages to be deleted.
	Pages []manifestPage `json:"pages"`
}

type manifestPage struct {
	Path    string `json:"path"`
	Name    string `json:"name"`
	ID      uint64 `json:"id"`
	Created uint64 `json:"created"`
	Entry   string `json:"entry,omitempty"` // entryHash; empty for a page to be deleted
	Page    string `json:"page,omitempty"`  // pageHash; empty for a page to be deleted
	Size    int64  `json:"size"`            // bytes of the page
	Old     string `json:"old,omitempty"`   // while unfinished: pageHash of the previous page
}

// entryHash identifies an entry without its id.
func entryHash(e *crmem.Entry) string {
	r := format.NewRecord(e.ID, e.CreatedAt, uint32(e.Kind), e.Name, e.Content, e.Aliases)
	h := sha256.New()
	io.WriteString(h, string(r[format.OffCreated:])) // a hash returns no error
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// pageHash identifies a page's bytes.
func pageHash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// encode writes one line per page, for readable diffs under version control.
func (m *manifest) encode() ([]byte, error) {
	head := *m
	head.Format, head.Version, head.Pages = manifestFormat, manifestVersion, []manifestPage{}
	b, err := format.MarshalJSON(head)
	if err != nil {
		return nil, err
	}
	b = bytes.TrimSuffix(b, []byte("]}"))
	for i := range m.Pages {
		line, err := format.MarshalJSON(m.Pages[i])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, '\n'), line...)
	}
	return append(b, "\n]}\n"...), nil
}

// readManifest reads the manifest of a tree. It returns nil if the tree has no
// manifest.
func readManifest(t vfs.Tree) (*manifest, []byte, error) {
	const remedy = "remove the file; dump then treats DIR as a directory that it did not write"
	fi, err := t.Lstat(manifestFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	case !fi.Mode().IsRegular():
		return nil, nil, &Error{Path: manifestFile, Msg: "is " + fileType(fi.Mode()) + ", not a regular file", Remedy: remedy}
	}
	b, err := vfs.ReadFile(t, manifestFile, maxManifest)
	if large, ok := errors.AsType[*vfs.TooLargeError](err); ok {
		return nil, nil, &Error{Path: manifestFile, Msg: fmt.Sprintf("%d bytes, more than the limit of %d", large.Size, large.Max), Remedy: remedy}
	}
	if err != nil {
		return nil, nil, err
	}
	m := &manifest{}
	if err := json.Unmarshal(b, m); err != nil {
		e := &Error{Path: manifestFile, Msg: err.Error(), Remedy: remedy}
		if s, ok := errors.AsType[*json.SyntaxError](err); ok {
			e.Line = lineAt(b, int(s.Offset))
		}
		return nil, nil, e
	}
	switch {
	case m.Format != manifestFormat:
		return nil, nil, &Error{Path: manifestFile, Msg: fmt.Sprintf("format %q, not %q", m.Format, manifestFormat), Remedy: remedy}
	case m.Version != manifestVersion:
		return nil, nil, &Error{Path: manifestFile, Msg: fmt.Sprintf("version %d, this program reads version %d", m.Version, manifestVersion), Remedy: "use the newer program, or " + remedy}
	case m.State != stateDone && m.State != stateUnfinished:
		return nil, nil, &Error{Path: manifestFile, Msg: fmt.Sprintf("state %q, not %s or %s", m.State, stateDone, stateUnfinished), Remedy: remedy}
	}
	return m, b, nil
}

// byPath indexes the pages by path. A nil manifest has no pages.
func (m *manifest) byPath() map[string]*manifestPage {
	if m == nil {
		return nil
	}
	pages := make(map[string]*manifestPage, len(m.Pages))
	for i := range m.Pages {
		pages[m.Pages[i].Path] = &m.Pages[i]
	}
	return pages
}

// byName indexes the dumped entries by name. A nil manifest has no entries.
func (m *manifest) byName() map[string]*manifestPage {
	if m == nil {
		return nil
	}
	entries := make(map[string]*manifestPage, len(m.Pages))
	for i := range m.Pages {
		if m.Pages[i].Entry != "" {
			entries[m.Pages[i].Name] = &m.Pages[i]
		}
	}
	return entries
}

// writtenByDump reports whether dump wrote the page with this hash.
func (p *manifestPage) writtenByDump(hash string) bool {
	return p != nil && (p.Page == hash || p.Old != "" && p.Old == hash)
}

// lineAt returns the line number of an offset, from 1.
func lineAt(b []byte, offset int) int {
	n := 1
	for _, c := range b[:min(max(offset, 0), len(b))] {
		if c == '\n' {
			n++
		}
	}
	return n
}
