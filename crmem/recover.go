package crmem

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// recover reads the files for writing and recovers from a crash. The caller
// holds the lock. before is the lock file's text; fresh reports that the lock
// file was new.
func (s *Store) recover(before vfs.LockHolder, fresh bool) error {
	if err := s.oneName(); err != nil {
		return err
	}
	// After an unclean end or a restart of the system, the snapshot may be only in the
	// page cache.
	lazy := s.opts.Lazy && !fresh && before.Clean >= 0 && before.Boot != "" && before.Boot == s.holder.Boot
	v, err := readFiles(s.fs, s.path, s.opts.MaxBytes, true, lazy)
	if err != nil {
		return err
	}
	err = s.recoverFrom(v, before, fresh)
	used := v.file != nil
	if used && err != nil {
		v.closeIndexFile()
		s.t = table{}
	}
	if used && isOfIndexFile(err) {
		s.warnIndexFile(err)
		if v, err = readFiles(s.fs, s.path, s.opts.MaxBytes, true, false); err == nil {
			err = s.recoverFrom(v, before, fresh)
		}
	}
	return err
}

// recoverFrom is recover for files that were read.
func (s *Store) recoverFrom(v *files, before vfs.LockHolder, fresh bool) error {
	s.dbDig, s.dbStat = v.dig, v.stat
	s.noteLog(v)
	s.t, s.nextID = v.snap.t, v.snap.NextID
	s.logStat = v.logStat
	if err := s.takeIdentity(v); err != nil {
		return err
	}
	if err := v.findOthers(s.fs, s.path, s.opts.MaxBytes); err != nil {
		return err
	}
	v.findLinked(s.fs, s.link, s.opts.MaxBytes)
	if err := s.judge(v, before); err != nil {
		return err
	}
	s.heldInfo = v.heldInfo
	s.notePurges(v)
	if v.file == nil {
		defer func() { s.t.loadedFrom(v.db, v.log) }()
	}
	if _, err := s.fs.Lstat(s.path + reserveSuffix); err == nil {
		s.spare = true
	}
	dirty := !fresh && before.Clean < 0
	if v.scan == nil {
		s.sweep()
		if dirty {
			return s.rewrite(v)
		}
		return nil
	}
	s.holder.Logs = []uint64{v.scan.Salt}
	seq, ok := v.point()
	if !ok {
		return s.takeUnboundLog(v, dirty)
	}
	var err error
	if s.ops, err = v.replay(&s.t, &s.nextID, seq); err != nil {
		return inFile(err, s.path+walSuffix)
	}
	s.base = seq
	s.sweep()
	if v.scan.Verdict == format.TornTail {
		if err := s.cutTail(v); err != nil {
			return err
		}
	}
	if !s.trusts(v, before) || dirty || v.scan.Verdict == format.TornTail {
		return s.rewriteWithReserve(v)
	}
	return s.resumeLog(v)
}

// takeUnboundLog accepts a log that does not name the snapshot. The log must
// have no operations: the first write begins a new one.
func (s *Store) takeUnboundLog(v *files, dirty bool) error {
	if n := v.scan.Ops(); n > 0 {
		return fmt.Errorf("%w: log %s has %v for the snapshot %v, but %s is %v: run crabmem repair --keep-db to quarantine the log, or crabmem repair --keep-log BASE to use the snapshot that the log extends",
			ErrForeign, s.path+walSuffix, opCount(n), v.scan.Base, s.path, v.dig)
	}
	s.base = v.scan.Seq - 1
	if v.scan.Base != v.dig {
		s.warn("another program wrote %s since the last use of this store; the next log extends the new snapshot", s.path)
	}
	if v.scan.Verdict == format.TornTail {
		if err := s.cutTail(v); err != nil {
			return err
		}
	}
	if dirty {
		return s.rewriteSnapshot(v)
	}
	return nil
}

// trusts reports whether the log is on disk as it was read: it is empty, or the
// writer before closed it with this length since the system started.
func (s *Store) trusts(v *files, before vfs.LockHolder) bool {
	same := before.Boot != "" && before.Boot == s.holder.Boot
	if same && before.Clean > int64(len(v.log)) {
		s.warn("%s: %d bytes, but the last writer left %d: another program truncated the log", s.path+walSuffix, len(v.log), before.Clean)
	}
	return len(v.scan.Frames) == 0 || same && before.Clean == int64(len(v.log))
}

// rewriteWithReserve is rewrite. On a full disk it removes the reserve, so that
// the store can be opened and entries can be removed.
func (s *Store) rewriteWithReserve(v *files) error {
	err := s.rewrite(v)
	if vfs.OutOfSpace(err) && s.spare && s.stopped == nil && s.fs.Remove(s.path+reserveSuffix) == nil {
		s.spare = false
		err = s.rewrite(v)
	}
	return err
}

// resumeLog opens the log for more records.
func (s *Store) resumeLog(v *files) (err error) {
	s.w = v.scan.Writer()
	if s.log, err = s.fs.OpenFile(s.path+walSuffix, os.O_RDWR|os.O_APPEND, 0); err != nil {
		return err
	}
	s.linkHeld()
	return s.checkLog(s.w.End)
}

