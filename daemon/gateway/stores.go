package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

// The paths below /v1/memory_stores have the shapes of Anthropic's Memory Stores. A
// store is a space, a memory is a note, and its path is a slash and the name of the note.
// Other names have no path: these notes, and archives, are not visible here.
var storeRoutes = []route{
	{method: "POST", path: storesPath, summary: "Create a memory store", in: of[newStore](), once: true, out: of[memoryStore](), status: 200, fails: []int{409, 507},
		query: []param{betaParam}, style: storeStyle, run: onceWith((*call).createStore, (*call).replayStore)},
	{method: "GET", path: storesPath, summary: "List memory stores by name", out: of[storeList](), status: 200, style: storeStyle,
		query: []param{betaParam, storeLimit, pageParam, {name: "include_archived", summary: "true: also archived stores", kind: "boolean"}, createdParams[0], createdParams[1]},
		run:   (*call).listStores},
	{method: "GET", path: storePath, summary: "Describe a memory store", out: of[memoryStore](), status: 200, query: []param{betaParam}, style: storeStyle, run: (*call).readStore},
	{method: "POST", path: storePath, summary: "Change the description of a memory store", in: of[changedStore](), once: true, out: of[memoryStore](), status: 200, fails: []int{409},
		query: []param{betaParam}, style: storeStyle, run: onceWith((*call).changeStore, (*call).replayStore)},
	{method: "DELETE", path: storePath, summary: "Remove a memory store with its memories", once: true, out: of[removedObject](), status: 200, fails: []int{409},
		query: []param{betaParam}, style: storeStyle, run: once((*call).removeStore, (*call).replayRemovedStore)},
	{method: "POST", path: storePath + "/archive", summary: "Archive a memory store: its memories can be read and removed only", once: true, out: of[memoryStore](), status: 200, fails: []int{409},
		query: []param{betaParam}, style: storeStyle, run: once((*call).archiveStore, (*call).replayStore)},
}

const (
	storesPath  = "/v1/memory_stores"
	storePath   = storesPath + "/{store}"
	storePrefix = "memstore_" // of the ID of a store; the name of its space follows

	// storeStyle is the style of a route whose refusals have the shape of Anthropic's.
	storeStyle = "anthropic"

	defaultStorePage = 20
	maxFullPage      = 20 // items with contents
	describeTries    = 4
	maxSlug          = 40 // bytes of the words in the name of a space
)

var (
	betaParam  = param{name: "beta", summary: "accepted and ignored", kind: "string", size: 64}
	pageParam  = param{name: "page", summary: "next_page of the page before", kind: "string", size: 4096}
	storeLimit = param{name: "limit", summary: "items of a page, at least 1; absent: 20", kind: "integer", most: 100}
	// createdParams are bounds of created_at: the least time, and the greatest.
	createdParams = [2]param{{name: "created_at[gte]", summary: "only items since this time", kind: "string"}, {name: "created_at[lte]", summary: "only items up to this time", kind: "string"}}
	viewParam     = param{name: "view", summary: "full: with the content, of at most 20 items; basic: without", kind: "string", words: []string{"basic", "full"}}
)

