package sessionlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog/internal/feed"
	"crabmem/sessionlog/internal/line"
	"crabmem/sessionlog/record"
)

// Create creates a session and opens it. No other process uses the ID. If
// m.CreatedAt is empty, Create sets the current time. If Create returns nil, the
// session is on disk.
//
// Errors: [ErrInvalid], [ErrNotApplied], [ErrUnknown], and the system's.
func (d *Dir) Create(m Meta) (*Log, error) {
	if m.Source != "" {
		return nil, fmt.Errorf("%w: session with a source must be imported", ErrInvalid)
	}
	if m.CreatedAt == "" {
		m.CreatedAt = record.Timestamp(d.opts.Now())
	}
	if err := checkMeta(&m); err != nil {
		return nil, err
	}
	l := &Log{dir: d, meta: m, shaped: true, refs: 1}
	l.mu.Lock()
	defer l.mu.Unlock()
	lock, id, err := d.claim(m.Agent, m.CreatedBy)
	if err != nil {
		return nil, err
	}
	l.id, l.name = id, fileName(id, m.Title)
	if err := l.create(lock); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	if _, err := d.enlist(l); err != nil {
		return nil, errors.Join(err, l.closeFiles())
	}
	d.touch(l)
	d.notify(func(w feed.Watcher) { w.Changed(l.name) })
	return l, nil
}

func checkMeta(m *Meta) error {
	for _, s := range []string{m.Agent, m.CreatedBy, m.CreatedAt, m.Source, m.Project, m.Parent, m.Workspace} {
		if !utf8.ValidString(s) || len(s) > maxTitle {
			return fmt.Errorf("%w: agent, sender, time, source, project, parent, and workspace must be UTF-8 of at most %d bytes", ErrInvalid, maxTitle)
		}
	}
	if !utf8.ValidString(m.Request) || len(m.Request) > MaxRequest {
		return fmt.Errorf("%w: the ID of a request must be UTF-8 of at most %d bytes", ErrInvalid, MaxRequest)
	}
	if m.Agent == "" || m.CreatedBy == "" {
		return fmt.Errorf("%w: agent and sender must not be empty", ErrInvalid)
	}
	return validTitle(m.Title)
}

// claim finds a number that no session of an agent and a sender has or had, in
// the folder or the trash. It returns the id with the lock on it.
func (d *Dir) claim(agent, createdBy string) (*sessionLock, string, error) {
	prefix := prefixOf(agent, createdBy)
	// The reference implementation does not make a slug of the agent.
	reference := agent + "_" + slugOf(createdBy) + "_"
	seq := uint64(1)
	for {
		top, err := d.topSeq(prefix, reference)
		if err != nil {
			return nil, "", err
		}
		seq = max(seq, top+1)
		id := prefix + strconv.FormatUint(seq, 10)
		lock, _, _, err := d.acquire(id, 0)
		if errors.Is(err, vfs.ErrLocked) { // another process is creating it
			seq++
			continue
		}
		if err != nil {
			return nil, "", err
		}
		// The previous lock holder may have created the session and given it a
		// title.
		if top, err = d.topSeq(prefix, reference); err == nil && top < seq {
			return lock, id, nil
		}
		if err := errors.Join(err, lock.Unlock()); err != nil {
			return nil, "", err
		}
	}
}

// topSeq returns the highest number of the prefixes in the folder, the trash,
// and the kept copies.
func (d *Dir) topSeq(prefixes ...string) (uint64, error) {
	top := uint64(0)
	for _, folder := range []string{d.path, d.folder(trashFolder), d.folder(keptFolder)} {
		names, err := d.names(folder)
		if err != nil {
			return 0, err
		}
		for _, name := range names {
			for _, prefix := range prefixes {
				if seq, ok := seqOf(prefix, name); ok {
					top = max(top, seq)
				}
			}
		}
	}
	return top, nil
}

// create writes the file with its meta line and opens it. The caller holds the
// lock.
func (l *Log) create(lock *sessionLock) error {
	d := l.dir
	// A crash from here on leaves a file that was not acknowledged, or a
	// temporary one.
	if err := lock.SetText(d.holder(-1).Text()); err != nil {
		return err
	}
	d.sweep(l.id)
	text := line.AppendMeta(nil, &l.meta)
	path := d.file(l.name)
	var info fs.FileInfo
	err := d.replace(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}, func(p vfs.Pending) (err error) {
		if info, err = p.Stat(); err != nil {
			return err
		}
		held := d.holder(-1)
		held.Inodes = inodes(info)
		if err := lock.SetText(held.Text()); err != nil {
			return err
		}
		return d.checkFree(lock, path)
	})
	if err != nil {
		return err
	}
	f, err := d.fs.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if err := d.check(lock, path, info, int64(len(text))); err != nil {
		if err = errors.Join(err, f.Close()); errors.Is(err, ErrDisplaced) {
			err = fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		return err
	}
	l.open = &openFiles{file: f, info: info, lock: lock, dirty: true}
	l.open.wrote.add(0, text)
	l.size, l.synced, l.workKnown = int64(len(text)), true, true
	return nil
}

