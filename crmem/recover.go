package crmem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

func dirOf(path string) string { return filepath.Dir(path) }

// files are the files of a store, read and decoded, but not yet compared.
type files struct {
	stat    fileStat // of the snapshot
	dig     format.Digest
	db      []byte // the file that snap is decoded from
	snap    *Snapshot
	log     []byte // nil if there is no log
	logStat fileStat
	scan    *format.LogScan // nil if there is no log
	id      format.ID
	idErr   error // of the identity file; fs.ErrNotExist if there is none
	others
}

// readFiles reads the snapshot and then the log. Without a log the digest of
// the snapshot is computed only if digested asks for it.
func readFiles(fsys vfs.FS, path string, maxBytes int64, digested bool) (*files, error) {
	v := &files{}
	b, err := v.readSnapshot(fsys, path, maxBytes)
	if err != nil {
		return nil, err
	}
	err = v.readLog(fsys, path, maxBytes)
	hasLog := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, notAStore(err)
	}
	v.id, v.idErr = readIdentity(fsys, path)
	// The digest takes a core of its own while the other decodes.
	var wg sync.WaitGroup
	if hasLog || digested {
		wg.Go(func() { v.dig = format.DigestOf(b) })
	}
	v.db = b
	v.snap, err = Decode(b)
	wg.Wait()
	if err != nil {
		return nil, inFile(err, path)
	}
	if hasLog {
		if v.scan, err = format.ScanLog(v.log); err != nil {
			return nil, inFile(err, path+walSuffix)
		}
	}
	return v, nil
}

func (v *files) readSnapshot(fsys vfs.FS, path string, maxBytes int64) ([]byte, error) {
	b, fi, err := vfs.ReadFileInfo(fsys, path, maxBytes)
	v.stat.info = fi
	return b, notAStore(err)
}

func (v *files) readLog(fsys vfs.FS, path string, maxBytes int64) (err error) {
	v.log, v.logStat.info, err = vfs.ReadFileInfo(fsys, path+walSuffix, maxLogFor(maxBytes))
	return err
}

