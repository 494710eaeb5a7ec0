package memstores

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
)

var versionRoutes = []Route{
	{Method: "GET", Path: versionsPath, Summary: "List versions of memories, newest first", Out: of[storedVersionList](),
		Query: []op.Field{betaParam, storeLimit, pageParam, viewParam, param("memory_id", "only versions of this memory"),
			param("operation", "only these changes", "created", "modified", "deleted"),
			param("session_id", "only changes by this session"), param("api_key_id", "only changes with this key"),
			param("service_account_id", "accepted: there are no service accounts"),
			createdParams[0], createdParams[1]},
		Run: (*Request).listStoredVersions},
	{Method: "GET", Path: versionsPath + "/{version}", Summary: "Read a version of a memory", Out: of[storedVersion](), Query: []op.Field{betaParam, viewParam},
		Run: (*Request).readStoredVersion},
	{Method: "POST", Path: versionsPath + "/{version}/redact", Summary: "Remove the content of a version from all files", Out: of[storedVersion](),
		Fails: []int{507}, Query: []op.Field{betaParam}, Run: (*Request).redactVersion},
}

const (
	versionsPath  = storePath + "/memory_versions"
	versionPrefix = "memver_" // of the ID of a version; the IDs of note and change follow
	keyPrefixID   = "apikey_" // of the ID of a key; its name follows
	changesPage   = 500       // changes that a filter reads at a time
)

type storedVersion struct {
	ID         string       `json:"id"`
	Type       string       `json:"type"`
	Memory     string       `json:"memory_id"`
	Store      string       `json:"memory_store_id"`
	Operation  string       `json:"operation" jsonschema:"created, modified, or deleted"`
	Path       *string      `json:"path" jsonschema:"null: redacted"`
	Content    *string      `json:"content" jsonschema:"null in the basic view, of a deletion, and if redacted"`
	SHA256     *string      `json:"content_sha256" jsonschema:"null of a deletion, and if redacted"`
	Bytes      *int         `json:"content_size_bytes" jsonschema:"null of a deletion, and if redacted"`
	CreatedAt  string       `json:"created_at" jsonschema:"RFC 3339"`
	CreatedBy  *storedActor `json:"created_by" jsonschema:"null: unknown"`
	RedactedAt *string      `json:"redacted_at" jsonschema:"RFC 3339; null: it was not"`
	RedactedBy *storedActor `json:"redacted_by" jsonschema:"always null: it is not recorded"`
}

// storedActor is who made a change: a key, a session of an agent, or the owner of the
// home.
type storedActor struct {
	Type    string `json:"type" jsonschema:"api_actor, session_actor, or user_actor"`
	Key     string `json:"api_key_id,omitempty"`
	Session string `json:"session_id,omitempty"`
	User    string `json:"user_id,omitempty"`
}

type storedVersionList struct {
	Data []storedVersion `json:"data"`
	Next *string         `json:"next_page"`
}

// versionID returns the ID of a version. Change 0 is the state before the history.
func versionID(id, seq uint64) string { return fmt.Sprintf("%s%d_%d", versionPrefix, id, seq) }

// parseVersion returns the IDs of note and change in the ID of a version.
func parseVersion(text string) (id, seq uint64, ok bool) {
	rest, ok := strings.CutPrefix(text, versionPrefix)
	first, second, both := strings.Cut(rest, "_")
	id, isID := op.Positive(first)
	seq, err := strconv.ParseUint(second, 10, 53)
	return id, seq, ok && both && isID && err == nil && strconv.FormatUint(seq, 10) == second
}

// storedActorOf returns who made a change, or nil if it is not recorded.
func storedActorOf(by *crmem.Actor) *storedActor {
	name, isKey := strings.CutPrefix(by.Origin, space.KeyOrigin)
	switch {
	case by.Session != "":
		return &storedActor{Type: "session_actor", Session: by.Session}
	case isKey:
		return &storedActor{Type: "api_actor", Key: keyPrefixID + name}
	case by.Client != "":
		return &storedActor{Type: "user_actor", User: "user_owner"}
	}
	return nil
}

// storedVersionOf converts a change of a note, or returns false if it has no path.
func (r *Request) storedVersionOf(change *op.Change, full bool) (v storedVersion, ok bool) {
	e := change.Entry()
	path, ok := pathOfEntry(&e)
	v = storedVersion{ID: versionID(e.ID, change.Change), Type: "memory_version", Memory: memoryID(e.ID), Store: r.PathValue("store"), Operation: "modified",
		CreatedAt: exactTime(change.Time), CreatedBy: storedActorOf(&change.By)}
	switch change.Type {
	case crmem.ChangeAdd:
		v.Operation = "created"
	case crmem.ChangeRemove:
		v.Operation = "deleted"
	}
	if !change.Redacted.IsZero() && change.Type != crmem.ChangeRemove {
		at := exactTime(change.Redacted)
		v.RedactedAt = &at
		return v, ok
	}
	v.Path = &path
	if change.Type != crmem.ChangeRemove {
		sum, size := hex.EncodeToString(change.SHA256), change.Bytes
		v.SHA256, v.Bytes = &sum, &size
		if full {
			v.Content = &e.Content
		}
	}
	return v, ok
}

// storedFilter selects versions.
type storedFilter struct {
	operation, session, key, service string
	bounds                           [2]time.Time
}

