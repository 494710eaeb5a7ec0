package crmem

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// others are files next to snapshot and log that may contain operations of the
// store.
type others struct {
	held     *sideLog    // the second link, if it is another file than the log
	heldInfo fs.FileInfo // of held, or of a link without operations that the store lacks
	linked   *sideLog    // next to a symbolic link to the store
	version  error       // names a log version that this program does not read
	own      []string    // copies that a writer kept
	purge    bool        // the file of an unfinished purge exists
}

// sideLog is a log under another name.
type sideLog struct {
	path  string
	bytes []byte
	scan  *format.LogScan // its valid prefix
	ops   []*format.Frame // that neither snapshot nor log contains
}

// findOthers looks for files of V11 and V13 (FORMAT.md). v has the snapshot,
// or no digest if that is missing, and the log.
func (v *files) findOthers(fsys vfs.FS, path string, maxBytes int64) error {
	list, err := fsys.ReadDir(dirOf(path))
	if err != nil {
		return err
	}
	base := filepath.Base(path)
	for _, e := range list {
		rest, ok := strings.CutPrefix(e.Name(), base)
		if !ok {
			continue
		}
		name := filepath.Join(dirOf(path), e.Name())
		switch {
		case strings.HasPrefix(rest, ownSuffix) && e.Type().IsRegular():
			v.own = append(v.own, name)
		case rest == purgeSuffix:
			v.purge = true
		case rest == walSuffix+heldSuffix:
			v.findHeld(fsys, name, maxBytes)
		}
	}
	return nil
}

// findHeld judges the second link of the log.
func (v *files) findHeld(fsys vfs.FS, name string, maxBytes int64) {
	fi, err := fsys.Lstat(name)
	if err != nil {
		return
	}
	v.heldInfo = fi
	if v.logStat.info != nil && vfs.SameFile(fi, v.logStat.info) {
		return
	}
	l := v.readSideLog(fsys, name, maxBytes)
	if l == nil || v.ofOtherStore(l.scan) && v.scan != nil && !v.otherStore() {
		v.heldInfo = nil // not a log of this store: left as it is
		return
	}
	if l.ops = v.lacks(l.scan); len(l.ops) > 0 {
		v.held = l
	}
}

// findLinked looks for a log that was left next to a symbolic link when the
// store was moved to where the link leads (FORMAT.md, V14).
func (v *files) findLinked(fsys vfs.FS, link string, maxBytes int64) {
	if link == "" {
		return
	}
	v.own = append(v.own, ownCopies(fsys, link)...)
	for _, suffix := range []string{walSuffix, walSuffix + heldSuffix} {
		name, err := fsys.Resolve(link + suffix) // it may have become a link, too
		if err != nil {
			continue
		}
		l := v.readSideLog(fsys, name, maxBytes)
		if l == nil {
			continue
		}
		if l.ops = v.lacks(l.scan); len(l.ops) > 0 {
			v.linked = l
			return
		}
	}
}

// ownCopies returns the copies that writers kept (FORMAT.md, V13).
func ownCopies(fsys vfs.FS, path string) (own []string) {
	list, _ := fsys.ReadDir(dirOf(path)) // the caller reports why it cannot open the store
	for _, e := range list {
		if strings.HasPrefix(e.Name(), filepath.Base(path)+ownSuffix) && e.Type().IsRegular() {
			own = append(own, filepath.Join(dirOf(path), e.Name()))
		}
	}
	return own
}

// ofOtherStore reports whether a log has another identity than the identity
// file.
func (v *files) ofOtherStore(scan *format.LogScan) bool {
	return v.idErr == nil && scan.Store != v.id
}

// otherStore reports whether the log of v is of another store.
func (v *files) otherStore() bool { return v.scan != nil && v.ofOtherStore(v.scan) }

// readSideLog reads a log under another name as far as it is valid, or returns
// nil. It notes a log of another version in v.
func (v *files) readSideLog(fsys vfs.FS, name string, maxBytes int64) *sideLog {
	b, err := vfs.ReadFile(fsys, name, maxLogFor(maxBytes))
	if err != nil {
		return nil
	}
	scan, err := format.ScanPrefix(b)
	if scan == nil {
		v.noteVersion(err, name)
		return nil
	}
	return &sideLog{path: name, bytes: b, scan: scan}
}

// noteVersion sets v.version if err names another log version.
func (v *files) noteVersion(err error, name string) {
	if v.version == nil && isOtherVersion(err) {
		v.version = inFile(err, name)
	}
}

// lacks returns the operations of a log that neither the snapshot nor the log
// of v contains.
func (v *files) lacks(side *format.LogScan) []*format.Frame {
	covered, _ := side.Covers(v.dig)
	if v.scan != nil && side.Precedes(v.scan) {
		covered = max(covered, v.scan.Seq-1)
	}
	here := map[uint64]*format.Frame{}
	if v.scan != nil {
		for i := range v.scan.Frames {
			if f := &v.scan.Frames[i]; f.Type != format.FrameCheckpoint {
				here[f.Seq] = f
			}
		}
	}
	var ops []*format.Frame
	for i := range side.Frames {
		f := &side.Frames[i]
		if f.Type == format.FrameCheckpoint || f.Seq <= covered {
			continue
		}
		if h := here[f.Seq]; h == nil || h.Type != f.Type || !bytes.Equal(h.Context, f.Context) || !bytes.Equal(h.Payload, f.Payload) {
			ops = append(ops, f)
		}
	}
	return ops
}

