package sessionlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog/internal/line"
)

// DisplacedError reports that a name of a session does not lead to the file
// that a writer uses, or that the file has another length. It is ErrDisplaced.
type DisplacedError struct {
	Path string // the name
	Why  string // change by another program
	// Copy is the file that has the content of the writer's session file, ""
	// if there is no copy.
	Copy string
	// Lines is the file that has the last lines of the writer, "" if its session
	// file still contains them.
	Lines string
	// CopyErr is why Copy or Lines could not be written.
	CopyErr error
}

func (e *DisplacedError) Error() string {
	s := fmt.Sprintf("%s: another program %s", e.Path, e.Why)
	if e.Copy != "" {
		s += "; the content of the file that this process had open is in " + e.Copy
	}
	if e.Lines != "" {
		s += "; the last lines that this process wrote are in " + e.Lines
	}
	if e.CopyErr != nil {
		s += fmt.Sprintf("; the file that this process had open could not be copied: %v", e.CopyErr)
	}
	return s
}

// Is makes a DisplacedError an ErrDisplaced.
func (e *DisplacedError) Is(target error) bool { return target == ErrDisplaced }

// sessionLock is a held lock of a session.
type sessionLock struct {
	vfs.Locked
	path string
	info fs.FileInfo // of the locked file
}

// anyLength as the length of a file matches every length.
const anyLength = -1

// check returns a *DisplacedError if the lock's name or path does not lead to
// the locked file or to the file info, or if the latter does not have size
// bytes (FORMAT.md, S27).
func (d *Dir) check(lock *sessionLock, path string, info fs.FileInfo, size int64) error {
	if err := d.checkLock(lock); err != nil {
		return err
	}
	return d.checkFile(path, info, size)
}

// checkFile is check without the lock.
func (d *Dir) checkFile(path string, info fs.FileInfo, size int64) error {
	fi, err := d.checkName(path, info)
	if err == nil && size != anyLength && fi.Size() != size {
		err = &DisplacedError{Path: path, Why: fmt.Sprintf("changed its length from %d to %d bytes", size, fi.Size())}
	}
	return err
}

// checkLock is check for the lock alone.
func (d *Dir) checkLock(lock *sessionLock) error {
	_, err := d.checkName(lock.path, lock.info)
	return err
}

// checkFree returns a *DisplacedError if path exists or if the lock was
// displaced.
func (d *Dir) checkFree(lock *sessionLock, path string) error {
	if err := d.checkLock(lock); err != nil {
		return err
	}
	_, err := d.checkName(path, nil)
	return err
}

// checkName is vfs.CheckName with a *DisplacedError.
func (d *Dir) checkName(path string, info fs.FileInfo) (fs.FileInfo, error) {
	fi, changed, err := vfs.CheckName(d.fs, path, info)
	if changed != "" {
		return nil, &DisplacedError{Path: path, Why: changed}
	}
	return fi, err
}

// leadsTo reports whether path is a name of the file info. It returns false if
// the file system returns an error.
func (d *Dir) leadsTo(path string, info fs.FileInfo) bool {
	_, err := d.checkName(path, info)
	return err == nil
}

// check compares the names of an open session with its files, and keeps a copy
// on a difference. The caller holds l.mu.
func (l *Log) check(size int64) error {
	return l.keep(l.dir.check(l.open.lock, l.dir.file(l.name), l.open.info, size))
}

// holder returns the text for the lock file of an open session. Its file may
// also be one of others.
func (l *Log) holder(clean int64, others ...fs.FileInfo) vfs.LockHolder {
	h := l.dir.holder(clean)
	h.Inodes = inodes(append(others, l.open.info)...)
	return h
}

// inodes returns the inodes of files if the platform has inodes.
func inodes(infos ...fs.FileInfo) []uint64 {
	var list []uint64
	for _, info := range infos {
		if ino := vfs.Identify(info).Ino; ino != 0 {
			list = append(list, ino)
		}
	}
	return list
}

// report compares the file, of size bytes, with the lock text of the last
// writer in this boot (S29).
func (l *Log) report(before vfs.LockHolder, size int64) {
	path, now := l.dir.file(l.name), inodes(l.open.info)
	switch {
	case len(before.Inodes) > 0 && len(now) > 0 && !slices.Contains(before.Inodes, now[0]):
		l.dir.warn("%s is not the file that process %d (%s) wrote in this boot: another program replaced it", path, before.PID, before.Command)
	case before.Clean >= 0 && before.Clean != size:
		l.dir.warn("%s has %d bytes, but its last writer in this boot left %d: another program changed or replaced it", path, size, before.Clean)
	}
}

// verify is check after a write. An error stops the session and is ErrUnknown.
func (l *Log) verify() error {
	if err := l.check(l.size); err != nil {
		return l.unknown(err)
	}
	return nil
}

// verifyFile is verify without the lock. A write without a sync is not lost if
// only the lock changed.
func (l *Log) verifyFile() error {
	if err := l.keep(l.dir.checkFile(l.dir.file(l.name), l.open.info, l.size)); err != nil {
		return l.unknown(err)
	}
	return nil
}

// keep copies the file of an open session, and its last lines if the file does
// not contain them, to files that no program removes (S28), if err is a
// *DisplacedError without a copy. It returns err.
func (l *Log) keep(err error) error {
	e := unkept(err)
	if e == nil {
		return err
	}
	e.CopyErr = nil
	l.dir.keep(e, l.id, l.open.file)
	if w := &l.open.wrote; !w.isIn(l.open.file) && e.Lines == "" {
		var kerr error
		lines := w.lines()
		e.Lines, kerr = l.dir.keepBytes(l.id, "lines", bytes.NewReader(lines), int64(len(lines)))
		e.CopyErr = errors.Join(e.CopyErr, kerr)
	}
	return err
}

