package sessionlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog/internal/feed"
	"crabmem/sessionlog/internal/line"
)

// Item is one line of a transcript to import: a summary if Marker is set, else
// a message.
type Item struct {
	Message Message
	Marker  bool
	Summary string
}

// ImportResult is the result of an import. At most one of Created, Updated, and
// Older is set. If none is, the session already has this content.
type ImportResult struct {
	ID      string // of the session; empty if a dry import would create it
	Created bool   // the session is new
	Updated bool   // the session was replaced by the transcript
	Older   bool   // the session has more texts than the transcript and does not change
	// DiffersFrom is the ID of another session of the source, if Created is set and
	// neither has all texts of the other.
	DiffersFrom string
}

type outcome uint8

const (
	unchanged outcome = iota
	created
	updated
	older
	differs // of another session of the source, which does not change
)

// Import is [Importer.Import] of one transcript. changed reports whether the
// session changed. To import many, use an [Importer], which reads the folder
// once.
func (d *Dir) Import(m Meta, items []Item) (id string, changed bool, err error) {
	im, err := d.NewImporter(false)
	if err != nil {
		return "", false, err
	}
	r, err := im.Import(m, items)
	if err = errors.Join(err, im.Close()); err != nil {
		return "", false, err
	}
	return r.ID, r.Created || r.Updated, nil
}

// An Importer imports transcripts in sequence. While it is open, no other
// process imports into the folder or restores imported sessions. It is not safe
// for concurrent use.
type Importer struct {
	d    *Dir
	lock *sessionLock // nil for a dry Importer

	names, trashed, leftovers []string               // of the folder, when it was listed
	known                     map[string]*importedBy // by prefix, current; nil before the first listing
	plans                     map[string][]plan      // of a dry Importer, by source
}

// importedBy are the sessions that begin with a prefix.
type importedBy struct {
	sources map[string][]string // names of the files by source
	top     uint64              // the highest number
}

// importLock is no session's id.
const importLock = ".import"

// NewImporter locks the folder for imports and lists it once. A dry Importer
// changes nothing and returns what an import would do. Errors: *[vfs.LockedError]
// and the system's.
func (d *Dir) NewImporter(dry bool) (*Importer, error) {
	im := &Importer{d: d, plans: make(map[string][]plan)}
	if !dry {
		var err error
		if im.lock, _, _, err = d.acquire(importLock, d.opts.LockWait); err != nil {
			return nil, err
		}
	}
	return im, nil
}

// Close releases the lock, so that other processes can import.
func (im *Importer) Close() error {
	if im.lock == nil {
		return nil
	}
	return im.lock.Unlock()
}

// Import creates or replaces a session of another program's transcript. The session is
// read-only. Importing a transcript again replaces its session or changes nothing.
//
// Import compares texts: the paragraphs of messages and summaries, and the calls. It
// replaces a session only if the transcript has all texts of the session in this order,
// and changes nothing if the session has all of the transcript. If no session of the
// source is such a copy, because two programs continued the transcript or because it was
// edited, Import creates another session of this source.
//
// A purged or redacted text equals every text. A session of which a text was purged does
// not change unless the transcript has more.
//
// Errors: [ErrInvalid], [ErrNotApplied], [ErrUnknown], *[vfs.LockedError], and
// the system's.
func (im *Importer) Import(m Meta, items []Item) (ImportResult, error) {
	text, err := im.d.importText(&m, items)
	if err != nil {
		return ImportResult{}, err
	}
	t := transcript{meta: &m, items: items, text: text}
	for try := 1; ; try++ {
		r, err := im.one(&t)
		if !errors.Is(err, fs.ErrNotExist) {
			return r, err
		}
		if try == maxMoves {
			return ImportResult{}, err
		}
		im.known, im.plans = nil, make(map[string][]plan)
	}
}

// transcript is a transcript to import.
type transcript struct {
	meta  *Meta
	items []Item
	text  []byte // the lines of its session

	compared bool
	list     []part
}

// parts returns the parts of the transcript.
func (t *transcript) parts() []part {
	if !t.compared {
		t.compared = true
		for i := range t.items {
			t.list = appendParts(t.list, &t.items[i])
		}
	}
	return t.list
}

// importText returns the lines of a session that is imported.
func (d *Dir) importText(m *Meta, items []Item) ([]byte, error) {
	if m.Source == "" {
		return nil, fmt.Errorf("%w: import has no source", ErrInvalid)
	}
	if err := checkMeta(m); err != nil {
		return nil, err
	}
	text := line.AppendMeta(nil, m)
	for i := range items {
		start := len(text)
		if it := &items[i]; it.Marker {
			text = line.AppendMarker(text, it.Summary)
		} else if err := checkMessage(&it.Message); err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		} else {
			text = line.AppendMessage(text, &it.Message)
		}
		if n := int64(len(text) - start - 1); n > d.opts.MaxLine {
			return nil, fmt.Errorf("item %d: %w", i+1, d.tooLong("item", n))
		}
	}
	return text, nil
}

func (im *Importer) one(t *transcript) (r ImportResult, err error) {
	by, err := im.by(t.meta)
	if err != nil {
		return r, err
	}
	source := t.meta.Source
	if im.lock == nil {
		return im.dry(by.sources[source], t)
	}
	for i, name := range by.sources[source] {
		id, o, written, err := im.into(name, t)
		if o != differs || err != nil {
			if err == nil {
				by.sources[source][i] = written
			}
			return ImportResult{ID: id, Updated: o == updated, Older: o == older}, err
		}
		r.DiffersFrom = id
	}
	lock, id, err := im.claim(by, t.meta)
	if err != nil {
		return ImportResult{}, err
	}
	r.ID, r.Created = id, true
	written, err := im.put(id, fileName(id, t.meta.Title), "", nil, t.text, lock)
	if err == nil {
		by.sources[source] = append(by.sources[source], written)
	}
	return r, errors.Join(err, lock.Unlock())
}

