package crmem

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// framesAfter returns the operations that were logged after a cut.
func (s *Store) framesAfter(c *cut) ([]format.Frame, error) {
	if s.w.Seq == c.seq+1 {
		return nil, nil
	}
	b, err := vfs.ReadFile(s.fs, s.path+walSuffix, maxLogFor(s.opts.MaxBytes))
	if err != nil {
		return nil, err
	}
	scan, err := format.ScanLog(b)
	if err != nil {
		return nil, err
	}
	frames := slices.DeleteFunc(scan.Frames, func(f format.Frame) bool {
		return f.Type == format.FrameCheckpoint || f.Seq <= c.seq
	})
	if want := int(s.w.Seq - 1 - c.seq); scan.Verdict != format.Clean || len(frames) != want {
		return nil, fmt.Errorf("%s: expected %d operations after sequence number %d, read %d (%v at offset %d: %s)",
			s.path+walSuffix, want, c.seq, len(frames), scan.Verdict, scan.Bad, scan.Why)
	}
	return frames, nil
}

// newLog installs a new log with the frames. It extends the present snapshot,
// which contains operations up to seq. before is the place of operation seq; a
// log without a predecessor begins a new epoch. The caller holds wmu.
func (s *Store) newLog(seq uint64, frames []format.Frame, before format.Place) error {
	h, err := s.newHeader(seq+1, before)
	if err != nil {
		return err
	}
	b := h.Append(nil)
	w := h.Writer()
	start := w.End
	for i := range frames {
		b = w.AppendCopy(b, &frames[i], start)
		if !frames[i].More {
			start = w.End // the complete file is synced before it gets its name
		}
	}
	if err := s.replaceLog(b, w); err != nil {
		return err
	}
	s.base = seq
	return nil
}

// newHeader returns the header of a new log that extends the present snapshot
// and begins with operation seq, after it saved the identity.
func (s *Store) newHeader(seq uint64, before format.Place) (format.LogHeader, error) {
	h := format.LogHeader{Salt: max(rand.Uint64(), noLog+1), Base: s.dbDig, Seq: seq}
	if err := s.checkLock(); err != nil {
		return h, err
	}
	if s.log == nil && len(s.holder.Logs) == 0 {
		if err := s.nameLogs(noLog); err != nil {
			return h, err
		}
	}
	if err := s.saveIdentity(); err != nil {
		return h, err
	}
	h.Store, h.Epoch, h.Before = s.id, s.w.Epoch, before
	if h.Epoch == (format.ID{}) {
		h.Epoch, h.Before = format.NewID(), format.Place{}
	}
	return h, nil
}

// noLog stands in the lock file in place of a salt: the log may not exist yet.
const noLog = 0

// replaceLog installs a log with the given bytes and opens it. w is its end.
// Meanwhile the lock file contains the salts of the old log and the new one.
func (s *Store) replaceLog(b []byte, w format.LogWriter) error {
	name := s.path + walSuffix
	if err := s.nameLogs(append(slices.Clone(s.holder.Logs), w.Salt)...); err != nil {
		return err
	}
	p, err := s.fs.Pending(name, 0o600)
	if err != nil {
		return err
	}
	fi, err := s.fillLog(p, b)
	if err != nil {
		return errors.Join(err, p.Discard())
	}
	err = p.Commit()
	s.logStat.renamed(s.fs, name, fi)
	if err != nil {
		return errors.Join(err, p.Discard())
	}
	if err := s.fs.SyncDir(dirOf(name)); err != nil {
		return err
	}
	f, err := s.fs.OpenFile(name, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	old := s.log
	s.log, s.logStat, s.w = f, fileStat{fi}, w
	s.linkHeld()
	_ = s.nameLogs(w.Salt) // both names are true, too
	if old != nil {
		return old.Close()
	}
	return s.checkLog(w.End)
}

// fillLog writes a log to its temporary file, and checks the names before that
// file replaces the log.
func (s *Store) fillLog(p vfs.Pending, b []byte) (fs.FileInfo, error) {
	if err := writeAll(p, b); err != nil {
		return nil, err
	}
	fi, err := p.Stat()
	if err != nil {
		return nil, err
	}
	end := s.w.End
	if s.log == nil {
		end = anyLength
	}
	return fi, s.checkLog(end)
}
