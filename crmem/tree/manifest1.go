package tree

import (
	"encoding/json"
	"fmt"

	"crabmem/crmem"
)

// manifest1 is a manifest of version 1. It contains the merge base, although
// several stores may have exchanged entries with the tree.
type manifest1 struct {
	State  string            `json:"state"`
	NextID uint64            `json:"next_id"`
	Loaded map[string]string `json:"loaded"` // entryHash by name, of entries that were loaded since the dump
	Pages  []page1           `json:"pages"`
}

type page1 struct {
	Path    string `json:"path"`
	Name    string `json:"name"`
	ID      uint64 `json:"id"`
	Created uint64 `json:"created"`
	Entry   string `json:"entry"` // entryHash; empty for a page to be deleted
	Page    string `json:"page"`  // pageHash; empty for a page to be deleted
	Size    int64  `json:"size"`
	Old     string `json:"old"` // while unfinished: pageHash of the previous page
}

func parseManifest1(b []byte) (*manifest1, error) {
	m := &manifest1{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, jsonError(manifestFile, b, err, manifestRemedy)
	}
	if m.State != stateDone && m.State != stateUnfinished {
		return nil, &Error{Path: manifestFile, Msg: fmt.Sprintf("state %q, not %s or %s", m.State, stateDone, stateUnfinished), Remedy: manifestRemedy}
	}
	return m, nil
}

// base returns the base of a store for its first exchange with the tree after
// version 1. Only entries that the store has with the same ID and time count:
// another store may have dumped the others.
func (m *manifest1) base(sn *crmem.Snapshot) *base {
	own := make(map[string]crmem.Entry, sn.Len())
	for e := range sn.All() {
		own[e.Name] = e
	}
	b := &base{}
	for _, p := range m.Pages {
		e, found := own[p.Name]
		if !found || e.ID != p.ID || e.CreatedAt != p.Created {
			continue
		}
		if loaded, found := m.Loaded[p.Name]; found {
			p.Entry = loaded
		}
		row := basePage{Path: p.Path, Name: p.Name, ID: p.ID, Created: p.Created, Entry: p.Entry, Page: p.Page, Size: p.Size}
		b.Pages = append(b.Pages, row)
		if p.Old != "" {
			row.Page = p.Old
			b.next = append(b.next, row)
		}
	}
	return b
}

// record returns a record that keeps what load needs of the manifest.
func (m *manifest1) record() *dumpRecord {
	r := &dumpRecord{Dump: newID(), State: stateDone, NextID: m.NextID, Entries: len(m.Pages)}
	for _, p := range m.Pages {
		if p.Size > pageFits {
			r.Unlimited = append(r.Unlimited, unlimitedPage{p.Path, p.Page, p.Size})
		}
	}
	return r
}
