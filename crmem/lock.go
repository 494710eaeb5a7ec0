package crmem

import (
	"errors"
	"os"

	"crabmem/crmem/vfs"
)

// acquire takes the lock, waiting up to Options.LockWait. It returns the text
// that the previous lock holder left in the file. fresh reports that the file
// was new.
func (s *Store) acquire() (before vfs.LockHolder, fresh bool, err error) {
	s.lock, err = vfs.Acquire(s.fs, s.path+lockSuffix, s.opts.LockWait)
	if err != nil {
		return before, false, err
	}
	text, err := s.lock.Text()
	if err == nil {
		s.lockInfo, err = s.lock.Stat()
	}
	if err != nil {
		return before, false, errors.Join(err, s.unlock())
	}
	before = vfs.ParseLockHolder(text)
	s.holder = vfs.LockHolder{PID: os.Getpid(), Boot: s.fs.BootID(), Command: s.opts.Command, Socket: s.opts.Socket, Clean: before.Clean, Logs: before.Logs}
	if before.Boot != s.holder.Boot {
		s.holder.Clean, s.holder.Logs = -1, nil
	}
	return before, text == "", nil
}

func (s *Store) unlock() error {
	err := s.lock.Unlock()
	s.lock = nil
	return err
}

// markDirty writes state dirty to the lock file. The caller calls it before the
// first write. Only markClean makes the log trusted again.
func (s *Store) markDirty() error {
	if s.dirty {
		return nil
	}
	s.holder.Clean = -1
	if err := s.lock.SetText(s.holder.Text()); err != nil {
		return err
	}
	s.dirty = true
	return nil
}

// nameLogs writes into the lock file which logs may have the log's name.
func (s *Store) nameLogs(salts ...uint64) error {
	s.holder.Logs = salts
	return s.lock.SetText(s.holder.Text())
}

// markClean writes state clean to the lock file: the log is synced up to end.
func (s *Store) markClean(end int64) error {
	s.holder.Clean = end
	return s.lock.SetText(s.holder.Text())
}
