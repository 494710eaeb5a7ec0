package crmem

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// fileStat identifies the contents of a file. The zero value is no file.
type fileStat struct{ info fs.FileInfo }

func (f fileStat) size() int64 {
	if f.info == nil {
		return 0
	}
	return f.info.Size()
}

// is reports whether fi is the same file, with the size and time of f.
func (f fileStat) is(fi fs.FileInfo) bool {
	return f.info != nil && vfs.SameFile(f.info, fi) && f.info.Size() == fi.Size() && f.info.ModTime().Equal(fi.ModTime())
}

// renamed records that this process renamed the file fi to name. It checks the
// name, because a failed rename may have taken effect.
func (f *fileStat) renamed(fsys vfs.FS, name string, fi fs.FileInfo) {
	if now, err := fsys.Lstat(name); err == nil && vfs.SameFile(now, fi) {
		f.info = fi
	}
}

// displacedError reports that a name does not lead to the file that a writer
// uses. It is ErrForeign.
type displacedError struct {
	path, why string
	kept      string // sentence about the writer's own copy
}

func (e *displacedError) Error() string {
	s := fmt.Sprintf("%s: another program %s", e.path, e.why)
	if e.kept != "" {
		s += "; " + e.kept
	}
	return s
}

// Is makes a displacedError an ErrForeign.
func (e *displacedError) Is(target error) bool { return target == ErrForeign }

// anyLength as the end of the log matches every length.
const anyLength = -1

// checkLog returns a *displacedError if the names of lock and log do not lead
// to the files that this writer uses, or if the log does not end at end
// (FORMAT.md, N1). The caller holds the token, or has the store for
// itself.
func (s *Store) checkLog(end int64) error {
	if err := s.checkLock(); err != nil {
		return err
	}
	name := s.path + walSuffix
	fi, err := s.checkName(name, s.logStat.info)
	if err != nil || fi == nil {
		return err
	}
	if s.log == nil && fi.Size() != s.logStat.size() || s.log != nil && end != anyLength && fi.Size() != end {
		return &displacedError{path: name, why: fmt.Sprintf("changed its length to %d bytes", fi.Size())}
	}
	if s.linked && vfs.Identify(fi).Links == 1 {
		s.linkHeld() // the second link was removed; the log was not
	}
	return nil
}

// checkLock is checkLog for the lock file alone.
func (s *Store) checkLock() error {
	_, err := s.checkName(s.path+lockSuffix, s.lockInfo)
	return err
}

// checkName is vfs.CheckName with a *displacedError.
func (s *Store) checkName(name string, info fs.FileInfo) (fs.FileInfo, error) {
	fi, changed, err := vfs.CheckName(s.fs, name, info)
	if changed != "" {
		return nil, &displacedError{path: name, why: changed}
	}
	return fi, err
}

// checkSnapshot returns a *displacedError if the store's name does not lead to
// the snapshot that this writer read or wrote.
func (s *Store) checkSnapshot() error {
	switch fi, err := s.fs.Lstat(s.path); {
	case errors.Is(err, fs.ErrNotExist):
		return &displacedError{path: s.path, why: "removed it"}
	case err != nil:
		return err
	case !s.dbStat.is(fi):
		return &displacedError{path: s.path, why: "wrote or replaced it"}
	}
	return nil
}

// checkNames is checkLog and checkSnapshot.
func (s *Store) checkNames(end int64) error {
	if s.absent {
		return s.checkLock()
	}
	if err := s.checkLog(end); err != nil {
		return err
	}
	return s.checkSnapshot()
}

// keepState writes the state of the store, with the effects of g unless that
// is nil, to a file that no program removes, and adds its name to err. It does
// so once. If err is not a *displacedError, it is returned as it is. The
// caller holds the token, or has the store for itself.
func (s *Store) keepState(err error, g *group) error {
	d, ok := errors.AsType[*displacedError](err)
	if !ok || s.kept != "" {
		return err
	}
	if s.t.file != nil { // no checkpoint has begun, and the caller does not hold wmu
		if lerr := s.Load(); lerr != nil {
			return errors.Join(err, lerr)
		}
	}
	sn := s.snapshot()
	what := "this process's copy of the store"
	if g != nil {
		sn.take(g)
		what += ", including this write,"
	}
	name, kerr := s.writeOwn(sn)
	if kerr != nil {
		d.kept = fmt.Sprintf("%s could not be saved: %v", what, kerr)
		return err
	}
	s.kept = name
	if d.path == s.path+lockSuffix { // another writer may have the store
		d.kept = fmt.Sprintf("%s is in %s: stop every process that uses the store, then compare that file with %s", what, name, s.path)
		return err
	}
	d.kept = fmt.Sprintf("%s is in %s: stop every process that uses the store, move an existing file at %s, rename the copy to that path, and run crabmem repair --keep-db",
		what, name, s.path)
	return err
}

