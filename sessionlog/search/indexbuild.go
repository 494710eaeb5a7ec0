package search

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/bm25"
	"crabmem/crmem/vfs"
)

// Limits, in bytes, of the texts that a build keeps in memory until all files
// are read: of all files and of one file. The remaining texts are added
// afterwards. Tests lower the limits.
var (
	maxHeld     int64 = 512 << 20
	maxHeldFile       = 64 << 20
)

// A listed file is a file of the folder with its directory information.
type listed struct {
	name  string
	size  int64
	mtime time.Time
	ident vfs.Identity
}

func describe(name string, fi fs.FileInfo) listed {
	id := vfs.Identify(fi)
	id.Links = 0
	return listed{name, fi.Size(), fi.ModTime(), id}
}

// file returns the path of a session file.
func (x *Index) file(name string) string { return filepath.Join(x.folder.Path, name) }

// list returns the session files of the folder, in order of their names.
func (x *Index) list() ([]listed, error) {
	names, err := x.folder.Names()
	if err != nil {
		return nil, err
	}
	files := make([]listed, 0, len(names))
	for _, name := range names {
		fi, err := x.folder.FS.Lstat(x.file(name))
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed or renamed concurrently
		case err != nil:
			return nil, err
		default:
			files = append(files, describe(name, fi))
		}
	}
	return files, nil
}

// A loaded file is the part of a file that a build has read.
type loaded struct {
	entry *entry
	texts []docText
	more  bool
	err   error
}

// build reads files into the empty index.
func (x *Index) build(files []listed) error {
	slices.SortStableFunc(files, func(a, b listed) int { return cmp.Compare(b.size, a.size) }) // long files first, for an even load of the cores
	parts := make([]loaded, len(files))
	var next, held atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(files)) {
		wg.Go(func() {
			r := &indexReader{tools: x.tools}
			for held.Load() < maxHeld {
				i := int(next.Add(1)) - 1
				if i >= len(files) {
					return
				}
				parts[i] = x.read(files[i].name, r)
				held.Add(int64(r.size))
			}
		})
	}
	wg.Wait()
	var rest []string // files that are not completely in parts
	unread := make(map[string]error)
	n := 0
	complete := parts[:0]
	for i, p := range parts {
		name := files[i].name
		switch {
		case p.err != nil:
			if !errors.Is(p.err, fs.ErrNotExist) {
				unread[name] = p.err
			}
			continue
		case p.entry == nil:
			rest = append(rest, name)
			continue
		case p.more:
			rest = append(rest, name)
		}
		complete = append(complete, p)
		n += len(p.texts) + 1
	}
	slices.SortFunc(complete, func(a, b loaded) int { return a.entry.compare(b.entry) })
	ids, class, texts := make([]uint64, 0, n), make([]uint8, 0, n), make([][]string, 0, n)
	for i, p := range complete {
		e := p.entry
		e.ord = uint32(i) // as insert will have it
		ids, class, texts = append(ids, e.doc(-1)), append(class, classSession), append(texts, []string{e.head()})
		for _, t := range p.texts {
			ids, class, texts = append(ids, e.doc(t.place)), append(class, t.class), append(texts, x.fields(e, t.place, t.text))
		}
	}
	slices.Reverse(ids) // so that they ascend
	slices.Reverse(class)
	slices.Reverse(texts)
	err := x.docs.Build(context.Background(), n, func(i int) bm25.Doc {
		return bm25.Doc{ID: ids[i], Class: class[i], Fields: texts[i]}
	})
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.unread = unread
	for _, p := range complete {
		e := p.entry
		x.insert(e)
		e.counts[classSession] = 1
		for c, n := range e.counts {
			x.counts[c] += n
		}
		if x.texts != nil {
			x.texts.add(e.doc(-1), e.head())
			for _, t := range p.texts {
				x.texts.add(e.doc(t.place), t.text)
			}
		}
	}
	x.mu.Unlock()
	for _, name := range rest {
		x.update(name)
	}
	return nil
}

// read reads a file from its beginning.
func (x *Index) read(name string, r *indexReader) (p loaded) {
	r.begin(nil)
	f, err := x.folder.FS.Open(x.file(name))
	if err != nil {
		return loaded{err: err}
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return loaded{err: err}
	}
	now := describe(name, fi)
	if err := r.file(f, now.size, x.folder.MaxLine, maxHeldFile); err != nil {
		return loaded{err: err}
	}
	e := x.newEntry(r, now)
	e.take(r)
	e.read(r, now)
	return loaded{entry: e, texts: slices.Clone(r.texts), more: r.more}
}

// read records the state of the file that r has read.
func (e *entry) read(r *indexReader, now listed) {
	e.ident, e.modified = now.ident, now.mtime
	e.size, e.mtime = now.size, now.mtime
	if r.more {
		e.size, e.mtime = r.pos.end, time.Time{}
	}
}

// Refresh reads the writes of other processes since the last read, and only the
// new part of a file that has grown. It detects changed files by size, time,
// and identity, and by the bytes around the last read offset.
func (x *Index) Refresh() error {
	x.refreshing.Lock()
	defer x.refreshing.Unlock()
	files, err := x.list()
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(files))
	for _, f := range files {
		there[f.name] = true
	}
	var stale []string
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return errIndexClosed
	}
	vanished := make(map[vfs.Identity]*entry)
	for name, e := range x.byName {
		if !there[name] {
			// The entry may have been created after the listing; update checks
			// that.
			stale = append(stale, name)
			vanished[e.ident] = e
		}
	}
	delete(vanished, vfs.Identity{})
	for _, f := range files {
		e := x.byName[f.name]
		if e == nil && vanished[f.ident] != nil && x.rename(vanished[f.ident], f.name) {
			stale = append(stale, f.name) // update detects if it is another file
			continue
		}
		if e == nil || !e.current(f) {
			stale = append(stale, f.name)
		}
	}
	for name := range x.unread {
		if !there[name] {
			delete(x.unread, name)
		}
	}
	x.mu.Unlock()
	slices.Sort(stale)
	for _, name := range stale {
		x.update(name)
	}
	return nil
}
