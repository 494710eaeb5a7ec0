package session

import (
	"path/filepath"

	"crabmem/crmem/vfs"
)

// results returns the directory for a session's long results of tools.
func (m *Manager) results(id string) string { return filepath.Join(m.o.Home, "results", id) }

// KeepResult writes a long result of a tool to a file.
func (m *Manager) KeepResult(name, text string) error {
	if err := vfs.MkdirAll(m.o.FS, filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return vfs.WriteFile(m.o.FS, name, 0o600, []byte(text))
}
