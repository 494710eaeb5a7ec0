package search

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem/embed"
	"crabmem/crmem/embed/embedtest"
	"crabmem/crmem/fusion"
	"crabmem/crmem/vector"
	"crabmem/crmem/vfs"
	"crabmem/fuzz/seed"
	"crabmem/sessionlog"
)

func newModel() (*embed.Model, *embedtest.Model) {
	return embedtest.New("car automobile", "sea ocean", "doctor physician")
}

// meaningFolder returns a folder with two sessions.
func meaningFolder(t *testing.T) *memFolder {
	return newMemFolder(t, map[string]string{
		"crab_user_1.jsonl": metaLine("crab", "") + messageLine("user", "where is the automobile") + messageLine("assistant", "in the garage") +
			messageLine("user", "yes") + messageLine("assistant", "the physician left"),
		"crab_user_2.jsonl": metaLine("crab", "") + messageLine("user", "the ocean is calm") + messageLine("user", "yes"),
	})
}

func (f *memFolder) embedded(m *embed.Model) *Index {
	f.t.Helper()
	x := f.index(&IndexOptions{Embed: m})
	f.check(x.EmbedAll(f.t.Context(), nil))
	return x
}

func TestSemanticSearch(t *testing.T) {
	f := meaningFolder(t)
	m, model := newModel()
	x := f.embedded(m)
	q := Query{Text: "car", Limit: 1, Semantic: &fusion.Request{}}
	for _, method := range []fusion.Method{fusion.Convex, fusion.ReciprocalRank} {
		q.Semantic.Fusion = method
		r, err := x.Search(t.Context(), q)
		f.check(err)
		if h := r.Hits; len(h) != 1 || h[0].ID != "crab_user_1" || h[0].Line != 2 || h[0].Snippet != "where is the automobile" || len(h[0].Window) != 4 {
			t.Fatalf("%q: hits %+v", method, h)
		}
		if h := r.Hits[0]; h.Fused == nil || h.Fused.Cosine == nil || h.Score != h.Fused.Score() || !r.Meaning.Used || r.Meaning.Missing != 0 || r.Total != 8 {
			t.Errorf("%q: %+v of %d, %+v", method, h.Fused, r.Total, r.Meaning)
		}
	}
	q.Bare = true
	if got := found(t, x, q); got != `8 of 8; crab_user_1:2 ""` {
		t.Errorf("bare: %s", got)
	}
	q.Bare, q.Roles = false, []string{"assistant"}
	q.Text = "doctor"
	if got := found(t, x, q); got != `2 of 2; crab_user_1:5 "the physician left"` {
		t.Errorf("answers: %s", got)
	}
	q.Roles, q.Created = nil, func(string) bool { return false }
	r, err := x.Search(t.Context(), q)
	if f.check(err); len(r.Hits) > 0 || r.Total != 0 || r.Meaning.Used || !strings.HasPrefix(r.Meaning.Reason, "no text that passes the filters") {
		t.Errorf("sessions of others: %+v, %+v", r.Hits, r.Meaning)
	}
	q.Created = nil
	model.Fail(func([]string) error { return errors.New("no route") })
	if r, err = x.Search(t.Context(), q); err != nil || len(r.Hits) > 0 || r.Meaning.Used || !strings.Contains(r.Meaning.Reason, "no route") {
		t.Errorf("a model that fails: %+v, %+v, %v", r.Hits, r.Meaning, err)
	}
	f.check(x.Close())
	x = f.index(nil)
	if r, err = x.Search(t.Context(), q); err != nil || r.Meaning.Reason != "no embedding model is configured" {
		t.Errorf("without a model: %+v, %v", r.Meaning, err)
	}
	f.check(x.Close())
}

