package memstores

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
)

func (r *Request) createStored(in *newStored) (m any, err error) {
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
	add := crmem.Add{Name: name, Content: content}
	if err := add.Validate(); err != nil {
		return nil, errtable.Invalidf("%v", err)
	}
	err = r.inStore(r.activeStore, func(d *client.Client) error {
		names, _, err := r.storedNames(d)
		if err != nil {
			return err
		}
		if len(names) >= maxStored {
			return errtable.Invalidf("the memory store has %d memories, at most %d", len(names), maxStored)
		}
		list, err := op.ApplyOps(r.Context(), d, crmem.Unchanged{Entry: crmem.Entry{Name: name}}, add)
		if errors.Is(err, crmem.ErrExists) || errors.Is(err, crmem.ErrStale) {
			return takenPath(in.Path)
		}
		if err != nil {
			return err
		}
		m, err = r.respondStored(d, &list[0], false)
		return err
	})
	return m, err
}

// checkStored checks the size of a content.
func checkStored(content string) error {
	if len(content) > maxStoredContent {
		return errtable.Invalidf("content: %d bytes, want at most %d", len(content), maxStoredContent)
	}
	return nil
}

func takenPath(path string) *errtable.Error {
	return refuse(http.StatusConflict, pathConflict, "choose another path, or change that memory", "a memory has the path %s, or an alias", printable(path))
}

// changeStored changes content and path. If the memory is already as requested, the
// precondition need not hold.
func (r *Request) changeStored(in *changedStored) (m any, err error) {
	if in.Content == nil && in.Path == nil {
		return nil, errtable.Invalidf("want content or path")
	}
	if p := in.Precondition; p != nil && (p.Type != "content_sha256" || !isSum(p.SHA256)) {
		return nil, errtable.Invalidf("precondition: want the type content_sha256, and 64 lower-case hexadecimal characters")
	}
	err = r.inStore(r.activeStore, func(d *client.Client) error {
		e, err := r.stored(d)
		if err != nil {
			return err
		}
		ops, after, err := storedChange(e, in)
		if err != nil {
			return err
		}
		if len(ops) == 0 && r.Once == "" { // else the daemon records the key
			m, err = r.respondStored(d, e, false)
			return err
		}
		if len(ops) > 0 && in.Precondition != nil && in.Precondition.SHA256 != op.SHA256(e.Content) {
			return unmet(e)
		}
		list, err := op.ApplyOps(r.Context(), d, append([]crmem.Op{crmem.Unchanged{Entry: *e}}, ops...)...)
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
		m, err = r.respondStored(d, now, false)
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
			return nil, after, errtable.Invalidf("%v", err)
		}
		ops = append(ops, update)
	}
	if in.Path != nil && *in.Path != "/"+e.Name {
		if after.Name, err = nameOf(*in.Path); err != nil {
			return nil, after, err
		}
		rename := crmem.Rename{Name: e.Name, To: after.Name}
		if err := rename.Validate(); err != nil {
			return nil, after, errtable.Invalidf("%v", err)
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
func unmet(e *crmem.Entry) *errtable.Error {
	return refuse(http.StatusConflict, preconditionFailed, "read the memory again, then retry", "the content of /%s has another digest, or changes concurrently", printable(e.Name))
}

// replayRemoved is the outcome of a request that removed the memory.
func (r *Request) replayRemoved(*op.Outcome) (any, error) {
	return removedObject{r.PathValue("memory"), "memory_deleted"}, nil
}

func (r *Request) removeStored() (any, error) {
	expected := r.text("expected_content_sha256")
	if expected != "" && !isSum(expected) {
		return nil, errtable.Invalidf("the parameter expected_content_sha256: want 64 lower-case hexadecimal characters")
	}
	return removedObject{r.PathValue("memory"), "memory_deleted"}, r.inStore(r.store, func(d *client.Client) error {
		e, err := r.stored(d)
		if err != nil {
			return err
		}
		if expected != "" && expected != op.SHA256(e.Content) {
			return unmet(e)
		}
		_, err = op.ApplyOps(r.Context(), d, crmem.Unchanged{Entry: *e}, crmem.Remove{Name: e.Name})
		if errors.Is(err, crmem.ErrStale) {
			return unmet(e)
		}
		return err
	})
}