type memoryStore struct {
	ID          string            `json:"id"`
	Type        string            `json:"type"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Metadata    map[string]string `json:"metadata"`
	CreatedAt   string            `json:"created_at" jsonschema:"RFC 3339"`
	UpdatedAt   string            `json:"updated_at" jsonschema:"RFC 3339"`
	ArchivedAt  *string           `json:"archived_at" jsonschema:"RFC 3339; null: it is in use"`
}

type storeList struct {
	Data []memoryStore `json:"data"`
	Next *string       `json:"next_page" jsonschema:"value of page for the next page; null on the last page"`
}

type newStore struct {
	Name        string            `json:"name" jsonschema:"1 to 255 characters"`
	Description string            `json:"description,omitempty" jsonschema:"at most 1024 characters"`
	Metadata    map[string]string `json:"metadata,omitempty" jsonschema:"at most 16 pairs"`
}

type changedStore struct {
	Name        *string            `json:"name,omitempty"`
	Description *string            `json:"description,omitempty"`
	Metadata    map[string]*string `json:"metadata,omitempty" jsonschema:"pairs to set; null removes one"`
}

// removedObject confirms a removal.
type removedObject struct {
	ID   string `json:"id"`
	Type string `json:"type" jsonschema:"memory_store_deleted or memory_deleted"`
}

// storeError is the body of a refusal.
type storeError struct {
	Type  string `json:"type" jsonschema:"always error"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

func storeErrorOf(p *Problem) (e storeError) {
	e.Type, e.Error.Message = "error", p.Detail
	if p.Remedy != "" {
		e.Error.Message += ": " + p.Remedy
	}
	switch {
	case strings.HasSuffix(p.Kind, "_error"):
		e.Error.Type = p.Kind
	case p.Status == http.StatusUnauthorized:
		e.Error.Type = "authentication_error"
	case p.Status == http.StatusForbidden:
		e.Error.Type = "permission_error"
	case p.Status == http.StatusNotFound:
		e.Error.Type = "not_found_error"
	case p.Status == http.StatusConflict:
		e.Error.Type = "conflict_error"
	case p.Status == http.StatusRequestEntityTooLarge:
		e.Error.Type = "request_too_large"
	case p.Status == http.StatusTooManyRequests:
		e.Error.Type = "rate_limit_error"
	case p.Status == http.StatusServiceUnavailable:
		e.Error.Type = "overloaded_error"
	case p.Status < 500:
		e.Error.Type = "invalid_request_error"
	default:
		e.Error.Type = "api_error"
	}
	return e
}

func (c *call) storeOf(s *op.Space) memoryStore {
	m := memoryStore{ID: storePrefix + s.Name, Type: "memory_store", Name: s.Title, Description: s.Description, Metadata: map[string]string{},
		CreatedAt: exactTime(s.CreatedAt), UpdatedAt: exactTime(s.UpdatedAt)}
	maps.Copy(m.Metadata, s.Metadata)
	if s.CreatedAt.IsZero() { // the first write of the key creates it
		m.CreatedAt, m.UpdatedAt = c.key.CreatedAt, c.key.CreatedAt
	}
	if !s.ArchivedAt.IsZero() {
		at := exactTime(s.ArchivedAt)
		m.ArchivedAt = &at
	}
	return m
}

// exactTime formats a time.
func exactTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// store returns the space of the store in the path. A store that the key may not read is
// missing.
func (c *call) store() (*op.Space, error) {
	missing := problemf(http.StatusNotFound, "not_found", "no memory store %s", printable(c.r.PathValue("store"))).fix("GET /v1/memory_stores lists the stores")
	name, ok := strings.CutPrefix(c.r.PathValue("store"), storePrefix)
	if !ok {
		return nil, missing
	}
	all, err := op.ListSpaces.Do(c.r.Context(), c.daemon, op.None{})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(s op.Space) bool { return s.Name == name })
	if i < 0 {
		return nil, missing
	}
	return &all[i], nil
}

// inStore calls f with a client for the space of a memory store. Its memories may be
// empty, as Anthropic's may.
func (c *call) inStore(s *op.Space, f func(*client.Client) error) error {
	d := c.clientOf(s.Name)
	d.AllowEmpty = true
	return use(d, f)
}

// activeStore is store, and refuses an archived one.
func (c *call) activeStore() (*op.Space, error) {
	s, err := c.store()
	if err == nil {
		err = checkActive(s)
	}
	return s, err
}

// checkActive returns an error for an archived store.
func checkActive(s *op.Space) error {
	if s.ArchivedAt.IsZero() {
		return nil
	}
	return problemf(http.StatusBadRequest, "archived", "the memory store is archived").fix("use another store")
}

// createStore creates a space. With an Idempotency-Key, the key determines the name of the
// space, so a request finds the space that an earlier one created whose effect is unknown.
func (c *call) createStore(in *newStore) (any, error) {
	s := op.Space{Name: spaceName(in.Name, c.key.Name, c.once)}
	s.Title, s.Description, s.Metadata = in.Name, in.Description, in.Metadata
	made, err := op.CreateSpace.Do(c.r.Context(), c.daemon, s)
	if c.begun && isKind(err, "exists") {
		all, err := op.ListSpaces.Do(c.r.Context(), c.daemon, op.None{})
		if i := slices.IndexFunc(all, func(one op.Space) bool { return one.Name == s.Name }); i >= 0 {
			return c.storeOf(&all[i]), nil
		}
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	return c.storeOf(&made), nil
}

// spaceName returns a name of a space for the name of a store: its words, and a number
// that an Idempotency-Key of a key determines, or a random one.
func spaceName(title, key, once string) string {
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') })
	slug := strings.Join(words, "-")
	slug = strings.Trim(slug[:min(maxSlug, len(slug))], "-")
	if slug == "" {
		slug = "store"
	}
	sum := sha256.Sum256([]byte(key + "\x00" + once))
	if once == "" {
		rand.Read(sum[:]) // crypto/rand: never fails
	}
	return slug + "-" + hex.EncodeToString(sum[:5])
}

func (c *call) listStores() (any, error) {
	bounds, err := c.createdBounds()
	if err != nil {
		return nil, err
	}
	all, err := op.ListSpaces.Do(c.r.Context(), c.daemon, op.None{})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b op.Space) int { return strings.Compare(a.Name, b.Name) })
	list := storeList{Data: []memoryStore{}}
	for i := range all {
		s := &all[i]
		if s.Name <= c.text("page") || !s.ArchivedAt.IsZero() && !c.flag("include_archived") || !within(s.CreatedAt, bounds) {
			continue
		}
		if n := len(list.Data); n == c.pageSize() {
			last := strings.TrimPrefix(list.Data[n-1].ID, storePrefix)
			list.Next = &last
			break
		}
		list.Data = append(list.Data, c.storeOf(s))
	}
	return list, nil
}

