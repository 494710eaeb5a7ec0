package search

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"crabmem/bm25/clip"
	"crabmem/crmem/embed"
	"crabmem/crmem/vector"
	"crabmem/crmem/vfs"
	"crabmem/sessionlog"
)

// Conversations repeat texts, such as the name of a tool or "yes". One vector represents
// all documents with the same text.

// maxMeant is the part of a text that has vectors, in bytes.
const maxMeant = 32 << 10

// vectorsOf returns the identity of the vectors of a model. It changes with the passages
// of a text.
func vectorsOf(m *embed.Model) string { return m.Identity() + " messages=1" }

// texts are the texts of an index with a model, and their vectors. mu of the index
// guards them, except for turn.
type texts struct {
	model *embed.Model
	turn  sync.Mutex // held while texts are embedded; acquired before mu

	set     *vector.Set
	docs    map[uint64]link          // by document
	last    map[uint64]uint64        // by text: its document that was added last
	pending map[uint64]struct{}      // texts without a vector
	queue   []uint64                 // documents of pending texts, and others
	digests map[uint64]vector.Digest // of pending texts
	unsaved bool                     // the file differs from set
	wake    chan struct{}            // receives a value if pending gets a text
	failure string                   // of the last attempt to embed texts
}

// A link is the text of a document, and the documents with the same text that were added
// before and after it; 0: none.
type link struct{ text, before, after uint64 }

// newTexts returns the texts of an empty index, with the vectors of the file.
func newTexts(m *embed.Model, fsys vfs.FS, folder string) *texts {
	t := &texts{model: m, docs: make(map[uint64]link), last: make(map[uint64]uint64), pending: make(map[uint64]struct{}),
		digests: make(map[uint64]vector.Digest), wake: make(chan struct{}, 1)}
	if t.set = readVectors(m, fsys, folder); t.set == nil {
		t.set = vector.New(vectorsOf(m), m.Dim)
	}
	return t
}

// readVectors returns the vectors of the file, or nil.
func readVectors(m *embed.Model, fsys vfs.FS, folder string) *vector.Set {
	f, fi, err := vfs.OpenDerived(fsys, filepath.Join(folder, sessionlog.VectorFile))
	if err != nil {
		return nil
	}
	defer f.Close()
	set, err := vector.Read(f, fi.Size(), vectorsOf(m), m.Dim)
	if err != nil {
		return nil // damaged, or of another model
	}
	return set
}

// add notes the text of a document. The caller holds mu of the index.
func (t *texts) add(doc uint64, text string) {
	if t == nil {
		return
	}
	t.remove(doc)
	id, digest := vector.Key(meant(text))
	before := t.last[id]
	t.docs[doc] = link{text: id, before: before}
	if before != 0 {
		l := t.docs[before]
		l.after = doc
		t.docs[before] = l
	}
	t.last[id] = doc
	if d, ok := t.set.Digest(id); ok && d == digest {
		return
	}
	if _, ok := t.pending[id]; ok {
		return
	}
	t.pending[id], t.digests[id] = struct{}{}, digest
	t.queue = append(t.queue, doc)
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// meant returns the part of a text that has vectors.
func meant(text string) string { return strings.TrimSpace(clip.Bytes(text, maxMeant)) }

// remove removes a document. If it is the last one with its text, remove also removes
// the vectors. The caller holds mu of the index.
func (t *texts) remove(doc uint64) {
	if t == nil {
		return
	}
	l, ok := t.docs[doc]
	if !ok {
		return
	}
	delete(t.docs, doc)
	if l.before != 0 {
		o := t.docs[l.before]
		o.after = l.after
		t.docs[l.before] = o
	}
	if l.after != 0 {
		o := t.docs[l.after]
		o.before = l.before
		t.docs[l.after] = o
	} else if l.before != 0 {
		t.last[l.text] = l.before
	} else {
		delete(t.last, l.text)
		t.drop(l.text)
	}
	if _, ok := t.pending[l.text]; ok {
		t.queue = append(t.queue, t.last[l.text])
	}
}

// drop removes a text.
func (t *texts) drop(id uint64) {
	if _, had := t.set.Digest(id); had {
		t.unsaved = true
	}
	t.set.Remove(id)
	delete(t.pending, id)
	delete(t.digests, id)
}

// prune removes the vectors of texts that no document has. The caller holds mu of the
// index.
func (t *texts) prune() {
	for _, id := range t.set.IDs() {
		if t.last[id] == 0 {
			t.drop(id)
		}
	}
}

// any reports whether pass is true for a document with a text.
func (t *texts) any(id uint64, pass func(doc uint64) bool) bool {
	for doc := t.last[id]; doc != 0; doc = t.docs[doc].before {
		if pass(doc) {
			return true
		}
	}
	return false
}

// saveVectors writes the vector file if the vectors changed since it was written. It
// never waits for another process. Without the file, the vectors are computed again.
func (x *Index) saveVectors() error {
	x.mu.Lock()
	t := x.texts
	if !t.unsaved {
		x.mu.Unlock()
		return nil
	}
	set := t.set.Clone()
	t.unsaved = false
	x.mu.Unlock()
	written, err := writeVectors(x.folder.FS, x.file(sessionlog.VectorFile), set)
	if !written {
		x.mu.Lock()
		t.unsaved = true
		x.mu.Unlock()
	}
	return err
}

func writeVectors(fsys vfs.FS, name string, set *vector.Set) (written bool, err error) {
	lock, err := fsys.Lock(name + "-lock")
	if errors.Is(err, vfs.ErrLocked) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	list, err := fsys.ReadDir(filepath.Dir(name))
	if err != nil {
		return false, err
	}
	for _, e := range list {
		digits, ok := strings.CutPrefix(e.Name(), "."+sessionlog.VectorFile)
		if ok && strings.Trim(digits, "0123456789") == "" { // a temporary file of an ended process
			if err := fsys.Remove(filepath.Join(filepath.Dir(name), e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false, err
			}
		}
	}
	return vfs.WriteDerived(fsys, name, set.Size(), set.Write, func() (bool, error) { return true, nil })
}
