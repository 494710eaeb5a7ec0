package session

import (
	"errors"
	"io/fs"
	"path/filepath"

	"crabmem/crmem/vfs"
)

// results returns the directory for a session's long results of tools.
func (m *Manager) results(id string) string { return filepath.Join(m.o.Home, "results", id) }

// KeepResult writes a tool's long result to a file.
func (m *Manager) KeepResult(name, text string) error {
	if err := vfs.MkdirAll(m.o.FS, filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return vfs.WriteFile(m.o.FS, name, 0o600, []byte(text))
}

// DropResults removes a session's long results of tools.
func (m *Manager) DropResults(id string) error {
	list, err := m.o.FS.ReadDir(m.results(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range list {
		err = errors.Join(err, m.o.FS.Remove(filepath.Join(m.results(id), f.Name())))
	}
	return errors.Join(err, m.o.FS.Remove(m.results(id)))
}
