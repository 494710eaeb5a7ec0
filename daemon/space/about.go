package space

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
)

// About describes a space for people and programs. It is in the file space.json next to
// the store. Without that file, Title is the name of the space.
type About struct {
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Metadata    map[string]string `json:"metadata"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
	ArchivedAt  time.Time         `json:"archived_at,omitzero"` // zero: it is in use
}

// The limits of an About, in characters.
const (
	maxTitle       = 255
	maxDescription = 1024
	maxMetadata    = 16 // pairs
	maxKey         = 64
	maxValue       = 512
	maxAboutFile   = 256 << 10 // bytes
)

// Check returns an error for a description that no space can have.
func (a *About) Check() error {
	control := func(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }
	switch {
	case a.Title == "" || utf8.RuneCountInString(a.Title) > maxTitle || control(a.Title):
		return errtable.Invalidf("name: want 1 to %d characters, without control characters", maxTitle)
	case utf8.RuneCountInString(a.Description) > maxDescription:
		return errtable.Invalidf("description: want at most %d characters", maxDescription)
	case len(a.Metadata) > maxMetadata:
		return errtable.Invalidf("metadata: %d pairs, want at most %d", len(a.Metadata), maxMetadata)
	}
	for k, v := range a.Metadata {
		if k == "" || utf8.RuneCountInString(k) > maxKey || utf8.RuneCountInString(v) > maxValue {
			return errtable.Invalidf("metadata: want keys of 1 to %d characters, and values of at most %d", maxKey, maxValue)
		}
	}
	return nil
}

func aboutFile(home, name string) string {
	return filepath.Join(filepath.Dir(File(home, name)), "space.json")
}

// About returns the description of a space that exists.
func (s *Set) About(name string) (About, error) {
	if err := Exists(s.o.FS, s.o.Home, name); err != nil {
		return About{}, err
	}
	path := aboutFile(s.o.Home, name)
	b, err := vfs.ReadFile(s.o.FS, path, maxAboutFile)
	if errors.Is(err, fs.ErrNotExist) {
		a := About{Title: name, Metadata: map[string]string{}}
		for _, file := range []string{File(s.o.Home, name) + "-id", filepath.Dir(path)} {
			if fi, err := s.o.FS.Lstat(file); err == nil {
				a.CreatedAt = fi.ModTime()
				break
			}
		}
		a.UpdatedAt = a.CreatedAt
		return a, nil
	}
	a := About{Metadata: map[string]string{}}
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	if err != nil {
		return a, &errtable.Error{Kind: "format", HTTP: http.StatusInternalServerError, Exit: errtable.ExitCorrupt, Path: path, Err: err,
			Message: fmt.Sprintf("read %s: %v", path, err), Fix: "correct the file, or remove it to reset the description of the space"}
	}
	return a, nil
}

// Describe replaces the description of a space with the result of change, which sees the
// present one. A process has one Set for a home, so no other change is lost.
func (s *Set) Describe(name string, change func(*About) error) (About, error) {
	s.describing.Lock()
	defer s.describing.Unlock()
	a, err := s.About(name)
	if err != nil {
		return a, err
	}
	a.Metadata = maps.Clone(a.Metadata)
	if err := change(&a); err != nil {
		return a, err
	}
	if err := a.Check(); err != nil {
		return a, err
	}
	b, err := json.MarshalIndent(&a, "", "  ")
	if err != nil {
		return a, err
	}
	return a, vfs.WriteFile(s.o.FS, aboutFile(s.o.Home, name), 0o600, append(b, '\n'))
}

// Remove removes a space with its entries, after the calls of Use that have begun. h is
// for the home of the Set.
func (s *Set) Remove(h *Home, name string) error {
	if err := checkOther(name); err != nil {
		return err
	}
	if err := exists(s.o.FS, s.o.Home, name); err != nil {
		return err
	}
	s.mu.Lock()
	old := s.open[name]
	removal := &opened{ready: make(chan struct{}), uses: 1} // later calls wait for it
	s.open[name] = removal
	for old != nil && old.uses > 0 {
		s.unused.Wait()
	}
	s.mu.Unlock()
	if old != nil && old.store != nil {
		_ = old.store.Close() // of a checkpoint, which Remove does
	}
	_, err := h.Remove(name, true)
	removal.err = &errtable.Error{Kind: "not_found", HTTP: http.StatusNotFound, Exit: errtable.ExitNotFound, Err: crmem.ErrNoStore,
		Message: fmt.Sprintf("open space %q: it was removed", name), Fix: "use another space"}
	s.mu.Lock()
	s.forget(name, removal)
	s.mu.Unlock()
	s.release(removal)
	close(removal.ready)
	return err
}
