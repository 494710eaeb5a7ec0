package space

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
)

// Home is the spaces of a home, for commands that change them.
type Home struct {
	FS      vfs.FS
	Path    string
	Command string // for the lock file
	Wait    time.Duration
	Warn    func(string)
}

// removedPrefix begins the name of a directory that Remove has not deleted yet.
const removedPrefix = ".removed-"

// Names returns the names of the spaces: main, then the others in order. It ignores
// files, links, and directories with other names.
func Names(fsys vfs.FS, home string) ([]string, error) {
	entries, err := fsys.ReadDir(filepath.Join(home, "spaces"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names := []string{Main}
	for _, e := range entries {
		if e.IsDir() && e.Name() != Main && Check(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// invalid returns the error for a name that is not valid.
func invalid(err error) error {
	return &errtable.Error{Kind: "invalid", HTTP: http.StatusBadRequest, Exit: errtable.ExitUsage, Message: "space: " + err.Error(), Err: err,
		Fix: "choose a name such as team"}
}

// checkOther returns an error for a name that is invalid or main.
func checkOther(name string) error {
	if err := Check(name); err != nil {
		return invalid(err)
	}
	if name == Main {
		return invalid(errors.New("main is the file memory.db of the home: name another space"))
	}
	return nil
}

// Create creates an empty space.
func (h *Home) Create(name string, limit int) error {
	if err := checkOther(name); err != nil {
		return err
	}
	if err := vfs.MkdirAll(h.FS, h.Path, 0o700); err != nil {
		return err
	}
	err := makeDir(h.FS, h.Path, name, limit)
	if errors.Is(err, fs.ErrExist) {
		return h.taken("create", name)
	} else if err != nil {
		return err
	}
	// With a socket, Open creates the file.
	s, err := crmem.Open(File(h.Path, name), &crmem.Options{FS: h.FS, LockWait: h.Wait, Command: h.Command, Socket: filepath.Join(h.Path, "daemon.sock"), Warn: h.Warn})
	if err != nil {
		return err
	}
	return s.Close()
}

func (h *Home) taken(verb, name string) error {
	return &errtable.Error{Kind: "exists", HTTP: http.StatusConflict, Exit: errtable.ExitConflict, Path: Dir(h.Path, name),
		Message: fmt.Sprintf("%s space %q: the name exists", verb, name), Fix: "choose another name, or remove that space first"}
}

// locked calls f with the number of entries of a space while no other process has
// the space open. All operations are in the snapshot then.
func (h *Home) locked(name string, f func(entries int) error) error {
	if err := checkOther(name); err != nil {
		return err
	}
	if err := exists(h.FS, h.Path, name); err != nil {
		return err
	}
	return h.exclusive(File(h.Path, name), false, f) // an empty space may have no file
}

// Rename gives a space another name.
func (h *Home) Rename(from, to string) error {
	if err := checkOther(to); err != nil {
		return err
	}
	return h.locked(from, func(int) error {
		if _, err := h.FS.Lstat(Dir(h.Path, to)); err == nil {
			return h.taken("rename", to)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return h.move(from, to)
	})
}

// move renames a directory of spaces durably. After an error, it tries to restore the
// old name.
func (h *Home) move(from, to string) error {
	err := h.FS.Rename(Dir(h.Path, from), Dir(h.Path, to))
	if err == nil {
		err = h.FS.SyncDir(filepath.Join(h.Path, "spaces"))
	}
	if err != nil { // a later sync could succeed although the new name is not on disk
		_ = h.FS.Rename(Dir(h.Path, to), Dir(h.Path, from))
	}
	return err
}

// Remove removes a space and returns the number of its entries. A space with
// entries is only removed if force is set.
func (h *Home) Remove(name string, force bool) (entries int, err error) {
	err = h.locked(name, func(n int) error {
		if entries = n; n > 0 && !force {
			return &errtable.Error{Kind: "not_empty", HTTP: http.StatusConflict, Exit: errtable.ExitConflict, Path: Dir(h.Path, name),
				Message: fmt.Sprintf("remove space %q: it has %s", name, display.Plural(n, "entry", "entries")),
				Fix:     "use --force to remove it; crabmem dump --space " + name + " DIR keeps a copy"}
		}
		for i := 1; ; i++ {
			aside := fmt.Sprintf("%s%s-%d", removedPrefix, name, i)
			if _, err := h.FS.Lstat(Dir(h.Path, aside)); errors.Is(err, fs.ErrNotExist) {
				return h.move(name, aside)
			} else if err != nil {
				return err
			}
		}
	})
	if err == nil {
		err = h.sweep()
	}
	return entries, err
}

// delete removes a directory and its contents. It follows no link.
func (h *Home) delete(dir string) error {
	list, err := h.FS.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			err = h.delete(name)
		} else {
			err = h.FS.Remove(name)
		}
		if err != nil {
			return err
		}
	}
	return h.FS.Remove(dir)
}

// sweep deletes the directories of removed spaces, also those that a crash left.
func (h *Home) sweep() error {
	list, err := h.FS.ReadDir(filepath.Join(h.Path, "spaces"))
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range list {
		if e.IsDir() && strings.HasPrefix(e.Name(), removedPrefix) {
			errs = append(errs, h.delete(Dir(h.Path, e.Name())))
		}
	}
	return errors.Join(errs...)
}
