package gateway

import (
	"crypto/sha256"
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
	"crabmem/daemon/op"

	"golang.org/x/text/unicode/norm"
)

var storedMemoryRoutes = []route{
	{method: "POST", path: storedPath, summary: "Create a memory", once: true, in: of[newStored](), out: of[storedMemory](), status: 200, fails: []int{409, 422, 507},
		query: []param{betaParam, viewParam}, style: storeStyle, run: onceWith((*call).createStored, (*call).replayStored)},
	{method: "GET", path: storedPath, summary: "List memories by path", out: of[storedList](), status: 200, style: storeStyle,
		query: []param{betaParam, storeLimit, pageParam, viewParam, {name: "path_prefix", summary: "only paths that begin so; it ends with a slash", kind: "string"},
			{name: "depth", summary: "1: group the memories below each directory; absent: 0", kind: "integer", most: 1}},
		run: (*call).listStoredMemories},
	{method: "GET", path: storedPath + "/{memory}", summary: "Read a memory", out: of[storedMemory](), status: 200, query: []param{betaParam, viewParam}, style: storeStyle,
		run: (*call).readStored},
	{method: "POST", path: storedPath + "/{memory}", summary: "Change content and path of a memory", once: true, in: of[changedStored](), out: of[storedMemory](), status: 200,
		fails: []int{409, 422, 507}, query: []param{betaParam, viewParam}, style: storeStyle, run: onceWith((*call).changeStored, (*call).replayStored)},
	{method: "DELETE", path: storedPath + "/{memory}", summary: "Remove a memory", once: true, out: of[removedObject](), status: 200, fails: []int{409, 507}, style: storeStyle,
		query: []param{betaParam, {name: "expected_content_sha256", summary: "remove it only if its content has this digest", kind: "string", size: 64}}, run: once((*call).removeStored, (*call).replayRemoved)},
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
		return "", invalidf("path: want a slash at the beginning, and at most %d bytes", maxPath)
	case strings.ContainsFunc(name, odd):
		return "", invalidf("path: it contains a control or format character, or a line separator")
	case !norm.NFC.IsNormalString(name):
		return "", invalidf("path: want Unicode Normalization Form C")
	case strings.Count(path, "/") > maxSegments:
		return "", invalidf("path: more than %d segments", maxSegments)
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return "", invalidf("path: want segments that are not empty, %q, or %q", ".", "..")
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

// noMemory returns the problem that no memory has an ID.
func noMemory(id string) *Problem {
	return problemf(http.StatusNotFound, "not_found", "no memory %s", printable(id)).fix("list the memories of the store")
}

// storedID returns the number in an ID of a memory.
func storedID(text string) (uint64, bool) {
	digits, ok := strings.CutPrefix(text, memoryPrefix)
	if !ok {
		return 0, false
	}
	return positive(digits)
}

// stored returns the note of the memory in the path.
func (c *call) stored(d *client.Client) (*crmem.Entry, error) {
	missing := noMemory(c.r.PathValue("memory"))
	id, ok := storedID(c.r.PathValue("memory"))
	if !ok {
		return nil, missing
	}
	e, err := op.GetEntry.Do(c.r.Context(), d, op.EntryName{ID: id})
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
func (c *call) storedOf(e *crmem.Entry, full bool) storedMemory {
	m := storedMemory{ID: memoryID(e.ID), Type: "memory", Store: c.r.PathValue("store"), Path: "/" + e.Name, SHA256: hashOf(e.Content), Bytes: len(e.Content),
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
func (c *call) describeStored(d *client.Client, entries []*crmem.Entry, full bool) ([]storedMemory, error) {
	ids := make([]uint64, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	newest, err := op.NewestChanges(c.r.Context(), d, ids...)
	if isKind(err, "no_history") {
		err = nil
	}
	list := make([]storedMemory, len(entries))
	for i, e := range entries {
		list[i] = c.storedOf(e, full)
		if change := newest[e.ID]; hex.EncodeToString(change.SHA256) == list[i].SHA256 {
			list[i].setVersion(e.ID, change.Seq, change.Time)
		}
	}
	return list, err
}

// respondStored returns a memory. full is the default of the view.
func (c *call) respondStored(d *client.Client, e *crmem.Entry, full bool) (any, error) {
	if view := c.text("view"); view != "" {
		full = view == "full"
	}
	list, err := c.describeStored(d, []*crmem.Entry{e}, full)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

func (c *call) createStored(in *newStored) (m any, err error) {
	name, err := nameOf(in.Path)
	if err != nil {
		return nil, err
	}
	content := ""
	if in.Content != nil {
		content = *in.Content
	}
	if err := checkStored(content); err != nil {
		return nil, err
	}
	s, err := c.activeStore()
	if err != nil {
		return nil, err
	}
	add := crmem.Add{Name: name, Content: content}
	if err := add.Validate(); err != nil {
		return nil, invalidf("%v", err)
	}
	err = c.inStore(s, func(d *client.Client) error {
		names, _, err := c.storedNames(d)
		if err != nil {
			return err
		}
		if len(names) >= maxStored {
			return invalidf("the memory store has %d memories, at most %d", len(names), maxStored)
		}
		list, err := op.ApplyOps(c.r.Context(), d, crmem.Unchanged{Entry: crmem.Entry{Name: name}}, add)
		if errors.Is(err, crmem.ErrExists) || errors.Is(err, crmem.ErrStale) {
			return takenPath(in.Path)
		}
		if err != nil {
			return err
		}
		m, err = c.respondStored(d, &list[0], false)
		return err
	})
	return m, err
}

// checkStored checks the size of a content.
func checkStored(content string) error {
	if len(content) > maxStoredContent {
		return invalidf("content: %d bytes, want at most %d", len(content), maxStoredContent)
	}
	return nil
}

func takenPath(path string) *Problem {
	return problemf(http.StatusConflict, pathConflict, "a memory has the path %s, or an alias", printable(path)).fix("choose another path, or change that memory")
}

// storedName is the name of a note that is a memory.
type storedName struct {
	id   uint64
	path string
}

// storedNames returns the paths of the memories of a store, in order, and the number of
// notes that have no path.
func (c *call) storedNames(d *client.Client) (list []storedName, unlisted int, err error) {
	for e, err := range op.Entries(c.r.Context(), d, op.EntryFilter{Kinds: []crmem.Kind{crmem.Note}}) {
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
func (c *call) listStoredMemories() (any, error) {
	prefix := c.text("path_prefix")
	if prefix != "" && (prefix[0] != '/' || !strings.HasSuffix(prefix, "/")) {
		return nil, invalidf("the parameter path_prefix: want a path that begins and ends with a slash")
	}
	cursor, err := base64.RawURLEncoding.DecodeString(c.text("page"))
	if err != nil {
		return nil, invalidf("the parameter page: want next_page of the page before")
	}
	s, err := c.store()
	if err != nil {
		return nil, err
	}
	list := storedList{Data: []storedItem{}}
	return &list, c.inStore(s, func(d *client.Client) error {
		names, unlisted, err := c.storedNames(d)
		if err != nil {
			return err
		}
		c.w.Header().Set(unlistedHeader, strconv.Itoa(unlisted))
		items := selectStored(names, prefix, string(cursor), c.number("depth", 0) == 1)
		if n := c.pageSize(); len(items) > n {
			items = items[:n]
			next := base64.RawURLEncoding.EncodeToString([]byte(items[n-1].path))
			list.Next = &next
		}
		return c.fillStored(d, &list, items)
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
func (c *call) fillStored(d *client.Client, list *storedList, items []storedName) error {
	full := c.text("view") == "full"
	var entries []*crmem.Entry
	for _, n := range items {
		if n.id == 0 {
			continue
		}
		e, err := op.GetEntry.Do(c.r.Context(), d, op.EntryName{ID: n.id})
		if errors.Is(err, crmem.ErrNotFound) { // removed concurrently
			continue
		}
		if err != nil {
			return err
		}
		entries = append(entries, &e)
	}
	described, err := c.describeStored(d, entries, full)
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

func (c *call) readStored() (m any, err error) {
	s, err := c.store()
	if err != nil {
		return nil, err
	}
	err = c.inStore(s, func(d *client.Client) error {
		e, err := c.stored(d)
		if err != nil {
			return err
		}
		m, err = c.respondStored(d, e, true)
		return err
	})
	return m, err
}

// changeStored changes content and path. If the memory is already as requested, the
// precondition need not hold.
func (c *call) changeStored(in *changedStored) (m any, err error) {
	if in.Content == nil && in.Path == nil {
		return nil, invalidf("want content or path")
	}
	if p := in.Precondition; p != nil && (p.Type != "content_sha256" || !isSum(p.SHA256)) {
		return nil, invalidf("precondition: want the type content_sha256, and 64 lower-case hexadecimal characters")
	}
	s, err := c.activeStore()
	if err != nil {
		return nil, err
	}
	err = c.inStore(s, func(d *client.Client) error {
		e, err := c.stored(d)
		if err != nil {
			return err
		}
		ops, after, err := storedChange(e, in)
		if err != nil {
			return err
		}
		if len(ops) == 0 && c.once == "" { // else the daemon records the key
			m, err = c.respondStored(d, e, false)
			return err
		}
		if len(ops) > 0 && in.Precondition != nil && in.Precondition.SHA256 != hashOf(e.Content) {
			return unmet(e)
		}
		list, err := op.ApplyOps(c.r.Context(), d, append([]crmem.Op{crmem.Unchanged{Entry: *e}}, ops...)...)
		switch {
		case errors.Is(err, crmem.ErrExists):
			return takenPath(*in.Path)
		case errors.Is(err, crmem.ErrStale):
			return unmet(e)
		case err != nil:
			return err
		}
		now := &after
		if n := len(list); n > 0 {
			now = &list[n-1]
		}
		m, err = c.respondStored(d, now, false)
		return err
	})
	return m, err
}

// storedChange returns the operations that make the change of a request, and the entry
// after them.
func storedChange(e *crmem.Entry, in *changedStored) (ops []crmem.Op, after crmem.Entry, err error) {
	after = *e
	if in.Content != nil && *in.Content != e.Content {
		if err := checkStored(*in.Content); err != nil {
			return nil, after, err
		}
		after.Content = *in.Content
		update := crmem.Update{Name: e.Name, Content: after.Content, Aliases: e.Aliases}
		if err := update.Validate(); err != nil {
			return nil, after, invalidf("%v", err)
		}
		ops = append(ops, update)
	}
	if in.Path != nil && *in.Path != "/"+e.Name {
		if after.Name, err = nameOf(*in.Path); err != nil {
			return nil, after, err
		}
		rename := crmem.Rename{Name: e.Name, To: after.Name}
		if err := rename.Validate(); err != nil {
			return nil, after, invalidf("%v", err)
		}
		ops = append(ops, rename)
	}
	return ops, after, nil
}

func isSum(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == sha256.Size && strings.ToLower(text) == text
}

// unmet is the refusal of a change of a memory that has changed.
func unmet(e *crmem.Entry) *Problem {
	return problemf(http.StatusConflict, preconditionFailed, "the content of /%s has another digest, or changes concurrently", printable(e.Name)).fix("read the memory again, then retry")
}

// replayRemoved is the outcome of a request that removed the memory.
func (c *call) replayRemoved(*op.Outcome) (any, error) {
	return removedObject{c.r.PathValue("memory"), "memory_deleted"}, nil
}

func (c *call) removeStored() (any, error) {
	expected := c.text("expected_content_sha256")
	if expected != "" && !isSum(expected) {
		return nil, invalidf("the parameter expected_content_sha256: want 64 lower-case hexadecimal characters")
	}
	s, err := c.store()
	if err != nil {
		return nil, err
	}
	return removedObject{c.r.PathValue("memory"), "memory_deleted"}, c.inStore(s, func(d *client.Client) error {
		e, err := c.stored(d)
		if err != nil {
			return err
		}
		if expected != "" && expected != hashOf(e.Content) {
			return unmet(e)
		}
		_, err = op.ApplyOps(c.r.Context(), d, crmem.Unchanged{Entry: *e}, crmem.Remove{Name: e.Name})
		if errors.Is(err, crmem.ErrStale) {
			return unmet(e)
		}
		return err
	})
}
