package op

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
	"crabmem/daemon/once"
)

// Expected is the state of an entry that a writer has read. The zero value sets no
// condition.
type Expected struct {
	Version uint64 `json:"if_version,omitempty"` // sequence number of the newest change of the entry; 0: any
	SHA256  string `json:"if_sha256,omitempty"`  // of the content, in hexadecimal; empty: any
}

// Replacement is a note that replaces one.
type Replacement struct {
	crmem.Remember
	Expected
}

// Replace replaces a note, as [Remember] does, if the note is as expected when the write
// takes effect. Otherwise it writes nothing, and the error has the kind "changed". That is
// also the error if the history does not prove the version.
var Replace = Add(errtable.Store, Op[Store, Replacement, Written]{
	Name: "entries.replace", Does: "Replace a note if it is as expected.", Effect: Writes, Need: NeedWrite,
	Path: "POST /v1/memories/replace", Fails: writeFails,
	Did: func(_ *Replacement, w *Written) once.Effect { return w.effect() }, Again: writtenAgain,
	Run: func(ctx context.Context, s Store, in *Replacement) (Written, error) {
		var before crmem.Entry
		// Update writes only if the entry is as the plan read it.
		list, err := s.Update(ctx, func(st *crmem.Store) ([]crmem.Op, error) {
			e, err := st.Get(in.Name)
			switch {
			case err != nil || !crmem.SameName(e.Name, in.Name):
				return nil, unexpected(st, in.Name, "no entry has this name")
			case e.Kind != crmem.Note:
				return nil, isArchive(st, in.Name, "choose another name")
			}
			if err := in.check(st, e); err != nil {
				return nil, err
			}
			before = e
			content, err := in.ContentFor(e.Content)
			if err != nil {
				return nil, err
			}
			list := in.Aliases
			if list == nil {
				list = e.Aliases
			}
			return []crmem.Op{crmem.Update{Name: e.Name, Content: content, Aliases: list}}, nil
		})
		if err != nil {
			return Written{}, err
		}
		return Replaced(list[0], before), nil
	},
})

// SHA256 returns a text's digest, in lower-case hexadecimal.
func SHA256(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// check returns an error unless e, an entry of s, is as expected.
func (x Expected) check(s *crmem.Store, e crmem.Entry) error {
	if x.SHA256 != "" && !strings.EqualFold(x.SHA256, SHA256(e.Content)) {
		return unexpected(s, e.Name, "its text has another SHA-256")
	}
	if x.Version == 0 {
		return nil
	}
	version, err := VersionOf(s, e)
	switch {
	case err != nil:
		return unexpected(s, e.Name, "the history does not prove its version: "+err.Error())
	case version != x.Version:
		return unexpected(s, e.Name, fmt.Sprintf("its version is %d, not %d", version, x.Version))
	}
	return nil
}

// VersionOf returns the sequence number of the newest change of e, an entry of s. It
// returns an error if the history does not prove that this change led to e.
func VersionOf(s *crmem.Store, e crmem.Entry) (uint64, error) {
	var last crmem.Change
	var unread error // of a part of the history after last
	for c, err := range s.ChangesOf(e.Name) {
		switch {
		case err != nil:
			unread = err
		case c.Before.ID == e.ID || c.After.ID == e.ID:
			last, unread = c, nil
		}
	}
	switch {
	case unread != nil:
		return 0, unread
	case last.Seq == 0:
		return 0, fmt.Errorf("no change of %s has a number", display.Quoted(e.Name))
	case !last.After.Equal(e):
		return 0, fmt.Errorf("change %d of %s led to another state", last.Seq, display.Quoted(e.Name))
	}
	return last.Seq, nil
}

func unexpected(s *crmem.Store, name, why string) error {
	return &errtable.Error{Kind: "changed", HTTP: http.StatusConflict, Exit: errtable.ExitConflict, Path: s.Path(),
		Message: "the entry " + display.Quoted(name) + " is not as expected: " + why + "; nothing was written",
		Fix:     "read the entry again, then retry; run crabmem log " + errtable.ShellWord(name) + " to see its changes"}
}