// take applies the effects of a group to the snapshot.
func (sn *Snapshot) take(g *group) {
	for i := range g.effects {
		if e := &g.effects[i]; e.rec == "" {
			sn.t.remove(e.id)
		} else {
			sn.t.put(e.rec)
		}
	}
	sn.t.sort()
	sn.NextID = g.nextID
}

// writeOwn writes a snapshot next to the store, under a name that no program
// removes.
func (s *Store) writeOwn(sn *Snapshot) (string, error) {
	p, dig, err := s.writeTemp(sn.NextID, sn.t.live, sn.t.recs)
	if err != nil {
		return "", err
	}
	return s.nameOwn(p, dig)
}

// nameOwn gives a temporary snapshot its name as the writer's own copy.
func (s *Store) nameOwn(p vfs.Pending, dig format.Digest) (name string, err error) {
	if err := p.Keep(); err != nil {
		return p.Name(), err
	}
	name, err = s.moveToFree(p.Name(), fmt.Sprintf("%s%s%08x", s.path, ownSuffix, dig.C))
	if err != nil {
		return p.Name(), err
	}
	return name, s.fs.SyncDir(dirOf(s.path))
}

// moveToFree renames a file to name, or to name with a number if a file has
// that name, and returns which.
func (s *Store) moveToFree(file, name string) (string, error) {
	for i := 0; ; i++ {
		free := name
		if i > 0 {
			free = fmt.Sprintf("%s.%d", name, i)
		}
		_, err := s.fs.Lstat(free)
		if errors.Is(err, fs.ErrNotExist) {
			return free, s.fs.Rename(file, free)
		}
		if err != nil {
			return "", err
		}
	}
}

// linkHeld creates the second link to the log (FORMAT.md, N3), if the file
// system has hard links. It replaces only a file of this writer or a log
// without operations that the store lacks.
func (s *Store) linkHeld() {
	s.linked = false
	name := s.path + walSuffix + heldSuffix
	fi, err := s.fs.Lstat(name)
	if err == nil && vfs.SameFile(fi, s.logStat.info) {
		s.linked, s.heldInfo = true, s.logStat.info
		return
	}
	if err == nil && (s.heldInfo == nil || !vfs.SameFile(fi, s.heldInfo) || s.fs.Remove(name) != nil) {
		return
	}
	if s.fs.Link(s.path+walSuffix, name) == nil {
		s.linked, s.heldInfo = true, s.logStat.info
	}
}

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

// lastCheck checks the names before Close closes the files, and keeps the state
// if another program changed one. err is the error of the checkpoint; the result
// also says whether the acknowledged operations are on disk. The caller holds wmu.
func (s *Store) lastCheck(err error) error {
	if s.lock == nil {
		if err == nil && s.opts.ReadOnly && s.stopped != nil {
			return fmt.Errorf("%w: %w", ErrStopped, s.stopped)
		}
		return err
	}
	end := s.w.End
	if s.stopped != nil {
		end = anyLength
	}
	nerr := s.checkNames(end)
	if nerr != nil && s.kept == "" {
		if lerr := s.loadLocked(); lerr != nil {
			nerr = errors.Join(nerr, lerr)
		} else {
			nerr = s.keepState(nerr, nil)
		}
		s.fail(nerr)
		err = errors.Join(err, nerr)
	}
	switch {
	case err == nil && s.stopped != nil:
		return fmt.Errorf("%w: %w", ErrStopped, s.stopped)
	case err != nil && nerr == nil && s.log != nil:
		return fmt.Errorf("%w; %s has every acknowledged operation", err, s.path+walSuffix)
	}
	return err
}
