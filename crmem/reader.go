package crmem

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"crabmem/crmem/internal/format"
)

// absence confirms that the store is missing after the snapshot was not found.
// It returns false if another process created the store concurrently. It
// returns an error for a log without a snapshot: an empty store in its place
// would be a silent loss.
func (s *Store) absence() (bool, error) {
	_, err := s.fs.Lstat(s.path + walSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		if err := missingSnapshot(s.fs, s.path, s.opts.MaxBytes); err != nil {
			if _, lerr := s.fs.Lstat(s.path); lerr == nil {
				return false, nil // another process created it concurrently
			}
			return false, err
		}
		return true, nil
	}
	if err != nil {
		return false, err
	}
	// The snapshot is created before its log.
	if _, err := s.fs.Lstat(s.path); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return false, fmt.Errorf("%w: open %s: file missing but log %s exists: restore the file, run crabmem repair, or move the log to start empty",
		ErrForeign, s.path, s.path+walSuffix)
}

// openReader reads without a lock. A writer may replace both files
// concurrently, so it reads again if log and snapshot do not match.
func (s *Store) openReader() error {
	lazy := s.opts.Lazy
	for try := 1; ; try++ {
		v, err := readFiles(s.fs, s.path, s.opts.MaxBytes, s.opts.Lazy, lazy)
		if errors.Is(err, fs.ErrNotExist) {
			absent, err := s.absence()
			if err != nil {
				return err
			}
			if !absent && try < 20 {
				continue
			}
			s.warnAbsent()
			if s.opts.MustExist {
				return fmt.Errorf("%w: %s does not exist", ErrNoStore, s.path)
			}
			return nil
		}
		last := try == 20
		// Files are replaced by a rename, so corruption is not transient.
		if err != nil && (last || errors.Is(err, ErrFormat)) {
			return err
		}
		if err == nil {
			if err := v.findOthers(s.fs, s.path, s.opts.MaxBytes); err != nil && last {
				s.warn("%v", err)
			}
			v.findLinked(s.fs, s.link, s.opts.MaxBytes)
			done, err := s.view(v, last)
			if v.file != nil && isOfIndexFile(err) {
				s.warnIndexFile(err)
				done, err, lazy = false, nil, false
			}
			if done && err == nil {
				return nil
			}
			v.closeIndexFile()
			if err != nil {
				return err
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// view takes the state of files that a reader read. It returns false if they
// must be read again.
func (s *Store) view(v *files, last bool) (bool, error) {
	s.dbStat, s.dbDig = v.stat, v.dig
	s.noteLog(v)
	if err := v.refuse(s.path); err != nil {
		if !last {
			return false, nil
		}
		s.warn("%v", err)
	}
	if v.idErr == nil {
		s.id = v.id
	}
	if v.scan != nil {
		seq, ok := v.point()
		if !ok && !last {
			return false, nil
		}
		if !ok {
			if n := v.scan.Ops(); n > 0 {
				s.warn("%s: mismatched log, which extends another snapshot: %v not shown: run crabmem verify for details", s.path+walSuffix, opCount(n))
			}
		} else {
			ops, err := v.replay(&v.snap.t, &v.snap.NextID, seq)
			if err != nil {
				return true, inFile(err, s.path+walSuffix)
			}
			s.ops = ops
		}
		if v.scan.Verdict == format.Corrupt {
			s.warn("%s: corrupt at offset %d (%s): the rest is not shown: run crabmem repair", s.path+walSuffix, v.scan.Bad, v.scan.Why)
		}
		s.w = v.scan.Writer()
	}
	s.t, s.nextID = v.snap.t, v.snap.NextID
	s.warnOwn(v.own)
	return true, nil
}