// into imports a transcript into the session in a file, unless its texts differ. It
// returns the session's ID, and the name of its file after the import.
func (im *Importer) into(name string, t *transcript) (id string, o outcome, written string, err error) {
	d := im.d
	id, _ = idOf(name, t.meta)
	lock, before, _, err := d.acquire(id, d.opts.LockWait)
	if err != nil {
		return "", 0, name, err
	}
	o, info, err := d.compare(id, name, t)
	to, text := fileName(id, t.meta.Title), t.text
	write := o == updated
	if err == nil && !write && o != differs && d.maybeUnsynced(before, info.Size()) {
		write, to = true, name
		text, err = vfs.ReadFile(d.fs, d.file(name), info.Size())
		o = updated // the session's content decides
	}
	if err == nil && write {
		name, err = im.put(id, to, name, info, text, lock)
	}
	return id, o, name, errors.Join(err, lock.Unlock())
}

// compare returns the outcome of an import into the session in a file: updated,
// unchanged, older, or differs.
func (d *Dir) compare(id, name string, t *transcript) (o outcome, info fs.FileInfo, err error) {
	f, err := d.fs.Open(d.file(name))
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return 0, nil, err
	}
	size := info.Size()
	if size == int64(len(t.text)) {
		old := make([]byte, size)
		if err := line.ReadFull(f, old, 0); err != nil {
			return 0, info, err
		}
		if bytes.Equal(old, t.text) && name == fileName(id, t.meta.Title) {
			return unchanged, info, nil
		}
	}
	o, err = compareWith(t.parts(), f, size, d.opts.MaxLine)
	return o, info, err
}

// put writes a complete session and returns its name. It replaces the file old,
// which is info, if that exists.
func (im *Importer) put(id, name, old string, info fs.FileInfo, text []byte, lock *sessionLock) (string, error) {
	d := im.d
	if err := lock.SetText(d.holder(-1).Text()); err != nil {
		return "", err
	}
	d.remove(id, im.leftovers)
	// Replace the text before the name: a crash between the two must not leave
	// two files of one id.
	first := name
	if old != "" {
		first = old
	}
	err := d.replace(d.file(first), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}, func(p vfs.Pending) (err error) {
		if old == "" {
			err = d.checkFree(lock, d.file(first))
		} else {
			err = d.check(lock, d.file(first), info, info.Size())
		}
		if err == nil {
			info, err = p.Stat()
		}
		return err
	})
	if err == nil {
		if name, err = d.rename(lock, first, name, info, int64(len(text))); err != nil {
			err = fmt.Errorf("%w: %w", ErrUnknown, err)
		}
	}
	if err != nil {
		im.known = nil // the folder's content is unknown
		return "", err
	}
	_ = lock.SetText(d.holder(int64(len(text))).Text()) // without this text the next opener does not trust the file (S21)
	d.notify(func(w feed.Watcher) { w.Removed(old); w.Changed(name) })
	return name, nil
}

// claim is [Dir.claim] with the numbers of the listing.
func (im *Importer) claim(by *importedBy, m *Meta) (*sessionLock, string, error) {
	d := im.d
	prefix := prefixOf(m.Agent, m.CreatedBy)
	id := prefix + strconv.FormatUint(by.top+1, 10)
	lock, _, ours, err := d.acquire(id, 0)
	switch {
	case err == nil:
		if _, err := d.fs.Lstat(d.file(id + nameExt)); errors.Is(err, fs.ErrNotExist) && !ours {
			// The lock file is new, so no writer of this implementation created
			// the session since the listing. The reference implementation did
			// not either.
			by.top++
			return lock, id, nil
		}
		if err := lock.Unlock(); err != nil {
			return nil, "", err
		}
	case !errors.Is(err, vfs.ErrLocked):
		return nil, "", err
	}
	if lock, id, err = d.claim(m.Agent, m.CreatedBy); err == nil {
		by.top, _ = seqOf(prefix, id+nameExt)
	}
	return lock, id, err
}

// list reads the folder.
func (im *Importer) list() (err error) {
	im.names, im.leftovers, err = im.d.listFolder(im.d.path)
	if err == nil {
		im.trashed, err = im.d.names(im.d.folder(trashFolder))
	}
	if err == nil {
		im.known = make(map[string]*importedBy)
	}
	return err
}

// by returns the sessions of an agent and a sender. Meta lines do not change:
// each is read once.
func (im *Importer) by(m *Meta) (*importedBy, error) {
	if im.known == nil {
		if err := im.list(); err != nil {
			return nil, err
		}
	}
	prefix := prefixOf(m.Agent, m.CreatedBy)
	if by := im.known[prefix]; by != nil {
		return by, nil
	}
	by := &importedBy{sources: make(map[string][]string)}
	for _, name := range im.trashed {
		if seq, ok := seqOf(prefix, name); ok {
			by.top = max(by.top, seq)
		}
	}
	for _, name := range im.names {
		seq, ok := seqOf(prefix, name)
		if !ok {
			continue
		}
		by.top = max(by.top, seq)
		got, err := im.d.readMetaLine(im.d.file(name))
		switch {
		case errors.Is(err, ErrFormat), errors.Is(err, vfs.ErrNotRegular), errors.Is(err, fs.ErrNotExist):
			continue // without a source, or removed
		case err != nil:
			return nil, err // the session may be of this source; a second one must not be created
		case got.Source != "":
			by.sources[got.Source] = append(by.sources[got.Source], name)
		}
	}
	im.known[prefix] = by
	return by, nil
}
