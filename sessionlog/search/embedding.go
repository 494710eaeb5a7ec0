package search

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"crabmem/crmem/embed"
	"crabmem/crmem/vector"
	"crabmem/crmem/vfs"
)

// VectorState describes the vectors of an index.
type VectorState struct {
	Model   string `json:"model"`             // identity of the model
	Texts   int    `json:"texts"`             // different texts with vectors
	Missing int    `json:"missing"`           // texts that only words find, so far
	Vectors int    `json:"vectors"`           // one for each chunk of a text
	Failure string `json:"failure,omitempty"` // of the last request to the model
}

// VectorState returns the state of the vectors, or nil without a model.
func (x *Index) VectorState() *VectorState {
	x.mu.RLock()
	defer x.mu.RUnlock()
	t := x.texts
	if t == nil {
		return nil
	}
	return &VectorState{t.model.Identity(), t.set.Len(), len(t.pending), t.set.Rows(), t.failure}
}

// keepVectors embeds the texts of new documents until the index is closed.
func (x *Index) keepVectors() {
	b := embed.Background{
		Batch:  x.embedBatch,
		Save:   func() { x.saveVectors() }, //nolint:errcheck // the next call tries again
		Failed: func(err error, _ time.Time) { x.failed(err) },
		Wake:   x.texts.wake,
	}
	x.work.Go(func() { b.Run(x.ctx) }) // Close waits for it
}

// failed notes the result of a request to the model.
func (x *Index) failed(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.texts.failure = ""; err != nil && x.ctx.Err() == nil {
		x.texts.failure = err.Error()
	}
}

// EmbedAll embeds all texts that have no vector, and writes the vector file. It calls
// progress, if set, with the number of texts that have vectors, and of all texts. On an
// error, the other vectors remain.
func (x *Index) EmbedAll(ctx context.Context, progress func(done, total int)) error {
	if x.texts == nil {
		return errors.New("the index has no embedding model")
	}
	for {
		left, err := x.embedBatch(ctx)
		if st := x.VectorState(); progress != nil && err == nil {
			progress(st.Texts, st.Texts+st.Missing)
		}
		if err != nil || !left {
			x.saveVectors() //nolint:errcheck // the next index computes the vectors again
			return err
		}
	}
}

// A textJob is a text to embed.
type textJob struct {
	id     uint64
	digest vector.Digest
	chunks []string // none: the text cannot be read again
}

// embedBatch embeds the next pending texts, and reports whether others are left.
func (x *Index) embedBatch(ctx context.Context) (left bool, err error) {
	x.texts.turn.Lock()
	defer x.texts.turn.Unlock()
	jobs := x.nextTexts()
	if len(jobs) == 0 {
		return false, nil
	}
	groups := make([][]string, len(jobs))
	for i, j := range jobs {
		groups[i] = j.chunks
	}
	vectors, err := x.texts.model.Groups(ctx, groups, func(int, error) {})
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.texts
	if err == nil {
		t.failure = ""
	}
	for i, j := range jobs {
		if _, ok := t.pending[j.id]; !ok || x.closed {
			continue // removed
		}
		if i >= len(vectors) {
			t.queue = append(t.queue, t.last[j.id])
			continue
		}
		t.set.Put(j.id, j.digest, vectors[i])
		delete(t.pending, j.id)
		delete(t.digests, j.id)
		t.unsaved = true
	}
	return len(t.pending) > 0, err
}

// nextTexts removes documents from the queue and reads their texts again. A text that
// is not in its file any more gets no vector.
func (x *Index) nextTexts() (jobs []textJob) {
	v := viewer{index: x, files: make(map[string]vfs.File), calls: make(map[string]string)}
	defer v.close()
	chunks := 0
	for chunks < embed.MaxBatch {
		id, digest, f, ok := x.nextText()
		if !ok {
			break
		}
		j := textJob{id: id, digest: digest}
		parts := slices.DeleteFunc(v.indexedTexts(&f, maxHitLine), func(s string) bool { return s == "" })
		text := meant(strings.Join(parts, "\n"))
		if found, d := vector.Key(text); found == id && d == digest {
			j.chunks = embed.Chunks(text)
		}
		chunks += max(1, len(j.chunks))
		jobs = append(jobs, j)
	}
	return jobs
}

// nextText removes a document with a pending text from the queue.
func (x *Index) nextText() (id uint64, digest vector.Digest, f finding, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.texts
	for len(t.queue) > 0 {
		doc := t.queue[0]
		t.queue = t.queue[1:]
		id = t.docs[doc].text
		if _, ok := t.pending[id]; ok && x.present(doc) {
			return id, t.digests[id], x.find(doc, 0, &Query{}), true
		}
	}
	return 0, vector.Digest{}, finding{}, false
}

// present reports whether the index contains a document. The caller holds mu.
func (x *Index) present(doc uint64) bool {
	ord, at := placeOf(doc)
	return ord < uint64(len(x.entries)) && x.entries[ord] != nil && at < len(x.entries[ord].places)
}
