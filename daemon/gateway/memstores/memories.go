package memstores

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"

	"golang.org/x/text/unicode/norm"
)

var memoryRoutes = []Route{
	{Method: "POST", Path: storedPath, Summary: "Create a memory", Once: true, In: of[newStored](), Out: of[storedMemory](), Fails: []int{409, 422, 507},
		Query: []op.Field{betaParam, viewParam}, Run: onceWith((*Request).createStored, (*Request).replayStored)},
	{Method: "GET", Path: storedPath, Summary: "List memories by path", Out: of[storedList](),
		Query: []op.Field{betaParam, storeLimit, pageParam, viewParam, param("path_prefix", "only paths that begin so; it ends with a slash"),
			{Name: "depth", Doc: "1: group the memories below each directory; absent: 0", Type: of[int](), Max: 1}},
		Run: (*Request).listStoredMemories},
	{Method: "GET", Path: storedPath + "/{memory}", Summary: "Read a memory", Out: of[storedMemory](), Query: []op.Field{betaParam, viewParam},
		Run: (*Request).readStored},
	{Method: "POST", Path: storedPath + "/{memory}", Summary: "Change content and path of a memory", Once: true, In: of[changedStored](), Out: of[storedMemory](),
		Fails: []int{409, 422, 507}, Query: []op.Field{betaParam, viewParam}, Run: onceWith((*Request).changeStored, (*Request).replayStored)},
	{Method: "DELETE", Path: storedPath + "/{memory}", Summary: "Remove a memory", Once: true, Out: of[removedObject](), Fails: []int{409, 507},
		Query: []op.Field{betaParam, {Name: "expected_content_sha256", Doc: "remove it only if its content has this digest", Type: of[string](), Size: 64}},
		Run:   once((*Request).removeStored, (*Request).replayRemoved)},
}

const (
	storedPath   = storePath + "/memories"
	memoryPrefix = "mem_" // of the ID of a memory; the ID of its note follows

	// The limits of writes. Reads may exceed them.
	maxStoredContent = 102_400 // bytes
	maxStored        = 2_000   // memories in a store
	maxPath          = 1_024   // bytes
	maxSegments      = 20

	preconditionFailed = "memory_precondition_failed_error"
	pathConflict       = "memory_path_conflict_error"
	unlistedHeader     = "X-Crabmem-Unlisted" // number of notes that have no path
)

type storedMemory struct {
	ID        string  `json:"id"`
	Type      string  `json:"type"`
	Store     string  `json:"memory_store_id"`
	Version   string  `json:"memory_version_id" jsonschema:"of the present content"`
	Path      string  `json:"path"`
	Content   *string `json:"content" jsonschema:"null in the basic view"`
	SHA256    string  `json:"content_sha256" jsonschema:"of the content, in lower-case hex"`
	Bytes     int     `json:"content_size_bytes"`
	CreatedAt string  `json:"created_at" jsonschema:"RFC 3339"`
	UpdatedAt string  `json:"updated_at" jsonschema:"RFC 3339"`
}

// storedItem is a memory, or a directory of memories, which has only type and path.
type storedItem struct {
	ID        string  `json:"id,omitempty"`
	Type      string  `json:"type" jsonschema:"memory or memory_prefix"`
	Store     string  `json:"memory_store_id,omitempty"`
	Version   string  `json:"memory_version_id,omitempty"`
	Path      string  `json:"path"`
	Content   *string `json:"content"`
	SHA256    string  `json:"content_sha256,omitempty"`
	Bytes     *int    `json:"content_size_bytes,omitempty"`
	CreatedAt string  `json:"created_at,omitempty"`
	UpdatedAt string  `json:"updated_at,omitempty"`
}

type storedList struct {
	Data []storedItem `json:"data"`
	Next *string      `json:"next_page"`
}

type newStored struct {
	Path    string  `json:"path"`
	Content *string `json:"content" jsonschema:"at most 102400 bytes; null: empty"`
}

type changedStored struct {
	Content      *string       `json:"content,omitempty"`
	Path         *string       `json:"path,omitempty"`
	Precondition *precondition `json:"precondition,omitempty"`
}

type precondition struct {
	Type   string `json:"type" jsonschema:"content_sha256"`
	SHA256 string `json:"content_sha256,omitempty"`
}

