package crmem

import (
	"errors"
	"io"
	"os"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// The reserve is space for a full disk: a remove needs a frame of the log, and
// a user must be able to remove entries.
const reserveSize = 256 << 10

// A smaller store, in bytes of snapshot and log, has no reserve, because a home may
// have a thousand stores. Tests change it.
var reserveFrom int64 = 1 << 20

// makeReserve creates the reserve file of a store that is large enough. The store
// works without it if there is no space. The caller holds the token or wmu.
func (s *Store) makeReserve() {
	if s.spare || s.dbStat.size()+s.w.End < reserveFrom {
		return
	}
	name := s.path + reserveSuffix
	f, err := s.fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		s.spare = errors.Is(err, os.ErrExist)
		return
	}
	// Written, not just sized: a hole keeps no space.
	err = errors.Join(writeAll(f, make([]byte, reserveSize)), f.Close())
	if err != nil {
		err = errors.Join(err, s.fs.Remove(name))
	}
	s.spare = err == nil
}

// freeReserve removes the reserve, and reports whether it existed.
func (s *Store) freeReserve() bool {
	s.token <- struct{}{}
	defer func() { <-s.token }()
	s.spare = false
	fi, err := s.fs.Lstat(s.path + reserveSuffix)
	ours := err == nil && fi.Mode().IsRegular() && fi.Size() <= reserveSize && s.checkLock() == nil
	return ours && s.fs.Remove(s.path+reserveSuffix) == nil
}

// ready creates the files for the first write. The caller holds wmu. The token
// is not needed, because without a log no goroutine writes one.
func (s *Store) ready() error {
	if s.path == "" || s.log != nil {
		return nil
	}
	made := false
	if s.absent {
		var err error
		if made, err = s.create(); err != nil {
			return err
		}
	}
	if s.log != nil {
		return nil // another process created it concurrently; it was read
	}
	if err := s.markDirty(); err != nil {
		return err
	}
	if !made {
		if err := s.syncSnapshot(); err != nil {
			return s.fail(err)
		}
	}
	if err := s.newLog(max(s.base, s.newestSeq()), nil, format.Place{}); err != nil {
		if !s.retryable(err, s.path+walSuffix) {
			s.fail(err)
		}
		return err
	}
	s.makeReserve()
	if kind := s.fs.Remote(dirOf(s.path)); kind != "" {
		s.warn("%s is on %s: acknowledged writes may not survive a crash, and the lock may not exclude other processes", s.path, kind)
	}
	return nil
}

// retryable reports whether a file could not be created because the disk is
// full, and its name does not exist. If the name exists, a sync of the
// directory failed.
func (s *Store) retryable(err error, name string) bool {
	_, lerr := s.fs.Lstat(name)
	return vfs.OutOfSpace(err) && errors.Is(lerr, os.ErrNotExist)
}

// syncSnapshot makes durable a snapshot that another program wrote, and may not
// have synced, before a log extends it. Its name is synced with the log's. That program
// may also have created or renamed the directory.
func (s *Store) syncSnapshot() error {
	f, err := s.fs.OpenFile(s.path, os.O_RDWR, 0) // Windows cannot sync a file that is open for reading only
	if errors.Is(err, os.ErrPermission) {
		f, err = s.fs.Open(s.path)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return vfs.MkdirAll(s.fs, dirOf(s.path), 0o700)
}

// create creates an empty store with its parent directories. If another process
// created the store first, create uses that one and returns false. The caller
// holds wmu.
func (s *Store) create() (made bool, err error) {
	dir := dirOf(s.path)
	if err := vfs.MkdirAll(s.fs, dir, 0o700); err != nil {
		return made, err
	}
	// A link in a parent that did not exist cannot have been followed before.
	path, err := s.fs.Resolve(s.path)
	if err != nil {
		return made, err
	}
	s.mu.Lock()
	s.path = path
	s.mu.Unlock()
	if _, err := s.fs.Lstat(s.path); err == nil {
		if s.lock != nil {
			err = s.unlock()
		}
		return made, errors.Join(err, s.adopt())
	}
	if s.lock == nil { // held already after a try that failed
		if _, _, err := s.acquire(); err != nil {
			return made, err
		}
	}
	if _, err := s.fs.Lstat(s.path); err == nil { // another was first
		return made, errors.Join(s.unlock(), s.adopt())
	}
	if absent, err := s.absence(); err != nil {
		return made, errors.Join(err, s.unlock())
	} else if !absent {
		return made, errors.Join(s.unlock(), s.adopt())
	}
	if err := s.markDirty(); err != nil {
		return made, err
	}
	sum := format.Digest{}
	err = vfs.Replace(s.fs, s.path, 0o600, func(w io.Writer) error {
		_, err := writeSnapshot(io.MultiWriter(w, &sum), 1, 0, nil)
		return err
	})
	if err != nil {
		if !s.retryable(err, s.path) {
			s.fail(err)
		}
		return made, err
	}
	fi, err := s.fs.Lstat(s.path)
	if err != nil {
		return made, s.fail(err)
	}
	s.dbStat = fileStat{fi}
	s.mu.Lock()
	s.dbDig = sum
	s.mu.Unlock()
	s.absent = false
	return true, nil
}

// adopt opens a store that another process created after Open found none. The
// caller holds wmu.
func (s *Store) adopt() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.lockAndRecover(); err != nil {
		// Discard partial results.
		s.t, s.nextID, s.ops = table{}, 1, 0
		return err
	}
	s.absent = false
	s.version++
	s.dropIndex()
	s.vectors.set = nil
	s.vectors.replaced++
	s.vectors.wakeUp()
	s.measured()
	return nil
}