// pageSize returns the number of items of a page.
func (c *call) pageSize() int {
	n := max(int(c.number("limit", defaultStorePage)), 1)
	if c.text("view") == "full" {
		n = min(n, maxFullPage)
	}
	return n
}

// createdBounds returns the least and the greatest time of createdParams; zero: absent.
func (c *call) createdBounds() (bounds [2]time.Time, err error) {
	for i := range createdParams {
		name := createdParams[i].name
		text := c.text(name)
		if text == "" {
			continue
		}
		// A client may not have escaped the plus.
		if bounds[i], err = time.Parse(time.RFC3339, strings.Replace(text, " ", "+", 1)); err != nil {
			return bounds, invalidf("the parameter %s: want a time such as 2026-04-14T10:00:00Z", name)
		}
	}
	return bounds, nil
}

// within reports whether a time lies between two others, of which either may be zero.
func within(t time.Time, bounds [2]time.Time) bool {
	return (bounds[0].IsZero() || !t.Before(bounds[0])) && (bounds[1].IsZero() || !t.After(bounds[1]))
}

func (c *call) readStore() (any, error) {
	s, err := c.store()
	if err != nil {
		return nil, err
	}
	return c.storeOf(s), nil
}

func (c *call) changeStore(in *changedStore) (any, error) {
	return c.describe(false, func(s *op.Space) error {
		if err := checkActive(s); err != nil {
			return err
		}
		if in.Name != nil {
			s.Title = *in.Name
		}
		if in.Description != nil {
			s.Description = *in.Description
		}
		metadata := maps.Clone(s.Metadata)
		for k, v := range in.Metadata {
			if v == nil {
				delete(metadata, k)
				continue
			}
			if metadata == nil {
				metadata = map[string]string{}
			}
			metadata[k] = *v
		}
		s.Metadata = metadata
		return nil
	})
}

func (c *call) archiveStore() (any, error) {
	return c.describe(true, func(*op.Space) error { return nil })
}

// describe changes the description of the store in the path. If another request changes
// it concurrently, describe reads it again.
func (c *call) describe(archive bool, change func(*op.Space) error) (any, error) {
	for try := 1; ; try++ {
		s, err := c.store()
		if err != nil {
			return nil, err
		}
		if err := change(s); err != nil {
			return nil, err
		}
		changed, err := op.DescribeSpace.Do(c.r.Context(), c.daemon, op.SpaceChange{Space: *s, Archive: archive})
		if isKind(err, "changed") {
			if try < describeTries {
				continue
			}
			err = problemf(http.StatusServiceUnavailable, "busy", "other requests change the memory store").fix("try again").after(1)
		}
		if err != nil {
			return nil, err
		}
		return c.storeOf(&changed), nil
	}
}

// isMissing reports whether an error is the refusal for a missing object.
func isMissing(err error) bool {
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Status == http.StatusNotFound
}

// isKind reports whether the daemon sent an error of a kind.
func isKind(err error, kind string) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && e.Kind == kind
}

func (c *call) removeStore() (any, error) {
	s, err := c.store()
	if err == nil {
		_, err = op.RemoveSpace.Do(c.r.Context(), c.daemon, op.SpaceName{Name: s.Name})
	}
	if c.begun && isMissing(err) { // an earlier request removed it: IDs are never used again
		err = nil
	}
	return removedObject{c.r.PathValue("store"), "memory_store_deleted"}, err
}

// replayRemovedStore is the outcome of a request that removed the store.
func (c *call) replayRemovedStore(*op.Outcome) (any, error) {
	return removedObject{c.r.PathValue("store"), "memory_store_deleted"}, nil
}
