package crmem

import (
	"errors"
	"fmt"
	"io/fs"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// readIdentity returns the identity of the store at path. The error is
// fs.ErrNotExist if there is no identity file, or ErrFormat.
func readIdentity(fsys vfs.FS, path string) (format.ID, error) {
	b, err := vfs.ReadFile(fsys, path+idSuffix, 1<<10)
	if err != nil {
		return format.ID{}, notAStore(err)
	}
	id, ok := format.ParseIdentity(string(b))
	if !ok {
		return id, &FormatError{Path: path + idSuffix, Entry: -1, Field: "identity", Msg: "invalid identity or checksum"}
	}
	return id, nil
}

// saveIdentity writes the identity file, with a new identity if the store does
// not have one. The caller holds the lock.
func (s *Store) saveIdentity() error {
	if s.idSaved {
		return nil
	}
	if s.id == (format.ID{}) {
		s.id = format.NewID()
	}
	name := s.path + idSuffix
	if err := vfs.Replace(s.fs, name, 0o600, bytesTo([]byte(format.IdentityText(s.id)))); err != nil {
		if fi, lerr := s.fs.Lstat(name); lerr == nil && fi.IsDir() {
			err = notAStore(&fs.PathError{Op: "replace", Path: name, Err: vfs.ErrNotRegular})
		}
		return err
	}
	s.idSaved = true
	return nil
}

// takeIdentity sets the store's identity from the identity file or, if that is
// missing or damaged, from the log. It returns an error if a directory has the
// name of the identity file. The caller holds the lock.
func (s *Store) takeIdentity(v *files) error {
	s.id, s.idSaved = v.id, v.idErr == nil
	if v.idErr == nil || v.scan == nil {
		if v.idErr != nil && !errors.Is(v.idErr, fs.ErrNotExist) {
			s.warn("%v; the next write replaces it", v.idErr)
		}
		return nil
	}
	s.id = v.scan.Store
	if err := s.saveIdentity(); errors.Is(err, vfs.ErrNotRegular) {
		return err
	} else if err != nil {
		s.warn("restore %s from the log: %v", s.path+idSuffix, err)
		return nil
	}
	s.warn("restored %s from the log: %v", s.path+idSuffix, v.idErr)
	return nil
}

// Identity returns the identity of the store as 32 hexadecimal digits, or ""
// before the first write.
func (s *Store) Identity() string {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if s.id == (format.ID{}) {
		return ""
	}
	return s.id.String()
}

// NewIdentity gives the store a new identity, to use a copy independently of
// the original. It checkpoints first. Writers wait, and stage again what they staged
// for the old log. Errors are those of [Store.Checkpoint].
func (s *Store) NewIdentity() error {
	s.token <- struct{}{}
	defer func() { <-s.token }()
	s.wmu.Lock()
	defer s.wmu.Unlock()
	err := s.writable()
	if err == nil && s.path != "" {
		err = s.ready()
	}
	if err != nil || s.path == "" {
		return err
	}
	s.restage()
	if err := s.checkpointLocked(); err != nil {
		return err
	}
	if err := s.markDirty(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	s.id, s.idSaved, s.w.Epoch = format.NewID(), false, format.ID{}
	if err := s.newLog(s.w.Seq-1, nil, s.w.Last); err != nil {
		return s.fail(err)
	}
	s.measured()
	return nil
}