func (r *Request) storedFilter() (f storedFilter, err error) {
	f = storedFilter{operation: r.text("operation"), session: r.text("session_id"), key: r.text("api_key_id"), service: r.text("service_account_id")}
	f.bounds, err = r.createdBounds()
	return f, err
}

func (f *storedFilter) accepts(v *storedVersion, at time.Time) bool {
	var by storedActor
	if v.CreatedBy != nil {
		by = *v.CreatedBy
	}
	return (f.operation == "" || v.Operation == f.operation) && (f.session == "" || by.Session == f.session) &&
		(f.key == "" || by.Key == f.key) && f.service == "" && within(at, f.bounds)
}

// listStoredVersions lists versions. A cursor is the place of the next change.
func (r *Request) listStoredVersions() (any, error) {
	var id uint64
	if text := r.text("memory_id"); text != "" {
		var ok bool
		if id, ok = storedID(text); !ok {
			return nil, noMemory(text)
		}
	}
	var until uint64
	if text := r.text("page"); text != "" {
		var ok bool
		if until, ok = op.Positive(text); !ok {
			return nil, errtable.Invalidf("the parameter page: want next_page of the page before")
		}
	}
	f, err := r.storedFilter()
	if err != nil {
		return nil, err
	}
	list := storedVersionList{Data: []storedVersion{}}
	return &list, r.inStore(r.store, func(d *client.Client) error { return r.fillVersions(d, &list, &f, id, until) })
}

// fillVersions adds a page of the versions that a filter accepts.
func (r *Request) fillVersions(d *client.Client, list *storedVersionList, f *storedFilter, id, until uint64) error {
	for {
		all, err := op.ListChanges.Do(r.Context(), d, op.ChangeFilter{ID: id, Until: until, Limit: changesPage, Sums: true})
		if errors.Is(err, crmem.ErrNoStore) || errors.Is(err, crmem.ErrNotFound) { // the first write of the key creates it
			return nil
		}
		if err != nil {
			return err
		}
		changes := all.Changes
		for i := range changes {
			change := &changes[i]
			v, ok := r.storedVersionOf(change, false)
			if !ok || !f.accepts(&v, change.Time) {
				continue
			}
			if len(list.Data) == r.pageSize() {
				next := strconv.FormatUint(change.Place, 10)
				list.Next = &next
				return nil
			}
			if r.text("view") == "full" && v.SHA256 != nil {
				one, err := r.changeOf(d, change.ID, change.Change)
				if err != nil {
					return err
				}
				v.Content = one.Content
			}
			list.Data = append(list.Data, v)
		}
		if all.Next == "" {
			return nil
		}
		until = changes[len(changes)-1].Place - 1
	}
}

// changeOf returns a change with its content. Change 0 is the state before the history.
func (r *Request) changeOf(d *client.Client, id, seq uint64) (*op.Change, error) {
	if seq == 0 {
		e, err := op.ReadEntry(r.Context(), d, op.EntryName{ID: id})
		if err != nil {
			return nil, err
		}
		newest, err := op.NewestChanges(r.Context(), d, id)
		if _, known := newest[id]; err != nil || known {
			return nil, errors.Join(err, crmem.ErrNotFound)
		}
		sum, err := hex.DecodeString(op.SHA256(e.Content))
		return &op.Change{Type: crmem.ChangeAdd, EntryInfo: e.Info(true), SHA256: sum, Time: e.CreatedAt.Time()}, err
	}
	list, err := op.ListChanges.Do(r.Context(), d, op.ChangeFilter{ID: id, Seq: seq})
	if err != nil {
		return nil, err
	}
	if len(list.Changes) == 0 {
		return nil, crmem.ErrNotFound
	}
	return &list.Changes[0], nil
}

func (r *Request) noVersion() *errtable.Error {
	return refuse(http.StatusNotFound, "not_found", "list the versions of the store", "no version %s", printable(r.PathValue("version")))
}

// version returns the version in the path.
func (r *Request) version(d *client.Client, full bool) (*storedVersion, error) {
	id, seq, ok := parseVersion(r.PathValue("version"))
	if !ok {
		return nil, r.noVersion()
	}
	change, err := r.changeOf(d, id, seq)
	if errors.Is(err, crmem.ErrNotFound) || errors.Is(err, crmem.ErrNoStore) {
		return nil, r.noVersion()
	}
	if err != nil {
		return nil, err
	}
	v, ok := r.storedVersionOf(change, full)
	if !ok {
		return nil, r.noVersion()
	}
	return &v, nil
}

func (r *Request) readStoredVersion() (v any, err error) {
	err = r.inStore(r.store, func(d *client.Client) error {
		one, err := r.version(d, r.text("view") != "basic")
		if err == nil {
			v = *one
		}
		return err
	})
	return v, err
}

// redactVersion removes the content of a version, except of the present one.
func (r *Request) redactVersion() (v any, err error) {
	err = r.inStore(r.store, func(d *client.Client) error {
		one, err := r.version(d, false)
		if err != nil {
			return err
		}
		id, seq, _ := parseVersion(one.ID)
		if seq == 0 || one.Operation == "deleted" {
			return errtable.Invalidf("this version has no content to redact")
		}
		if _, err := op.Redact.Do(r.Context(), d, op.Version{ID: id, Seq: seq}); errors.Is(err, crmem.ErrCurrent) {
			return refuse(http.StatusBadRequest, "invalid", "change or remove the memory first", "the memory has the content of this version now")
		} else if err != nil {
			return err
		}
		if one, err = r.version(d, false); err == nil {
			v = *one
		}
		return err
	})
	return v, err
}
