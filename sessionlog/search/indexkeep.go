package search

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"crabmem/bm25"
	"crabmem/crmem/vfs"
)

// The folder passes the bytes of each write of this process to the index, in
// the order of the writes. The same code reads them and files. If a write does
// not continue the known part, the index reads the file from the last position,
// so a callback never fails.

// A watcher is an index as its folder sees it.
type watcher struct{ *Index }

// fileExt ends the name of a session file.
const fileExt = ".jsonl"

// forgetAtOnce is how many documents are removed before searches get a turn.
const forgetAtOnce = 1 << 10

// Wrote implements feed.Watcher: complete lines were written at an offset of a
// file.
func (x watcher) Wrote(name string, at int64, b []byte) {
	x.mu.Lock()
	if x.notYet() {
		x.mu.Unlock()
		return
	}
	e := x.byName[name]
	if e == nil || e.pos.end != at || at == 0 {
		// Not read so far, or read after it was written, or cut since.
		x.mu.Unlock()
		x.update(name)
		return
	}
	defer x.mu.Unlock()
	r := &x.writes
	r.begin(e)
	r.written(b)
	x.add(e, r)
	e.size, e.mtime, e.modified = r.pos.end, time.Time{}, x.folder.Now()
	if len(b) > arenaSize {
		x.writes = indexReader{tools: x.tools} // release the memory of a large write
	}
}

// notYet reports whether NewIndex is still building. It then records that a
// change arrived, which the build applies at its end. The caller holds mu.
func (x *Index) notYet() bool {
	x.late = x.late || x.building
	return x.building || x.closed
}

// Renamed implements feed.Watcher: a file was renamed.
func (x watcher) Renamed(from, to string) {
	x.mu.Lock()
	e := x.byName[from]
	done := x.notYet() || e != nil && x.rename(e, to)
	x.mu.Unlock()
	if !done {
		x.Removed(from)
		x.Changed(to)
	}
}

// rename changes the file name of an entry, unless another entry has that name
// or the id differs. The caller holds mu.
func (x *Index) rename(e *entry, to string) bool {
	rest, ok := strings.CutPrefix(to, e.id)
	if !ok || !e.shaped || rest != fileExt && !strings.HasPrefix(rest, "_") || x.byName[to] != nil {
		return false
	}
	x.removals++
	delete(x.byName, e.name)
	e.name = to
	x.byName[to] = e
	x.ordered = x.ordered && x.inOrder(e)
	if x.newest.compare(e) < 0 {
		x.newest = e // the last entries were removed
	}
	return true
}

// inOrder reports whether an entry is in order with its neighbors. If two files
// have one id, their names decide. The caller holds mu.
func (x *Index) inOrder(e *entry) bool {
	for _, before := range slices.Backward(x.entries[:e.ord]) {
		if before != nil {
			if before.compare(e) > 0 {
				return false
			}
			break
		}
	}
	for _, next := range x.entries[e.ord+1:] {
		if next != nil {
			return e.compare(next) < 0
		}
	}
	return true
}

// Removed implements feed.Watcher: a file was removed.
func (x watcher) Removed(name string) {
	x.mu.Lock()
	x.notYet()
	x.removals++
	delete(x.unread, name)
	e := x.byName[name]
	x.mu.Unlock()
	if e != nil {
		x.forget(e)
	}
}

// Changed implements feed.Watcher: a file has content that was not passed to
// the index.
func (x watcher) Changed(name string) {
	x.mu.Lock()
	later := x.notYet()
	x.mu.Unlock()
	if !later {
		x.update(name)
	}
}

// update reads the new part of a file.
func (x *Index) update(name string) {
	r := &indexReader{tools: x.tools}
	for x.advance(name, r) {
	}
}