// notAStore gives the class to errors that say that a file cannot be one.
func notAStore(err error) error {
	var large *vfs.TooLargeError
	if errors.Is(err, vfs.ErrNotRegular) || errors.As(err, &large) {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return err
}

func inFile(err error, path string) error {
	var f *FormatError
	if errors.As(err, &f) {
		f.Path = path
	}
	return err
}

func maxLogFor(maxBytes int64) int64 { return maxBytes + 64<<20 }

// point returns the sequence number that the snapshot on disk covers, and false
// if the log does not name that snapshot or is of another store.
func (v *files) point() (seq uint64, ok bool) {
	if v.otherStore() {
		return 0, false
	}
	return v.scan.Covers(v.dig)
}

// replay brings a table from the snapshot that covers seq to the end of the
// log: by number, not by place, since operations that were logged while a
// snapshot was written stand before the frame that names it.
func (v *files) replay(t *table, nextID *uint64, seq uint64) (ops int, err error) {
	// An alias frame is a few bytes and copies its entry, which may be large:
	// of several for one entry only the last is applied.
	lists := make(map[uint64][]byte)
	for i := range v.scan.Frames {
		f := &v.scan.Frames[i]
		if f.Type == format.FrameCheckpoint || f.Seq <= seq {
			continue
		}
		if f.Type == format.FrameAlias {
			err = checkAlias(f, t)
		} else {
			err = applyFrame(f, t, nextID)
		}
		if err != nil {
			return ops, err
		}
		switch f.Type {
		case format.FrameAlias:
			lists[binary.LittleEndian.Uint64(f.Payload)] = f.Payload[8:]
		case format.FramePut, format.FrameRemove, format.FramePurge:
			delete(lists, binary.LittleEndian.Uint64(f.Payload))
		}
		ops++
	}
	for id, list := range lists {
		t.put(t.byID(id).WithAliases(list))
	}
	t.sort()
	return ops, nil
}

// absence confirms that there is no store, when the snapshot was found missing,
// and reports false when another process created one meanwhile. It refuses a
// log whose snapshot is missing: an empty store in its place would be a silent
// loss.
func (s *Store) absence() (bool, error) {
	_, err := s.fs.Lstat(s.path + walSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		if err := missingSnapshot(s.fs, s.path, s.opts.MaxBytes); err != nil {
			if _, lerr := s.fs.Lstat(s.path); lerr == nil {
				return false, nil // another process created it meanwhile
			}
			return false, err
		}
		return true, nil
	}
	if err != nil {
		return false, err
	}
	// A snapshot is there before its log is.
	if _, err := s.fs.Lstat(s.path); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return false, fmt.Errorf("%w: open %s: file missing but log %s exists: restore the file, run crabmem repair, or move the log to start empty",
		ErrForeign, s.path, s.path+walSuffix)
}

// openReader reads without a lock. A writer may replace both files meanwhile,
// so that a log and a snapshot that do not fit are tried again.
func (s *Store) openReader() error {
	for try := 1; ; try++ {
		v, err := readFiles(s.fs, s.path, s.opts.MaxBytes, false)
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
		// Every file is replaced by a rename, so what is damaged stays so.
		if err != nil && (last || errors.Is(err, ErrFormat)) {
			return err
		}
		if err == nil {
			if err := v.findOthers(s.fs, s.path, s.opts.MaxBytes); err != nil && last {
				s.warn("%v", err)
			}
			v.findLinked(s.fs, s.link, s.opts.MaxBytes)
			done, err := s.view(v, last)
			if done || err != nil {
				return err
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// view takes what a reader found. It reports false to try again.
func (s *Store) view(v *files, last bool) (bool, error) {
	s.dbStat = v.stat
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

// recover reads the files as their writer, and mends what a crash leaves.
// Caller holds the lock. before is the lock file's text, fresh when it was new.
func (s *Store) recover(before vfs.LockHolder, fresh bool) error {
	if err := s.oneName(); err != nil {
		return err
	}
	v, err := readFiles(s.fs, s.path, s.opts.MaxBytes, true)
	if err != nil {
		return err
	}
	s.dbDig, s.dbStat = v.dig, v.stat
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
	defer func() { s.t.loadedFrom(v.db, v.log) }()
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
	seq, ok := v.point()
	if !ok {
		return s.takeUnboundLog(v, dirty)
	}
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
	s.holder.Logs = []uint64{v.scan.Salt}
	if !s.trusts(v, before) || dirty || v.scan.Verdict == format.TornTail {
		return s.rewriteWithReserve(v)
	}
	return s.resumeLog(v)
}

// takeUnboundLog takes a log that does not name the snapshot. It must have no
// operations: the first write binds a new one.
func (s *Store) takeUnboundLog(v *files, dirty bool) error {
	if n := v.scan.Ops(); n > 0 {
		return fmt.Errorf("%w: log %s has %v for the snapshot %v, but %s is %v: run crabmem repair --keep-db to quarantine the log, or crabmem repair --keep-log BASE to use the snapshot that the log extends",
			ErrForeign, s.path+walSuffix, opCount(n), v.scan.Base, s.path, v.dig)
	}
	s.base = v.scan.Seq - 1
	if v.scan.Base != v.dig {
		s.warn("another program wrote %s since the last use of this store; the next write extends the new file", s.path)
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

// rewriteWithReserve is rewrite. On a full disk it gives up the reserve, so that the
// store can be opened, and something removed.
func (s *Store) rewriteWithReserve(v *files) error {
	err := s.rewrite(v)
	if vfs.OutOfSpace(err) && s.spare && s.stopped == nil && s.fs.Remove(s.path+reserveSuffix) == nil {
		s.spare = false
		err = s.rewrite(v)
	}
	return err
}

// resumeLog opens the log for more records. The next write begins a log of the
// present version if an older one has no operations.
func (s *Store) resumeLog(v *files) (err error) {
	if s.w = v.scan.Writer(); s.w.Version == format.LogVersion1 && v.scan.Ops() == 0 && s.opts.LogVersion != format.LogVersion1 {
		s.w = format.LogWriter{}
		return nil
	}
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
	if warning == "" && v.scan == nil && v.idErr == nil {
		warning = fmt.Sprintf("%s is missing, but the identity file %s exists: operations that only the log contained are lost",
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
		return path, vfs.Replace(fsys, path, 0o600, bytesTo(b))
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
	// The log is copied first, and goes on from its own header, so that it
	// has a point for whichever snapshot a crash leaves under the name.
	if err := s.replaceLog(v.log[:v.scan.End], v.scan.Writer()); err != nil {
		return err
	}
	s.distrust = true
	return s.checkpointLocked()
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

// sweep removes what a crash left of files that were being replaced. What
// cannot be removed does no harm.
func (s *Store) sweep() {
	dir, base := dirOf(s.path), filepath.Base(s.path)
	list, err := s.fs.ReadDir(dir)
	if err != nil {
		return
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
		digits := "0123456789"
		if tail, ok := strings.CutPrefix(rest, tornSuffix); ok {
			rest, digits = tail, digits+"." // quarantine numbers names, too
		}
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, idSuffix), walSuffix)
		// The digits may be part of the name of a store that another holds.
		theirs := false
		for i := 1; i < len(rest); i++ {
			theirs = theirs || names[base+rest[:i]] || names[base+rest[:i]+lockSuffix]
		}
		if !theirs && rest != "" && strings.Trim(rest, digits) == "" {
			s.fs.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