// nameOf returns the name of the note with a path, or why no note can have the path.
func nameOf(path string) (string, error) {
	name, ok := strings.CutPrefix(path, "/")
	odd := func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }
	switch {
	case !ok || len(path) > maxPath:
		return "", errtable.Invalidf("path: want a slash at the beginning, and at most %d bytes", maxPath)
	case strings.ContainsFunc(name, odd):
		return "", errtable.Invalidf("path: it contains a control or format character, or a line separator")
	case !norm.NFC.IsNormalString(name):
		return "", errtable.Invalidf("path: want Unicode Normalization Form C")
	case strings.Count(path, "/") > maxSegments:
		return "", errtable.Invalidf("path: more than %d segments", maxSegments)
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return "", errtable.Invalidf("path: want segments that are not empty, %q, or %q", ".", "..")
		}
	}
	return name, nil
}

// pathOf returns the path of a note, or false if its name has none.
func pathOf(name string) (string, bool) {
	_, err := nameOf("/" + name)
	return "/" + name, err == nil
}

// pathOfEntry returns the path of an entry, or false if it is no memory.
func pathOfEntry(e *crmem.Entry) (string, bool) {
	path, ok := pathOf(e.Name)
	return path, ok && e.Kind == crmem.Note
}

func memoryID(id uint64) string { return memoryPrefix + strconv.FormatUint(id, 10) }

// noMemory returns the refusal of an ID without a memory.
func noMemory(id string) *errtable.Error {
	return refuse(http.StatusNotFound, "not_found", "list the memories of the store", "no memory %s", printable(id))
}

// storedID returns the number in an ID of a memory.
func storedID(text string) (uint64, bool) {
	digits, ok := strings.CutPrefix(text, memoryPrefix)
	if !ok {
		return 0, false
	}
	return op.Positive(digits)
}