// TestSameText checks that documents with the same text share a vector, and that all of
// them are found.
func TestSameText(t *testing.T) {
	f := meaningFolder(t)
	m, model := newModel()
	x := f.embedded(m)
	if n := count(model.Texts(), "yes"); n != 1 {
		t.Errorf("the text was embedded %d times", n)
	}
	q := Query{Text: "yes", Limit: 2, Window: -1, Semantic: &fusion.Request{}}
	if got, want := found(t, x, q), `8 of 8; crab_user_2:3 "yes"; crab_user_1:4 "yes"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	f.check(f.m.Remove("/s/crab_user_2.jsonl"))
	f.check(x.Refresh())
	if got, want := found(t, x, q), `5 of 5; crab_user_1:4 "yes"; crab_user_1:2 "where is the automobile"`; got[:29] != want[:29] {
		t.Errorf("after a removal: got %s, want %s", got, want)
	}
	f.sameTexts(x)
	f.check(x.Close())
}

func count(list []string, s string) (n int) {
	for _, l := range list {
		if l == s {
			n++
		}
	}
	return n
}

// TestVectorFile opens the index of a folder again: only new texts are embedded, unless
// the file is missing, damaged, or of another model.
func TestVectorFile(t *testing.T) {
	f := meaningFolder(t)
	m, model := newModel()
	f.check(f.embedded(m).Close())
	all := len(model.Texts())
	name := "/s/" + sessionlog.VectorFile
	good, err := vfs.ReadFile(f.m, name, 1<<20)
	f.check(err)
	again := func() int {
		t.Helper()
		before := len(model.Texts())
		x := f.embedded(m)
		f.sameTexts(x)
		if got := found(t, x, Query{Text: "car", Limit: 1, Window: -1, Semantic: &fusion.Request{}}); !strings.HasSuffix(got, `"where is the automobile"`) {
			t.Error(got)
		}
		f.check(x.Close())
		return len(model.Texts()) - before - 1 // the query
	}
	if n := again(); n != 0 {
		t.Errorf("embedded %d texts again", n)
	}
	f.write("crab_user_3.jsonl", metaLine("crab", "")+messageLine("user", "a new text"))
	if n := again(); n != 1 {
		t.Errorf("embedded %d texts, want the new one", n)
	}
	f.check(f.m.Remove("/s/crab_user_3.jsonl"))
	if n := again(); n != 0 {
		t.Errorf("embedded %d texts after a removal", n)
	}
	if b, err := vfs.ReadFile(f.m, name, 1<<20); err != nil || !bytes.Equal(b, good) {
		t.Errorf("the file contains texts that were removed, or lacks others: %v", err)
	}
	for what, b := range map[string][]byte{"empty": nil, "cut": good[:len(good)-1], "flipped": flip(good, len(good)/2)} {
		f.m.WriteFile(name, b, 0o600)
		if n := again(); n != all {
			t.Errorf("%s file: embedded %d texts, want %d", what, n, all)
		}
	}
	m.Name = "another"
	if n := again(); n != all {
		t.Errorf("another model: embedded %d texts, want %d", n, all)
	}
	f.m.WriteFile("/s/."+sessionlog.VectorFile+"123", nil, 0o600)
	m.Name = "a third"
	again()
	if _, err := f.m.Lstat("/s/." + sessionlog.VectorFile + "123"); err == nil {
		t.Error("the temporary file of an ended process remains")
	}
}

func flip(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1
	return b
}

// TestMeaningInBackground checks that the index embeds what is written, also after the
// model failed, and that it says what is missing.
func TestMeaningInBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := meaningFolder(t)
		m, model := newModel()
		model.Fail(func(texts []string) error {
			if len(texts) == 1 && texts[0] == "car" {
				return nil
			}
			return errors.New("busy")
		})
		x := f.index(&IndexOptions{Embed: m})
		if synctest.Wait(); !strings.Contains(x.VectorState().Failure, "busy") {
			t.Errorf("%+v", x.VectorState())
		}
		r, err := x.Search(t.Context(), Query{Text: "car", Semantic: &fusion.Request{}})
		if f.check(err); r.Meaning.Used || len(r.Hits) > 0 {
			t.Errorf("without vectors: %+v, %+v", r.Meaning, r.Hits)
		}
		model.Fail(nil)
		wait := func(texts int) {
			t.Helper()
			time.Sleep(time.Hour) // the next attempt
			synctest.Wait()
			if st := x.VectorState(); st.Missing != 0 || st.Texts != texts || st.Failure != "" {
				t.Errorf("%+v", st)
			}
		}
		wait(6)
		l, err := f.d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
		f.check(err)
		f.check(l.Append(sessionlog.Message{Role: "user", Content: "a doctor and the sea"}))
		wait(7)
		q := Query{Text: "physician ocean", Limit: 1, Window: -1, Semantic: &fusion.Request{Weight: 1}}
		if got := found(t, x, q); !strings.HasSuffix(got, `:2 "a doctor and the sea"`) {
			t.Error(got)
		}
		f.check(l.Close())
		f.sameTexts(x)
		f.check(x.Close())
		if _, err := f.m.Lstat("/s/" + sessionlog.VectorFile); err != nil {
			t.Error(err)
		}
	})
}

// TestTextsRandom adds and removes random documents with few texts, and compares with a
// list.
func TestTextsRandom(t *testing.T) {
	r := seed.Random(t)
	m, _ := newModel()
	x := &texts{model: m, docs: make(map[uint64]link), last: make(map[uint64]uint64), pending: make(map[uint64]struct{}), digests: make(map[uint64]vector.Digest),
		set: vector.New("m", 2), wake: make(chan struct{}, 1)}
	want := make(map[uint64]string)
	for range 20_000 {
		doc, text := 1+r.Uint64N(30), fmt.Sprint("text ", r.IntN(5))
		switch r.IntN(3) {
		case 0:
			x.remove(doc)
			delete(want, doc)
		default:
			x.add(doc, text)
			want[doc] = text
		}
		if id := oneOf(x.pending); id != 0 && r.IntN(4) == 0 { // embedded
			x.set.Put(id, x.digests[id], nil)
			delete(x.pending, id)
			delete(x.digests, id)
		}
		docs := make(map[uint64]string)
		for n := range 5 {
			text := fmt.Sprint("text ", n)
			id, digest := vector.Key(text)
			listed := 0
			x.any(id, func(doc uint64) bool { docs[doc] = text; listed++; return false })
			got, embedded := x.set.Digest(id)
			_, waits := x.pending[id]
			if known := listed > 0; known != (embedded || waits) || embedded && (waits || got != digest) || known != (x.last[id] != 0) {
				t.Fatalf("%s: %d documents, embedded %t, pending %t", text, listed, embedded, waits)
			}
			if waits && !slices.ContainsFunc(x.queue, func(doc uint64) bool { return x.docs[doc].text == id }) {
				t.Fatalf("%s waits, but is not in the queue", text)
			}
		}
		if !maps.Equal(docs, want) || len(x.docs) != len(want) {
			t.Fatalf("documents %v, want %v", docs, want)
		}
	}
}

// oneOf returns the smallest key, or 0.
func oneOf(m map[uint64]struct{}) uint64 {
	for _, id := range slices.Sorted(maps.Keys(m)) {
		return id
	}
	return 0
}

// sameTexts compares the texts of an index with those of one that reads the folder from
// scratch.
func (f *memFolder) sameTexts(x *Index) {
	f.t.Helper()
	d, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: f.m})
	f.check(err)
	y, err := NewIndex(d, &IndexOptions{Embed: x.texts.model})
	f.check(err)
	y.end() // it embeds and writes nothing
	y.work.Wait()
	want := slices.Sorted(maps.Keys(y.texts.last))
	if got := slices.Sorted(maps.Keys(x.texts.last)); !slices.Equal(got, want) {
		f.t.Errorf("%d texts, want %d", len(got), len(want))
	}
	if got := x.texts.set.IDs(); !slices.Equal(got, want) {
		f.t.Errorf("vectors of %d texts, want %d", len(got), len(want))
	}
	for _, id := range want {
		if d, _ := x.texts.set.Digest(id); d.Len == 0 && d.C == 0 {
			f.t.Errorf("text %x has no digest", id)
		}
	}
	f.check(d.Close())
}
