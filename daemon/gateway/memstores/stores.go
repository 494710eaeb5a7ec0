package memstores

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"

	"crabmem/daemon/client"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
)

var storeRoutes = []Route{
	{Method: "POST", Path: storesPath, Summary: "Create a memory store", In: of[newStore](), Once: true, Out: of[memoryStore](), Fails: []int{409, 507},
		Query: []op.Field{betaParam}, Run: onceWith((*Request).createStore, (*Request).replayStore)},
	{Method: "GET", Path: storesPath, Summary: "List memory stores by name", Out: of[storeList](),
		Query: []op.Field{betaParam, storeLimit, pageParam, {Name: "include_archived", Doc: "true: also archived stores", Type: of[bool]()}, createdParams[0], createdParams[1]},
		Run:   (*Request).listStores},
	{Method: "GET", Path: storePath, Summary: "Describe a memory store", Out: of[memoryStore](), Query: []op.Field{betaParam}, Run: (*Request).readStore},
	{Method: "POST", Path: storePath, Summary: "Change the description of a memory store", In: of[changedStore](), Once: true, Out: of[memoryStore](), Fails: []int{409},
		Query: []op.Field{betaParam}, Run: onceWith((*Request).changeStore, (*Request).replayStore)},
	{Method: "DELETE", Path: storePath, Summary: "Remove a memory store with its memories", Once: true, Out: of[removedObject](), Fails: []int{409},
		Query: []op.Field{betaParam}, Run: once((*Request).removeStore, (*Request).replayRemovedStore)},
	{Method: "POST", Path: storePath + "/archive", Summary: "Archive a memory store: its memories can be read and removed only", Once: true, Out: of[memoryStore](), Fails: []int{409},
		Query: []op.Field{betaParam}, Run: once((*Request).archiveStore, (*Request).replayStore)},
}

const (
	storesPath  = "/v1/memory_stores"
	storePath   = storesPath + "/{store}"
	storePrefix = "memstore_" // of the ID of a store; the name of its space follows

	defaultStorePage = 20
	maxFullPage      = 20 // items with contents
	describeTries    = 4
	maxSlug          = 40 // bytes of the words in the name of a space
)