// refuse returns why a writer must not use the store (FORMAT.md, V11, V12, and V14),
// or nil.
func (v *files) refuse(path string) error {
	if v.version != nil {
		return v.version
	}
	if h := v.held; h != nil && v.log == nil {
		return fmt.Errorf("%w: %s is missing, but its second link %s has %v that %s does not contain: run crabmem repair",
			ErrForeign, path+walSuffix, h.path, opCount(len(h.ops)), path)
	}
	if h := v.held; h != nil {
		return fmt.Errorf("%w: another program replaced %s: the log of the last writer, %s, has %v that the new log does not contain: run crabmem repair",
			ErrForeign, path+walSuffix, h.path, opCount(len(h.ops)))
	}
	if l := v.linked; l != nil {
		return fmt.Errorf("%w: the store was moved to %s without its log %s, which has %v that the store does not contain: move the log to %s, or elsewhere",
			ErrForeign, path, l.path, opCount(len(l.ops)), path+walSuffix)
	}
	return nil
}

// checkIdentity returns ErrForeign if a log with operations is of another store
// (FORMAT.md, V9).
func (v *files) checkIdentity(path string) error {
	if !v.otherStore() || v.scan.Ops() == 0 {
		return nil
	}
	if v.held != nil && !v.ofOtherStore(v.held.scan) {
		return fmt.Errorf("%w: %s is a log of store %v, but the log of this store is %s: run crabmem repair",
			ErrForeign, path+walSuffix, v.scan.Store, v.held.path)
	}
	return fmt.Errorf("%w: %s has %v of store %v, but %s identifies this store as %v: restore the log of this store, remove %s if the log is correct, or run crabmem repair --keep-db to quarantine the log",
		ErrForeign, path+walSuffix, opCount(v.scan.Ops()), v.scan.Store, path+idSuffix, v.id, path+idSuffix)
}

// checkSalt compares the log with the text of the last lock holder (FORMAT.md,
// V10). It returns ErrForeign for another log of this boot, and otherwise a
// warning or "".
func (v *files) checkSalt(path string, before vfs.LockHolder, boot string) (warning string, err error) {
	sameBoot := before.Boot != "" && before.Boot == boot
	hadOps := before.Clean < 0 || before.Clean > format.LogHeaderSize // or may have had
	switch {
	case len(before.Logs) == 0 || v.otherStore(): // that is V9
		return "", nil
	case v.scan == nil && sameBoot && hadOps && !slices.Contains(before.Logs, noLog):
		return fmt.Sprintf("%s is missing; process %d used it last: operations that only this log contained are lost", path+walSuffix, before.PID), nil
	case v.scan == nil || slices.Contains(before.Logs, v.scan.Salt):
		return "", nil
	case v.scan.Ops() == 0 && sameBoot && hadOps:
		return fmt.Sprintf("%s is not the log that process %d used last: operations that only that log contained are lost", path+walSuffix, before.PID), nil
	case v.scan.Ops() == 0:
		return "", nil
	case !sameBoot:
		return fmt.Sprintf("%s is not the log that process %d used last: normal after a power cut; otherwise another program restored or replaced the log",
			path+walSuffix, before.PID), nil
	}
	return "", fmt.Errorf("%w: %s has %v, but process %d last used another log: restore that log, run crabmem repair --keep-log %s to accept this log, or run crabmem repair --keep-db to quarantine it",
		ErrForeign, path+walSuffix, opCount(v.scan.Ops()), before.PID, path)
}

// warnAbsent reports a store that is missing, if the lock file or the identity
// file shows that there was one.
func (s *Store) warnAbsent() {
	text, _ := vfs.ReadFile(s.fs, s.path+lockSuffix, 1<<16)
	if _, err := s.fs.Lstat(s.path); err == nil {
		return // created concurrently
	}
	h := vfs.ParseLockHolder(string(text))
	if boot := s.fs.BootID(); boot != "" && h.Boot == boot && len(h.Logs) > 0 && !slices.Contains(h.Logs, noLog) {
		s.warn("%s and its log are missing; process %d used them last: restore both, or set another store with --db", s.path, h.PID)
	} else if _, err := s.fs.Lstat(s.path + idSuffix); err == nil {
		s.warn("%s and its log are missing, but the identity file %s exists: restore both, or set another store with --db", s.path, s.path+idSuffix)
	}
}

// keptCopy describes a copy that a writer kept.
type keptCopy string

func (name keptCopy) String() string {
	return string(name) + " is a copy of the store that a writer saved because another program changed the store's files"
}

const keptCopyFix = "compare it with the store, then move or remove it"

// warnOwn reports the copies that writers kept (FORMAT.md, V13).
func (s *Store) warnOwn(own []string) {
	s.ownNamed = true
	for _, name := range own {
		s.warn("%v: %s", keptCopy(name), keptCopyFix)
	}
}

// missingSnapshot returns an error if the snapshot is missing and other files
// show that it existed, else nil.
func missingSnapshot(fsys vfs.FS, path string, maxBytes int64) error {
	v := &files{}
	v.id, v.idErr = readIdentity(fsys, path)
	if err := v.findOthers(fsys, path, maxBytes); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if v.version != nil {
		return v.version
	}
	if len(v.own) > 0 {
		return fmt.Errorf("%w: %s is missing, but a writer saved its copy of the store to %s: rename that file to %s and run crabmem repair --keep-db",
			ErrForeign, path, v.own[len(v.own)-1], path)
	}
	if v.held != nil {
		return fmt.Errorf("%w: %s and its log are missing, but the second link %s of the log has %v: run crabmem repair",
			ErrForeign, path, v.held.path, opCount(len(v.held.ops)))
	}
	return nil
}

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
	if err := vfs.WriteFile(s.fs, name, 0o600, []byte(format.IdentityText(s.id))); err != nil {
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
