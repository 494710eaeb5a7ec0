package op

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
)

// Purged is the result of a purge.
type Purged struct {
	Entry   crmem.Entry `json:"entry"`   // ID 0: the name was of removed entries only
	Deleted []string    `json:"deleted"` // files that may have contained the texts
}

// Purge removes the entry of a name, and its texts from every file of the store, as
// crmem.Store.Purge does. It also purges removed entries that had the name last.
// The name must not be an alias. Unless Archive is set, the error for an archive
// is crmem.ErrKind.
var Purge = Add(errtable.Store, Op[Store, Removal, Purged]{
	Name: "entries.purge", Does: "Remove an entry with its history.", Effect: Erases,
	Run: func(_ context.Context, s Store, in *Removal) (Purged, error) {
		if err := CheckEraser(crmem.Actor(s.By)); err != nil {
			return Purged{}, err
		}
		p, err := s.purge(in)
		if err != nil {
			return p, err
		}
		return p, s.purged()
	},
})

func (s Store) purge(in *Removal) (Purged, error) {
	for try := 1; ; try++ {
		e, absent := FindToRemove(s.Store, in.Name, in.Archive)
		expected := e
		switch {
		case errors.Is(absent, crmem.ErrNotFound) || errors.Is(absent, crmem.ErrAmbiguous): // removed entries may have had the name
			e, expected = crmem.Entry{}, crmem.Entry{Name: in.Name}
		case absent != nil:
			return Purged{}, PurgeFix(absent)
		}
		deleted, err := s.Store.Purge(cmp.Or(e.Name, in.Name), append(s.by(), crmem.Unchanged{Entry: expected})...)
		switch {
		case errors.Is(err, crmem.ErrStale) && try < MaxTries:
			continue
		case errors.Is(err, crmem.ErrNotFound) && absent != nil:
			err = PurgeFix(absent)
		}
		return Purged{e, deleted}, err
	}
}

// Version names the state of an entry after a change.
type Version struct {
	ID  uint64 `json:"id"`
	Seq uint64 `json:"change"`
}

// Deleted lists files that may have contained a removed text.
type Deleted struct {
	Deleted []string `json:"deleted"`
}

// Redact removes the content of an entry after a change, as crmem.Store.Redact does.
var Redact = Add(errtable.Store, Op[Store, Version, Deleted]{
	Name: "entries.redact", Does: "Remove one earlier text of an entry.", Effect: Erases, Retry: true,
	Run: func(_ context.Context, s Store, in *Version) (Deleted, error) {
		by := crmem.Actor(s.By)
		by.Origin = "" // an admin, who may do what the owner may
		if err := CheckEraser(by); err != nil {
			return Deleted{}, err
		}
		deleted, err := s.Store.Redact(in.ID, in.Seq)
		if err != nil {
			return Deleted{}, err
		}
		return Deleted{deleted}, s.purged()
	},
})

// Age selects the operations of the history before a time.
type Age struct {
	Before time.Time `json:"before"`
}

// Freed is the size of what was removed.
type Freed struct {
	Bytes int64 `json:"freed_bytes"`
}

var PruneHistory = Add(errtable.Store, Op[Store, Age, Freed]{
	Name: "history.prune", Does: "Remove the operations of the history before a time.", Effect: Manages, Retry: true,
	Run: func(_ context.Context, s Store, in *Age) (Freed, error) {
		if err := CheckEraser(crmem.Actor(s.By)); err != nil {
			return Freed{}, err
		}
		freed, err := s.Prune(in.Before)
		return Freed{max(freed, 0)}, err
	},
})

// PurgeFix changes the fix "crabmem forget NAME" of an error, which keeps the
// history, to a purge.
func PurgeFix(err error) error {
	e, ok := errors.AsType[*errtable.Error](err)
	if !ok || !strings.HasPrefix(e.Fix, "crabmem forget ") {
		return err
	}
	fixed := *e
	fixed.Fix = strings.Replace(e.Fix, "forget ", "forget --purge ", 1)
	return &fixed
}

// CheckEraser returns an error unless a user of this machine made a request to
// purge or to prune: no agent, no MCP client, and no identity of another service.
func CheckEraser(by crmem.Actor) error {
	if by.Agent == "" && by.Session == "" && by.Call == "" && by.Client != crmem.ClientMCP && !strings.Contains(by.Origin, ":") {
		return nil
	}
	return &errtable.Error{Kind: "permission", HTTP: http.StatusForbidden, Exit: errtable.ExitPermission,
		Message: "remove history: only a user of this machine may purge or prune", Fix: "run crabmem forget --purge or crabmem prune --history in a terminal"}
}