// judge compares the files with the names, numbers and copies that other
// processes left (FORMAT.md, V4 and V9 to V13). It returns an error if the
// store must not be written.
func (s *Store) judge(v *files, before vfs.LockHolder) error {
	s.warnOwn(v.own)
	if v.scan != nil && v.scan.Verdict == format.Corrupt {
		return fmt.Errorf("%w; entries before it are readable; run crabmem repair to quarantine the rest", v.corrupt(s.path))
	}
	if err := v.checkIdentity(s.path); err != nil {
		return err
	}
	if err := v.refuse(s.path); err != nil {
		return err
	}
	warning, err := v.checkSalt(s.path, before, s.holder.Boot)
	if warning == "" && v.scan == nil && v.idErr == nil && !(before.Boot == s.holder.Boot && slices.Contains(before.Logs, noLog)) {
		warning = fmt.Sprintf("%s is missing, but the identity file %s exists: operations that only the log contained, if any, are lost",
			s.path+walSuffix, s.path+idSuffix)
	}
	if warning != "" {
		s.warn("%s", warning)
	}
	return err
}

// oneName refuses a snapshot with several names: it is never changed in place.
func (s *Store) oneName() error {
	fi, err := s.fs.Lstat(s.path)
	if err != nil {
		return err
	}
	if links := vfs.Identify(fi).Links; links > 1 {
		return fmt.Errorf("%s has %d hard links, and a checkpoint would separate them: replace the other links with copies", s.path, links)
	}
	return nil
}

// cutTail keeps a copy of a torn tail, and then cuts it off.
func (s *Store) cutTail(v *files) error {
	tail := v.log[v.scan.End:]
	w := v.scan.Writer()
	name, err := quarantine(s.fs, fmt.Sprintf("%s%s%d", s.path, tornSuffix, w.Seq), tail)
	if err != nil {
		return err
	}
	f, err := s.fs.OpenFile(s.path+walSuffix, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if err = s.checkLog(anyLength); err == nil {
		err = f.Truncate(v.scan.End)
	}
	if err == nil {
		err = f.Datasync()
	}
	if err == nil {
		s.logStat.info, err = f.Stat()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	s.warn("%s: moved a torn tail of %d bytes at offset %d (operation %d; %s) to %s",
		s.path+walSuffix, len(tail), v.scan.End, w.Seq, v.scan.Why, name)
	return nil
}

// quarantine writes bytes to a file of the name, or of the name and a number
// when another file has it, and returns which.
func quarantine(fsys vfs.FS, name string, b []byte) (string, error) {
	for i := 0; ; i++ {
		path := name
		if i > 0 {
			path = fmt.Sprintf("%s.%d", name, i)
		}
		old, err := vfs.ReadFile(fsys, path, int64(len(b)))
		if err == nil && string(old) == string(b) {
			return path, nil // of the same incident: the crash came after the copy
		}
		if err == nil || errors.Is(notAStore(err), ErrFormat) { // too large, or no file
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		return path, vfs.WriteFile(fsys, path, 0o600, b)
	}
}

// bytesTo returns a function that writes b.
func bytesTo(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// rewrite makes durable, in new files, a state of which only the page cache
// may know: after a failed sync it shows bytes that the disk does not have,
// and later syncs succeed without them.
func (s *Store) rewrite(v *files) error {
	if v.scan == nil {
		return s.rewriteSnapshot(v)
	}
	if err := s.markDirty(); err != nil {
		return err
	}
	// Copy the log first. It continues from its own header, so that it has a
	// point for whichever snapshot has the name after a crash.
	if err := s.replaceLog(v.log[:v.scan.End], v.scan.Writer()); err != nil {
		return err
	}
	s.distrust = true
	err := s.checkpointLocked()
	if errors.Is(err, errUnfolded) { // the new log is durable
		s.warn("%v", err)
		return nil
	}
	return err
}

// rewriteSnapshot is rewrite of a snapshot that no log extends yet: the same
// bytes again.
func (s *Store) rewriteSnapshot(v *files) error {
	if err := s.markDirty(); err != nil {
		return err
	}
	err := vfs.Replace(s.fs, s.path, 0o600, func(w io.Writer) error {
		_, err := v.snap.WriteTo(w)
		return err
	})
	if err != nil {
		return err
	}
	fi, err := s.fs.Lstat(s.path)
	if err == nil {
		s.dbStat = fileStat{fi}
	}
	return err
}

// sweep removes temporary files of interrupted replacements, except those of derived
// files. A file that cannot be removed is harmless, except to a purge.
func (s *Store) sweep() error {
	return sweepTemporary(s.fs, s.path, func(rest string) (stem, number, digits string) {
		digits = "0123456789"
		if tail, ok := strings.CutPrefix(rest, tornSuffix); ok {
			rest, digits = tail, digits+"." // quarantine numbers names, too
		}
		for _, suffix := range []string{idSuffix, purgeSuffix, walSuffix} {
			rest = strings.TrimPrefix(rest, suffix)
		}
		return "", rest, digits
	})
}

// sweepTemporary removes temporary files of the store's files. Their names are a dot,
// the name of the store, and a rest that number divides into the suffix of a file, stem,
// and a number of one or more of the given digits.
func sweepTemporary(fsys vfs.FS, path string, number func(rest string) (stem, number, digits string)) error {
	dir, base := dirOf(path), filepath.Base(path)
	list, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	names := make(map[string]bool, len(list))
	for _, e := range list {
		names[e.Name()] = true
	}
	for _, e := range list {
		rest, ok := strings.CutPrefix(e.Name(), "."+base)
		if !ok || !e.Type().IsRegular() {
			continue
		}
		stem, n, digits := number(rest)
		// The digits may be part of the name of another store, which a process
		// has open.
		theirs := false
		for i := 1; i < len(n); i++ {
			theirs = theirs || names[base+stem+n[:i]] || names[base+stem+n[:i]+lockSuffix]
		}
		if !theirs && n != "" && strings.Trim(n, digits) == "" {
			err = errors.Join(err, fsys.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