// stored returns the note of the memory in the path.
func (r *Request) stored(d *client.Client) (*crmem.Entry, error) {
	missing := noMemory(r.PathValue("memory"))
	id, ok := storedID(r.PathValue("memory"))
	if !ok {
		return nil, missing
	}
	e, err := op.ReadEntry(r.Context(), d, op.EntryName{ID: id})
	if errors.Is(err, crmem.ErrNotFound) || errors.Is(err, crmem.ErrNoStore) {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	if _, ok := pathOfEntry(&e); !ok {
		return nil, missing
	}
	return &e, nil
}

func timeOf(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }

// storedOf returns a memory without a version.
func (r *Request) storedOf(e *crmem.Entry, full bool) storedMemory {
	m := storedMemory{ID: memoryID(e.ID), Type: "memory", Store: r.PathValue("store"), Path: "/" + e.Name, SHA256: op.SHA256(e.Content), Bytes: len(e.Content),
		CreatedAt: timeOf(int64(e.CreatedAt)), UpdatedAt: timeOf(int64(e.CreatedAt)), Version: versionID(e.ID, 0)}
	if full {
		m.Content = &e.Content
	}
	return m
}

// setVersion sets the version to a change.
func (m *storedMemory) setVersion(id, seq uint64, at time.Time) {
	m.Version = versionID(id, seq)
	if !at.IsZero() {
		m.UpdatedAt = exactTime(at)
	}
}

// describeStored returns memories with the versions that contain their present contents.
func (r *Request) describeStored(d *client.Client, entries []*crmem.Entry, full bool) ([]storedMemory, error) {
	ids := make([]uint64, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	newest, err := op.NewestChanges(r.Context(), d, ids...)
	if client.IsKind(err, "no_history") {
		err = nil
	}
	list := make([]storedMemory, len(entries))
	for i, e := range entries {
		list[i] = r.storedOf(e, full)
		if change := newest[e.ID]; hex.EncodeToString(change.SHA256) == list[i].SHA256 {
			list[i].setVersion(e.ID, change.Change, change.Time)
		}
	}
	return list, err
}

// respondStored returns a memory. full is the default of the view.
func (r *Request) respondStored(d *client.Client, e *crmem.Entry, full bool) (any, error) {
	if view := r.text("view"); view != "" {
		full = view == "full"
	}
	list, err := r.describeStored(d, []*crmem.Entry{e}, full)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// storedName is the name of a note that is a memory.
type storedName struct {
	id   uint64
	path string
}

// storedNames returns the paths of the memories of a store, in order, and the number of
// notes that have no path.
func (r *Request) storedNames(d *client.Client) (list []storedName, unlisted int, err error) {
	for e, err := range op.Entries(r.Context(), d, op.EntryFilter{Kinds: []crmem.Kind{crmem.Note}}) {
		if errors.Is(err, crmem.ErrNoStore) { // the first write of the key creates it
			return nil, 0, nil
		}
		if err != nil {
			return nil, 0, err
		}
		if path, ok := pathOf(e.Name); ok {
			list = append(list, storedName{e.ID, path})
		} else {
			unlisted++
		}
	}
	slices.SortFunc(list, func(a, b storedName) int { return strings.Compare(a.path, b.path) })
	return list, unlisted, nil
}

// listStoredMemories lists memories by path. A cursor is the last path of a page.
func (r *Request) listStoredMemories() (any, error) {
	prefix := r.text("path_prefix")
	if prefix != "" && (prefix[0] != '/' || !strings.HasSuffix(prefix, "/")) {
		return nil, errtable.Invalidf("the parameter path_prefix: want a path that begins and ends with a slash")
	}
	cursor, err := base64.RawURLEncoding.DecodeString(r.text("page"))
	if err != nil {
		return nil, errtable.Invalidf("the parameter page: want next_page of the page before")
	}
	list := storedList{Data: []storedItem{}}
	return &list, r.inStore(r.store, func(d *client.Client) error {
		names, unlisted, err := r.storedNames(d)
		if err != nil {
			return err
		}
		r.Out.Set(unlistedHeader, strconv.Itoa(unlisted))
		items := selectStored(names, prefix, string(cursor), r.number("depth", 0) == 1)
		if n := r.pageSize(); len(items) > n {
			items = items[:n]
			next := base64.RawURLEncoding.EncodeToString([]byte(items[n-1].path))
			list.Next = &next
		}
		return r.fillStored(d, &list, items)
	})
}

// selectStored returns the memories below a prefix after a cursor. If grouped is set, a
// directory with ID 0 replaces the memories below it.
func selectStored(names []storedName, prefix, cursor string, grouped bool) (items []storedName) {
	for _, n := range names {
		rest, ok := strings.CutPrefix(n.path, prefix)
		if !ok {
			continue
		}
		if prefix == "" {
			rest = rest[1:] // the root
		}
		if dir, _, deeper := strings.Cut(rest, "/"); grouped && deeper {
			n = storedName{path: n.path[:len(n.path)-len(rest)] + dir + "/"}
		}
		if n.path > cursor && (len(items) == 0 || items[len(items)-1].path != n.path) {
			items = append(items, n)
		}
	}
	return items
}

// fillStored adds the items of a page.
func (r *Request) fillStored(d *client.Client, list *storedList, items []storedName) error {
	full := r.text("view") == "full"
	var entries []*crmem.Entry
	for _, n := range items {
		if n.id == 0 {
			continue
		}
		e, err := op.ReadEntry(r.Context(), d, op.EntryName{ID: n.id})
		if errors.Is(err, crmem.ErrNotFound) { // removed concurrently
			continue
		}
		if err != nil {
			return err
		}
		entries = append(entries, &e)
	}
	described, err := r.describeStored(d, entries, full)
	if err != nil {
		return err
	}
	for _, n := range items {
		if n.id == 0 {
			list.Data = append(list.Data, storedItem{Type: "memory_prefix", Path: n.path})
			continue
		}
		id := memoryID(n.id)
		if i := slices.IndexFunc(described, func(m storedMemory) bool { return m.ID == id }); i >= 0 {
			m := &described[i]
			list.Data = append(list.Data, storedItem{m.ID, m.Type, m.Store, m.Version, m.Path, m.Content, m.SHA256, &m.Bytes, m.CreatedAt, m.UpdatedAt})
		}
	}
	return nil
}

func (r *Request) readStored() (m any, err error) {
	err = r.inStore(r.store, func(d *client.Client) error {
		e, err := r.stored(d)
		if err != nil {
			return err
		}
		m, err = r.respondStored(d, e, true)
		return err
	})
	return m, err
}