var (
	betaParam  = op.Field{Name: "beta", Doc: "accepted and ignored", Type: of[string](), Size: 64}
	pageParam  = op.Field{Name: "page", Doc: "next_page of the page before", Type: of[string](), Size: 4096}
	storeLimit = op.Field{Name: "limit", Doc: "items of a page, at least 1; absent: 20", Type: of[int](), Max: 100}
	// createdParams are bounds of created_at: the least time, and the greatest.
	createdParams = [2]op.Field{param("created_at[gte]", "only items since this time"), param("created_at[lte]", "only items up to this time")}
	viewParam     = param("view", "full: with the content, of at most 20 items; basic: without", "basic", "full")
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

// Refusal is the type of the body of a refusal.
var Refusal = of[storeError]()

type storeError struct {
	Type  string `json:"type" jsonschema:"always error"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// refusalTypes are the types of refusals by status.
var refusalTypes = map[int]string{
	http.StatusUnauthorized:          "authentication_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusConflict:              "conflict_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	http.StatusServiceUnavailable:    "overloaded_error",
}

// RefusalOf returns the body of a refusal with a status and a kind.
func RefusalOf(status int, kind, message, fix string) any {
	e := storeError{Type: "error"}
	e.Error.Message = message
	if fix != "" {
		e.Error.Message += ": " + fix
	}
	switch {
	case strings.HasSuffix(kind, "_error"):
		e.Error.Type = kind
	case status < 500:
		e.Error.Type = cmp.Or(refusalTypes[status], "invalid_request_error")
	default:
		e.Error.Type = cmp.Or(refusalTypes[status], "api_error")
	}
	return e
}

func (r *Request) storeOf(s *op.Space) memoryStore {
	m := memoryStore{ID: storePrefix + s.Name, Type: "memory_store", Name: s.Title, Description: s.Description, Metadata: map[string]string{},
		CreatedAt: exactTime(s.CreatedAt), UpdatedAt: exactTime(s.UpdatedAt)}
	maps.Copy(m.Metadata, s.Metadata)
	if s.Title == s.Name && space.IsOfSender(s.Name) {
		m.Name, _ = r.Owners().Describe(s.Name)
	}
	if s.CreatedAt.IsZero() { // the first write of the key creates it
		m.CreatedAt, m.UpdatedAt = r.Created, r.Created
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
func (r *Request) store() (*op.Space, error) {
	missing := refuse(http.StatusNotFound, "not_found", "GET /v1/memory_stores lists the stores", "no memory store %s", printable(r.PathValue("store")))
	name, ok := strings.CutPrefix(r.PathValue("store"), storePrefix)
	if !ok {
		return nil, missing
	}
	all, err := op.ListSpaces.Do(r.Context(), r.Daemon, op.None{})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(s op.Space) bool { return s.Name == name })
	if i < 0 {
		return nil, missing
	}
	return &all[i], nil
}

// inStore calls f with a client for the space that store or activeStore returns. Its
// memories may be empty, as Anthropic's may.
func (r *Request) inStore(store func() (*op.Space, error), f func(*client.Client) error) error {
	s, err := store()
	if err != nil {
		return err
	}
	d := &client.Client{Addr: r.Daemon.Addr, Header: r.Daemon.Header}
	d.Space, d.AllowEmpty = s.Name, true
	return errors.Join(f(d), d.Close())
}

// activeStore is store, and refuses an archived one.
func (r *Request) activeStore() (*op.Space, error) {
	s, err := r.store()
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
	return refuse(http.StatusBadRequest, "archived", "use another store", "the memory store is archived")
}

// createStore creates a space. With an Idempotency-Key, the key determines the name of the
// space, so a request finds the space that an earlier one created whose effect is unknown.
func (r *Request) createStore(in *newStore) (any, error) {
	s := op.Space{Name: spaceName(in.Name, r.Key, r.Once)}
	s.Title, s.Description, s.Metadata = in.Name, in.Description, in.Metadata
	made, err := op.CreateSpace.Do(r.Context(), r.Daemon, s)
	if r.begun && client.IsKind(err, "exists") {
		all, err := op.ListSpaces.Do(r.Context(), r.Daemon, op.None{})
		if i := slices.IndexFunc(all, func(one op.Space) bool { return one.Name == s.Name }); i >= 0 {
			return r.storeOf(&all[i]), nil
		}
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	return r.storeOf(&made), nil
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

func (r *Request) listStores() (any, error) {
	bounds, err := r.createdBounds()
	if err != nil {
		return nil, err
	}
	all, err := op.ListSpaces.Do(r.Context(), r.Daemon, op.None{})
	if err != nil {
		return nil, err
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	list := storeList{Data: []memoryStore{}}
	for i := range all {
		s := &all[i]
		if s.Name <= r.text("page") || !s.ArchivedAt.IsZero() && r.text("include_archived") != "true" || !within(s.CreatedAt, bounds) {
			continue
		}
		if n := len(list.Data); n == r.pageSize() {
			last := strings.TrimPrefix(list.Data[n-1].ID, storePrefix)
			list.Next = &last
			break
		}
		list.Data = append(list.Data, r.storeOf(s))
	}
	return list, nil
}

// pageSize returns the number of items of a page.
func (r *Request) pageSize() int {
	n := max(int(r.number("limit", defaultStorePage)), 1)
	if r.text("view") == "full" {
		n = min(n, maxFullPage)
	}
	return n
}

// createdBounds returns the least and the greatest time of createdParams; zero: absent.
func (r *Request) createdBounds() (bounds [2]time.Time, err error) {
	for i := range createdParams {
		name := createdParams[i].Name
		text := r.text(name)
		if text == "" {
			continue
		}
		// A client may not have escaped the plus.
		if bounds[i], err = time.Parse(time.RFC3339, strings.Replace(text, " ", "+", 1)); err != nil {
			return bounds, errtable.Invalidf("the parameter %s: want a time such as 2026-04-14T10:00:00Z", name)
		}
	}
	return bounds, nil
}

// within reports whether a time lies between two others, of which either may be zero.
func within(t time.Time, bounds [2]time.Time) bool {
	return (bounds[0].IsZero() || !t.Before(bounds[0])) && (bounds[1].IsZero() || !t.After(bounds[1]))
}

func (r *Request) readStore() (any, error) {
	s, err := r.store()
	if err != nil {
		return nil, err
	}
	return r.storeOf(s), nil
}

func (r *Request) changeStore(in *changedStore) (any, error) {
	return r.describe(false, func(s *op.Space) error {
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

func (r *Request) archiveStore() (any, error) {
	return r.describe(true, func(*op.Space) error { return nil })
}

// describe changes the description of the store in the path. If another request changes
// it concurrently, describe reads it again.
func (r *Request) describe(archive bool, change func(*op.Space) error) (any, error) {
	for try := 1; ; try++ {
		s, err := r.store()
		if err != nil {
			return nil, err
		}
		if err := change(s); err != nil {
			return nil, err
		}
		changed, err := op.DescribeSpace.Do(r.Context(), r.Daemon, op.SpaceChange{Space: *s, Archive: archive})
		if client.IsKind(err, "changed") {
			if try < describeTries {
				continue
			}
			err = refuse(http.StatusServiceUnavailable, "store_busy", "try again", "other requests change the memory store")
		}
		if err != nil {
			return nil, err
		}
		return r.storeOf(&changed), nil
	}
}

// isMissing reports whether an error is the refusal for a missing object.
func isMissing(err error) bool {
	e, ok := errors.AsType[*errtable.Error](err)
	return ok && e.HTTP == http.StatusNotFound
}

func (r *Request) removeStore() (any, error) {
	s, err := r.store()
	if err == nil {
		_, err = op.RemoveSpace.Do(r.Context(), r.Daemon, op.SpaceName{Name: s.Name})
	}
	if r.begun && isMissing(err) { // an earlier request removed it: IDs are never used again
		err = nil
	}
	return removedObject{r.PathValue("store"), "memory_store_deleted"}, err
}

// replayRemovedStore is the outcome of a request that removed the store.
func (r *Request) replayRemovedStore(*op.Outcome) (any, error) {
	return removedObject{r.PathValue("store"), "memory_store_deleted"}, nil
}