// replace is vfs.ReplaceChecked. Its error is ErrUnknown if the file may have
// been replaced.
func (d *Dir) replace(path string, write func(io.Writer) error, check func(vfs.Pending) error) error {
	before, known := d.identify(path)
	err := vfs.ReplaceChecked(d.fs, path, 0o600, write, check)
	if err == nil {
		return nil
	}
	if after, seen := d.identify(path); known && seen && after == before {
		return fmt.Errorf("%w: %s: %w", ErrNotApplied, path, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnknown, path, err)
}

// identify returns the identity of the file with a name, or the zero Identity
// if there is no file. It returns false if the identity cannot be determined.
func (d *Dir) identify(path string) (vfs.Identity, bool) {
	fi, err := d.fs.Lstat(path)
	if err != nil {
		return vfs.Identity{}, errors.Is(err, fs.ErrNotExist)
	}
	return vfs.Identify(fi), true
}

// readMetaLine reads the first line of a session file. With an error it returns
// an empty Meta.
func readMetaLine(r io.ReaderAt, path string) (Meta, error) {
	m, _, err := readFirstLine(r, path)
	return m, err
}

// readFirstLine returns the meta line, decoded and as it is.
func readFirstLine(r io.ReaderAt, path string) (m Meta, text string, err error) {
	b := make([]byte, 1<<10)
	for {
		n, err := r.ReadAt(b, 0)
		first, _, complete := strings.Cut(string(b[:n]), "\n")
		if complete || n < len(b) || len(b) >= maxMetaLine {
			if n < len(b) && err != nil && err != io.EOF {
				return Meta{}, "", err
			}
			var rec line.Record
			rec.Decode([]byte(first), true)
			msg := "no meta line"
			if rec.Kind == record.KindBad {
				msg += ": " + rec.Reason()
				if found := line.Pieces(nil, []byte(first), true); len(found) > 0 && found[0].Lo == 0 {
					rec.Decode([]byte(first)[:found[0].Hi], true)
				}
			}
			if rec.Kind == record.KindMeta {
				return rec.Meta(), first, nil
			}
			return Meta{}, "", &record.FormatError{Path: path, Line: 1, Msg: msg}
		}
		b = make([]byte, 4*len(b))
	}
}

// Delete moves a session into the trash. [Dir.Restore] restores it. An open
// session cannot be deleted. Errors: [ErrNotFound], [ErrExists] if the trash
// has another session of the id, [ErrNotApplied], [ErrUnknown],
// *[vfs.LockedError], and the system's.
func (d *Dir) Delete(id string) error {
	return d.move(d.path, d.folder(trashFolder), id, feed.Watcher.Removed)
}

// Restore moves a session from the trash back. Errors: [ErrNotFound],
// [ErrExists] if the folder has another session of the id or the file name,
// [ErrNotApplied], [ErrUnknown], *[vfs.LockedError], and the system's.
func (d *Dir) Restore(id string) error {
	return d.move(d.folder(trashFolder), d.path, id, feed.Watcher.Changed)
}

// move durably renames a session's file from one folder into another.
func (d *Dir) move(from, to, id string, tell func(w feed.Watcher, name string)) error {
	return d.located(from, id, func(name string) error { return d.moveFile(from, to, name, tell) })
}

func (d *Dir) moveFile(from, to, name string, tell func(w feed.Watcher, name string)) (err error) {
	m, err := d.readMetaLine(filepath.Join(from, name))
	if err != nil && !errors.Is(err, ErrFormat) {
		return err
	}
	id, _ := idOf(name, &m)
	if err := d.makeFolder(to); err != nil {
		return err
	}
	if m.Source != "" && to == d.path {
		// Whoever imports it again must not miss it.
		all, _, _, busy := d.acquire(importLock, d.opts.LockWait)
		if busy != nil {
			return busy
		}
		defer func() { err = errors.Join(err, all.Unlock()) }()
	}
	lock, before, ours, err := d.acquire(id, d.opts.LockWait)
	if err != nil {
		return err
	}
	fi, err := d.fs.Lstat(filepath.Join(from, name))
	if err != nil {
		return errors.Join(err, lock.Unlock())
	}
	// If this process is killed, the next opener must not trust the visible
	// location to be durable (S21).
	held := d.holder(-1)
	held.Torn = d.cut(before, ours, fi.Size())
	if before.Boot == held.Boot {
		held.Inodes = before.Inodes
	}
	err = lock.SetText(held.Text())
	if err == nil {
		err = d.moveLocked(lock, fi, filepath.Join(from, name), filepath.Join(to, name), id)
	}
	if err == nil && before.Clean == fi.Size() {
		held.Clean, held.Torn = before.Clean, false
		_ = lock.SetText(held.Text()) // without this text the next opener does not trust the file
	}
	if err == nil {
		d.notify(func(w feed.Watcher) { tell(w, name) })
	}
	return errors.Join(err, lock.Unlock())
}

// moveLocked renames the file info of a session. The caller holds the session's
// lock.
func (d *Dir) moveLocked(lock *sessionLock, info fs.FileInfo, from, to, id string) error {
	if other, err := d.find(filepath.Dir(to), id); err == nil {
		return fmt.Errorf("%w: %s", ErrExists, filepath.Join(filepath.Dir(to), other))
	} else if !errors.Is(err, ErrNotFound) {
		return err
	}
	if _, err := d.fs.Lstat(to); err == nil {
		return fmt.Errorf("%w: %s", ErrExists, to)
	}
	if err := d.check(lock, from, info, info.Size()); err != nil {
		return fmt.Errorf("%w: %w", ErrNotApplied, err)
	}
	if err := d.fs.Rename(from, to); err != nil {
		return err
	}
	sync := func() error { return errors.Join(d.fs.SyncDir(filepath.Dir(to)), d.fs.SyncDir(filepath.Dir(from))) }
	err := sync()
	if err == nil {
		return nil
	}
	// A later sync would succeed without the change, so undo it.
	back := d.check(lock, to, info, info.Size())
	if back == nil {
		back = d.checkFree(lock, from)
	}
	if back == nil {
		back = d.fs.Rename(to, from)
	}
	if back != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnknown, to, errors.Join(err, back))
	}
	if back := sync(); back != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnknown, from, errors.Join(err, back))
	}
	return fmt.Errorf("%w: %s: %w", ErrNotApplied, from, err)
}
