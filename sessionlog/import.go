package sessionlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"crabmem/crmem/vfs"
)

// Item is one line of a transcript to import: a summary when Marker is set,
// else a message.
type Item struct {
	Message Message
	Marker  bool
	Summary string
}

// Import makes a session of another program's transcript, which is never
// written to again. There is one session for a source: importing it again
// changes nothing, or replaces the session when the transcript has changed
// since. changed reports whether anything was written.
//
// Errors: [ErrInvalid], [ErrNotApplied], [ErrUnknown], *[vfs.LockedError], and
// the system's.
func (d *Dir) Import(m Meta, items []Item) (id string, changed bool, err error) {
	text, err := d.importText(&m, items)
	if err != nil {
		return "", false, err
	}
	// One import at a time, so that a source is found by the next.
	all, _, _, err := d.acquire(importLock, d.opts.LockWait)
	if err != nil {
		return "", false, err
	}
	id, changed, err = d.importLocked(&m, text)
	return id, changed, errors.Join(err, all.Unlock())
}

// WouldImport tells what Import would do, and does nothing. The id is empty when
// Import would make a new session. Errors: [ErrInvalid] and the system's.
func (d *Dir) WouldImport(m Meta, items []Item) (id string, changes bool, err error) {
	text, err := d.importText(&m, items)
	if err != nil {
		return "", false, err
	}
	name, err := d.bySource(&m)
	if err != nil || name == "" {
		return "", err == nil, err
	}
	id, _ = idOf(name, &m)
	return id, !d.imported(id, name, &m, text), nil
}

// importText returns the lines of a session that is imported.
func (d *Dir) importText(m *Meta, items []Item) ([]byte, error) {
	if m.Source == "" {
		return nil, fmt.Errorf("%w: an import without a source", ErrInvalid)
	}
	if err := checkMeta(m); err != nil {
		return nil, err
	}
	text := AppendMeta(nil, m)
	for i := range items {
		start := len(text)
		if it := &items[i]; it.Marker {
			text = AppendMarker(text, it.Summary)
		} else if err := checkMessage(&it.Message); err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		} else {
			text = AppendMessage(text, &it.Message)
		}
		if n := int64(len(text) - start - 1); n > d.opts.MaxLine {
			return nil, fmt.Errorf("item %d: %w", i+1, d.tooLong("item", n))
		}
	}
	return text, nil
}

// imported tells whether a file is what an import would write, and is called so.
func (d *Dir) imported(id, name string, m *Meta, text []byte) bool {
	if name != fileName(id, m.Title) {
		return false
	}
	old, err := vfs.ReadFile(d.fs, d.file(name), max(1<<20, 2*int64(len(text))))
	return err == nil && bytes.Equal(old, text)
}

// importLock is no session's id.
const importLock = ".import"

func (d *Dir) importLocked(m *Meta, text []byte) (id string, changed bool, err error) {
	name, err := d.bySource(m)
	if err != nil {
		return "", false, err
	}
	if name == "" {
		lock, id, err := d.claim(m.Agent, m.CreatedBy)
		if err != nil {
			return "", false, err
		}
		return id, true, errors.Join(d.put(id, fileName(id, m.Title), "", text, lock), lock.Unlock())
	}
	id, _ = idOf(name, m)
	lock, before, _, err := d.acquire(id, d.opts.LockWait)
	if err != nil {
		return "", false, err
	}
	if d.imported(id, name, m, text) && !d.doubtful(before, int64(len(text))) {
		return id, false, lock.Unlock()
	}
	return id, true, errors.Join(d.put(id, fileName(id, m.Title), name, text, lock), lock.Unlock())
}

// put writes a whole session, in the place of the file old if there is one.
func (d *Dir) put(id, name, old string, text []byte, lock vfs.Locked) error {
	if err := lock.SetText(d.holder(-1).Text()); err != nil {
		return err
	}
	d.sweep(id)
	// First the text, then the name: a crash in between must not leave two files
	// of one id.
	first := name
	if old != "" {
		first = old
	}
	err := d.replace(d.file(first), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err == nil {
		name = d.rename(first, name)
	}
	if err == nil {
		_ = lock.SetText(d.holder(int64(len(text))).Text()) // what is not said is not trusted (S21)
	}
	if x := d.index.Load(); err == nil && x != nil {
		x.removed(old)
		x.changed(name)
	}
	return err
}

// bySource returns the file that was imported from a source, "" when there is
// none. Meta lines do not change: each is read once.
func (d *Dir) bySource(m *Meta) (string, error) {
	names, err := d.names(d.path)
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	prefix := prefixOf(m.Agent, m.CreatedBy)
	sources := make(map[string]string)
	found := ""
	for _, name := range names {
		if _, ok := seqOf(prefix, name); !ok {
			continue
		}
		source, known := d.sources[name]
		if !known {
			got, err := d.readMetaLine(d.file(name))
			switch {
			case errors.Is(err, ErrFormat), errors.Is(err, vfs.ErrNotRegular), errors.Is(err, fs.ErrNotExist):
				continue // of no source, or gone
			case err != nil:
				return "", err // it may be of this one: another would be two
			}
			source = got.Source
		}
		sources[name] = source
		if source == m.Source {
			found = name
		}
	}
	d.sources = sources
	return found, nil
}