// unkept returns err as a *DisplacedError without a copy, nil if it is not one.
func unkept(err error) *DisplacedError {
	if e, ok := errors.AsType[*DisplacedError](err); ok && (e.Copy == "" || e.CopyErr != nil) {
		return e
	}
	return nil
}

// keep copies a session's file because of e.
func (d *Dir) keep(e *DisplacedError, id string, f vfs.File) {
	fi, err := f.Stat()
	if err == nil && e.Copy == "" {
		e.Copy, err = d.keepBytes(id, "kept", f, fi.Size())
	}
	e.CopyErr = errors.Join(e.CopyErr, err)
}

func (d *Dir) keepBytes(id, what string, r io.ReaderAt, size int64) (string, error) {
	sum, err := checksum(r, size)
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	clear(d.made) // the folders themselves may have been removed
	d.mu.Unlock()
	path, err := d.setAside(keptFolder, fmt.Sprintf("%s_%s-%08x", shortSlug(id, maxAside), what, sum), r, 0, size)
	if err != nil {
		return "", err
	}
	return path, nil
}

// Kept is a copy that a writer kept because another program changed its files.
type Kept struct {
	ID   string // of the session; shortened if it is very long
	Path string
}

// Kept returns the copies that writers of a session, or of any session if id is
// empty, kept (S28), in order of their names.
func (d *Dir) Kept(id string) ([]Kept, error) {
	names, err := d.names(d.folder(keptFolder))
	var all []Kept
	for _, name := range names {
		if of := keptID(name); id == "" || of == shortSlug(id, maxAside) {
			all = append(all, Kept{of, filepath.Join(d.folder(keptFolder), name)})
		}
	}
	return all, err
}

// keptID returns the id in the name of a kept copy.
func keptID(name string) string {
	i := max(strings.LastIndex(name, "_kept-"), strings.LastIndex(name, "_lines-"))
	if i < 0 {
		return strings.TrimSuffix(name, nameExt)
	}
	return name[:i]
}

// warnKept reports the kept copies of a session that is opened (S28).
func (d *Dir) warnKept(id string) {
	kept, err := d.Kept(id)
	if err != nil {
		d.warn("list the kept copies of %s: %v", id, err)
	}
	for _, k := range kept {
		d.warn("%s is a copy that a writer of session %s kept because another program changed its files: compare it with the session, then move or remove it", k.Path, id)
	}
}

// explain adds the kept copies and the recorded state of the lock file to an
// ErrNotFound of a session in the folder (S28, S29).
func (d *Dir) explain(id string, err error) error {
	id = strings.TrimSuffix(id, nameExt)
	if !errors.Is(err, ErrNotFound) || !validID(id) {
		return err
	}
	if kept, _ := d.Kept(id); len(kept) > 0 {
		paths := make([]string, len(kept))
		for i, k := range kept {
			paths[i] = k.Path
		}
		return fmt.Errorf("%w; another program changed the session's files, and a writer saved a copy in %s: compare the copy, then move or remove it", err, strings.Join(paths, ", "))
	}
	if name := d.named(d.path, id); name != "" {
		if _, rerr := d.readMetaLine(d.file(name)); errors.Is(rerr, fs.ErrPermission) {
			return fmt.Errorf("%w; a file that may be this session is unreadable: %v", err, rerr)
		}
		return err
	}
	text, rerr := vfs.ReadFile(d.fs, d.lockPath(id), 1<<16)
	h := vfs.ParseLockHolder(string(text))
	if rerr != nil || h.Boot == "" || h.Boot != d.fs.BootID() || d.named(d.folder(trashFolder), id) != "" {
		return err
	}
	if h.Clean >= 0 {
		return fmt.Errorf("%w; lock file %s, written since the last boot, records a session of %d bytes: another program removed or renamed the session file", err, d.lockPath(id), h.Clean)
	}
	return fmt.Errorf("%w; lock file %s, written since the last boot, records process %d (%s), which did not close the session", err, d.lockPath(id), h.PID, h.Command)
}

// named returns the first file of a folder that may be a session's by its name.
func (d *Dir) named(folder, id string) string {
	names, _ := d.names(folder)
	for _, name := range names {
		if stem := strings.TrimSuffix(name, nameExt); stem == id || strings.HasPrefix(stem, id+"_") {
			return name
		}
	}
	return ""
}

// written has the last lines that a process wrote to a session, in two
// alternating buffers.
type written struct {
	end  int64 // offset after the last of them
	last []byte
	cur  []byte // follows last
}

// maxWritten is how many bytes of lines a process remembers at least, if it
// wrote as many; at most twice that.
const maxWritten = 32 << 10

// add adds lines at an offset.
func (w *written) add(from int64, b []byte) {
	w.end = from + int64(len(b))
	if len(w.cur)+len(b) > maxWritten {
		w.last, w.cur = w.cur, w.last[:0]
	}
	if len(b) > maxWritten {
		w.last, w.cur = nil, nil
		return
	}
	w.cur = append(w.cur, b...)
}

func (w *written) lines() []byte { return slices.Concat(w.last, w.cur) }

// isIn reports whether a file contains the lines where they were written.
func (w *written) isIn(f io.ReaderAt) bool {
	lines := w.lines()
	b := make([]byte, len(lines))
	return line.ReadFull(f, b, w.end-int64(len(b))) == nil && bytes.Equal(b, lines)
}
