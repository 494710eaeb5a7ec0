package memtool

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"crabmem/crmem"
	"crabmem/daemon/errtable"
)

// Purged is the result of a purge.
type Purged struct {
	Entry   crmem.Entry // without content from a daemon; ID 0: the name was of removed entries only
	Deleted []string    // files that may have contained the texts
}

// Purge removes the entry of a name, and its texts from every file of s, as
// crmem.Store.Purge does. It also purges removed entries that had the name last.
// The name must not be an alias. Unless archives is set, the error for an archive
// is crmem.ErrKind. first is as for crmem.Store.Overwrite.
func Purge(s *crmem.Store, name string, archives bool, first ...crmem.Op) (Purged, error) {
	for try := 1; ; try++ {
		e, absent := FindToRemove(s, name, archives)
		expected := e
		switch {
		case errors.Is(absent, crmem.ErrNotFound) || errors.Is(absent, crmem.ErrAmbiguous): // removed entries may have had the name
			e, expected = crmem.Entry{}, crmem.Entry{Name: name}
		case absent != nil:
			return Purged{}, PurgeFix(absent)
		}
		deleted, err := s.Purge(cmp.Or(e.Name, name), append(slices.Clip(first), crmem.Unchanged{Entry: expected})...)
		switch {
		case errors.Is(err, crmem.ErrStale) && try < MaxTries:
			continue
		case errors.Is(err, crmem.ErrNotFound) && absent != nil:
			err = PurgeFix(absent)
		}
		return Purged{e, deleted}, err
	}
}

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
