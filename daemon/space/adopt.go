package space

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
)

// adoptPrefix begins the name of a directory in which Adopt copies a store.
const adoptPrefix = ".adopt-"

// Adopt makes a store of this machine the space name, and returns the number of its
// entries. The file is renamed to kept when its copy is on disk.
func (h *Home) Adopt(file, name string, limit int) (entries int, kept string, err error) {
	if err := checkOther(name); err != nil {
		return 0, "", err
	}
	if file, err = h.FS.Resolve(file); err != nil {
		return 0, "", err
	}
	home, err := h.FS.Resolve(h.Path)
	if err != nil {
		return 0, "", err
	}
	if file == File(home, Main) || strings.HasPrefix(file, filepath.Join(home, "spaces")+string(filepath.Separator)) {
		return 0, "", &errtable.Error{Kind: "invalid", HTTP: http.StatusBadRequest, Exit: errtable.ExitUsage, Path: file,
			Message: fmt.Sprintf("adopt %s: it is a space already", file), Fix: "name a store outside memory.db and spaces/; crabmem spaces rename renames a space"}
	}
	kept = file + ".adopted"
	if _, err := h.FS.Lstat(kept); !errors.Is(err, fs.ErrNotExist) {
		return 0, "", errors.Join(err, &errtable.Error{Kind: "exists", HTTP: http.StatusConflict, Exit: errtable.ExitConflict, Path: kept,
			Message: fmt.Sprintf("adopt %s: %s exists", file, kept), Fix: "move that file, then retry"})
	}
	err = h.exclusive(file, true, func(n int) error {
		entries = n
		if err := h.copyTo(file, name, limit); err != nil {
			return err
		}
		// All operations are in the snapshot, so the log is not needed.
		for _, suffix := range []string{"-wal.held", "-wal", "-id", "-reserve"} {
			if err := h.FS.Remove(file + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if err := h.FS.Rename(file+"-history", kept+"-history"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := h.FS.Rename(file, kept); err != nil {
			return err
		}
		if err := h.removeDerived(file); err != nil {
			return err
		}
		return h.FS.SyncDir(filepath.Dir(file))
	})
	return entries, kept, err
}

// removeDerived removes the derived files of a store that was renamed. A process that
// read the store writes none after that, because it does not find the store.
func (h *Home) removeDerived(file string) error {
	lock, err := vfs.Acquire(h.FS, file+"-derived-lock", h.Wait)
	if err != nil {
		return err
	}
	for _, suffix := range []string{"-usage", "-index-plain", "-index-standard", "-vectors"} {
		if rerr := h.FS.Remove(file + suffix); !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	return errors.Join(err, lock.Unlock())
}

// copyTo copies the snapshot of a store to a new space. The space exists when its
// copy is complete and on disk.
func (h *Home) copyTo(file, name string, limit int) error {
	if _, err := h.FS.Lstat(Dir(h.Path, name)); err == nil {
		return h.taken("adopt", name)
	}
	aside := adoptPrefix + name
	if err := h.delete(Dir(h.Path, aside)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // of an earlier crash
	}
	if err := makeDir(h.FS, h.Path, aside, limit); err != nil {
		return err
	}
	in, err := h.FS.Open(file)
	if err != nil {
		return err
	}
	err = vfs.Replace(h.FS, File(h.Path, aside), 0o600, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
	if err := errors.Join(err, in.Close()); err != nil {
		return err
	}
	return h.move(aside, name)
}

// exclusive calls f with the number of entries of a store while no other process has
// the store open. All operations are in the snapshot then. If the store may be
// missing, it counts as empty.
func (h *Home) exclusive(file string, mustExist bool, f func(entries int) error) error {
	entries := 0
	s, err := crmem.Open(file, &crmem.Options{FS: h.FS, LockWait: h.Wait, Command: h.Command, Warn: h.Warn, CheckpointOnClose: crmem.CheckpointAlways, MustExist: true})
	switch {
	case err == nil:
		entries = s.Stats().Entries
		if err := s.Close(); err != nil {
			return err
		}
	case mustExist || !errors.Is(err, crmem.ErrNoStore):
		return err
	}
	lock, err := vfs.Acquire(h.FS, file+"-lock", 0)
	if err != nil {
		return err
	}
	err = f(entries)
	return errors.Join(err, lock.Unlock())
}
