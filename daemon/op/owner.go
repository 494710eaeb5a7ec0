package op

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"crabmem/daemon/errtable"
	"crabmem/sessionlog"
)

// The checks of a session's owner. A session of another identity is reported as missing.

// OwnStored returns an error if the identity may not read a session. It takes no path, in
// contrast to resume_file.
func (d *Daemon) OwnStored(id string) error {
	missing := fmt.Errorf("%w: %q", sessionlog.ErrNotFound, id)
	s, err := d.Sessions.Read(id)
	if errors.Is(err, sessionlog.ErrAmbiguous) {
		return missing
	}
	if err != nil {
		return err
	}
	defer s.Close()
	if !d.As.MayRead(s.Meta.CreatedBy) {
		return missing
	}
	return nil
}

// OwnLoaded is OwnStored for the number of a loaded session.
func (d *Daemon) OwnLoaded(number uint64) error {
	l, err := d.Loaded.Get(number)
	if err == nil && !d.As.MayRead(l.CreatedBy()) {
		err = errtable.Errorf(http.StatusInternalServerError, "not_found", "session %d not found", number)
	}
	return err
}

// ownTrashed is OwnStored for a session in the trash.
func (d *Daemon) ownTrashed(id string) error {
	infos, err := d.Sessions.Trashed()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(infos, func(i sessionlog.Info) bool { return i.ID == id && d.As.MayRead(i.Meta.CreatedBy) }) {
		return fmt.Errorf("%w: %q", sessionlog.ErrNotFound, id)
	}
	return nil
}