// advance reads a portion of the new part of a file and reports whether more
// may follow.
func (x *Index) advance(name string, r *indexReader) bool {
	x.mu.RLock()
	e, gone, closed := x.byName[name], x.removals, x.closed
	var known entry
	if e != nil {
		known = *e
	}
	x.mu.RUnlock()
	if closed {
		return false
	}
	f, err := x.folder.FS.Open(x.file(name))
	if err != nil {
		return x.lost(name, e, gone, err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return x.lost(name, e, gone, err)
	}
	now := describe(name, fi)
	if e != nil && !known.continues(f, now) {
		x.forget(e)
		return true
	}
	r.begin(nil)
	if e != nil {
		r.begin(&known)
	}
	err = r.file(f, now.size, x.folder.MaxLine, maxTexts)
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.byName[name] != e || e != nil && e.pos != known.pos || x.removals != gone:
		return true // written concurrently
	case err != nil:
		x.unread[name] = err
		return false
	case e == nil:
		e = x.newEntry(r, now)
		x.enter(e)
	}
	x.add(e, r)
	delete(x.unread, name)
	e.read(r, now)
	return r.more
}

// continues reports whether the file begins with the part that was read.
func (e *entry) continues(f vfs.File, now listed) bool {
	if now.size < e.pos.end || e.pos.end == 0 || e.ident != (vfs.Identity{}) && e.ident != now.ident {
		return false
	}
	if now.size == e.size && !e.mtime.IsZero() && !e.mtime.Equal(now.mtime) {
		return false // written over
	}
	return e.pos.first.matches(f) && e.pos.last.matches(f)
}

// lost handles a file that cannot be opened. It reports whether to try again,
// because the folder reported a change of the file concurrently.
func (x *Index) lost(name string, e *entry, gone uint64, err error) bool {
	x.mu.Lock()
	if x.byName[name] != e || x.removals != gone {
		x.mu.Unlock()
		return true
	}
	delete(x.byName, name)
	if errors.Is(err, fs.ErrNotExist) {
		delete(x.unread, name)
	} else {
		x.unread[name] = err
	}
	x.mu.Unlock()
	if e != nil {
		x.forget(e)
	}
	return false
}

// enter assigns an ordinal to an entry. The caller holds mu.
func (x *Index) enter(e *entry) {
	x.insert(e)
	x.describe(e)
}

// describe adds the document of the session itself. The caller holds mu.
func (x *Index) describe(e *entry) {
	if e.counts[classSession] == 0 {
		e.counts[classSession]++
		x.counts[classSession]++
	}
	x.docs.Add(bm25.Doc{ID: e.doc(-1), Class: classSession, Fields: []string{e.head()}})
	x.texts.add(e.doc(-1), e.head())
}

// add adds the places and documents that r has read to an entry. The caller
// holds mu.
func (x *Index) add(e *entry, r *indexReader) {
	x.drop(e, len(e.places)-e.tail)
	base := len(e.places)
	title := e.title
	e.take(r)
	if e.title != title {
		x.describe(e)
	}
	for _, t := range r.texts {
		x.docs.Add(bm25.Doc{ID: e.doc(base + t.place), Class: t.class, Fields: x.fields(e, base+t.place, t.text)})
		x.texts.add(e.doc(base+t.place), t.text)
		x.counts[t.class]++
	}
}

// drop removes the places from the n-th on. The caller holds mu.
func (x *Index) drop(e *entry, n int) {
	for i := len(e.places) - 1; i >= n; i-- {
		if p := e.places[i]; p.doc() {
			x.docs.Remove(e.doc(i))
			x.texts.remove(e.doc(i))
			c := classOther
			if p.role < classes {
				c = int(p.role)
			}
			x.counts[c]--
			e.counts[c]--
		}
	}
	e.places = e.places[:n]
}

// forget removes a session from the index, in steps. When it returns, the
// session is removed, even if another call began.
func (x *Index) forget(e *entry) {
	for more := true; more; {
		x.mu.Lock()
		if x.byName[e.name] == e {
			delete(x.byName, e.name)
		}
		x.drop(e, max(0, len(e.places)-forgetAtOnce))
		more = len(e.places) > 0
		if !more && int(e.ord) < len(x.entries) && x.entries[e.ord] == e {
			x.docs.Remove(e.doc(-1))
			x.texts.remove(e.doc(-1))
			x.counts[classSession]--
			x.entries[e.ord], x.parties[e.ord] = nil, parties{}
		}
		x.mu.Unlock()
	}
}
