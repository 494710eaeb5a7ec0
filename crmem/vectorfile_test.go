package crmem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/embed"
	"crabmem/crmem/embed/embedtest"
	"crabmem/crmem/fusion"
	"crabmem/crmem/vfs/faultfs"
)

// embedded lets the background of a store repeat what failed, until no vector is missing.
func embedded(t *testing.T, s *crmem.Store) {
	t.Helper()
	time.Sleep(time.Hour)
	synctest.Wait()
	if st := s.VectorState(); !st.Loaded || st.Missing > 0 {
		t.Fatalf("%+v", st)
	}
}

// TestVectorFile checks that a store embeds each text once, whatever happens between.
func TestVectorFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "memory.db")
		m, model := embedtest.New("car automobile")
		s := open(t, path, &crmem.Options{Embed: m})
		for i := range 50 {
			must(s.Remember(fmt.Sprint("entry ", i), fmt.Sprint("text automobile ", i), nil))
		}
		embedded(t, s)
		ok(t, s.Close())
		if n := len(model.Texts()); n != 50 {
			t.Fatalf("%d texts were embedded", n)
		}
		vectors := must(os.ReadFile(path + "-vectors"))
		reopen := func(o *crmem.Options, texts int, why string) *embedtest.Model {
			t.Helper()
			if o.Embed == nil {
				o.Embed, model = embedtest.New()
			}
			s := open(t, path, o)
			embedded(t, s)
			r := search(t, s, crmem.Query{Text: "automobile", Limit: 60, Semantic: &fusion.Request{}})
			if len(r.Hits) != 50 || !r.Meaning.Used {
				t.Errorf("%s: %d hits, %+v", why, len(r.Hits), r.Meaning)
			}
			ok(t, s.Close())
			if n := len(model.Texts()) - 1; n != texts {
				t.Errorf("%s: %d texts were embedded, want %d", why, n, texts)
			}
			return model
		}
		reopen(&crmem.Options{}, 0, "unchanged")
		s = open(t, path, nil) // a program without a model
		must(s.Remember("entry 7", "text ocean", nil))
		ok(t, s.Close())
		reopen(&crmem.Options{}, 1, "changed without a model")
		for why, b := range map[string][]byte{
			"missing": nil, "empty": {}, "torn": vectors[:len(vectors)/2], "damaged": slices.Concat(vectors[:500], []byte("xx"), vectors[502:]), "zeros": make([]byte, len(vectors)),
		} {
			ok(t, os.Remove(path+"-vectors"))
			if b != nil {
				ok(t, os.WriteFile(path+"-vectors", b, 0o600))
			}
			reopen(&crmem.Options{}, 50, why)
		}
		m, model = embedtest.New()
		m.PassagePrefix = "passage: "
		reopen(&crmem.Options{Embed: m}, 50, "another prefix")
		m, model = embedtest.New()
		m.Dim, model.Dim = 32, 32
		reopen(&crmem.Options{Embed: m}, 50, "another dimension")
	})
}

// TestVectorFileByReader checks that a reader embeds entries on request, and writes the
// file.
func TestVectorFileByReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	s := open(t, path, nil)
	for i := range 40 {
		must(s.Remember(fmt.Sprint("entry ", i), strings.Repeat(fmt.Sprint("text automobile ", i, ". "), 1+i*10), nil))
	}
	ok(t, s.Close())
	var first string
	for pass, want := range []int{40, 0} {
		m, model := embedtest.New("car automobile")
		r := open(t, path, &crmem.Options{ReadOnly: true, Lazy: true, Embed: m})
		if x := search(t, r, crmem.Query{Text: "car", Semantic: &fusion.Request{}}); x.Meaning.Used != (want == 0) || x.Meaning.Missing != want {
			t.Errorf("pass %d: %+v", pass, x.Meaning)
		}
		var last int
		ok(t, r.EmbedAll(t.Context(), func(done, total int) { last = done; _ = total }))
		if x := search(t, r, crmem.Query{Text: "car", Limit: 9, Semantic: &fusion.Request{}}); !x.Meaning.Used {
			t.Errorf("pass %d: %+v", pass, x.Meaning)
		} else if got := hitLine(x); pass == 0 {
			first = got
		} else if got != first {
			t.Errorf("hits %s, before %s", got, first)
		}
		if last != 40*min(want, 1) && want > 0 || (len(model.Texts()) > 10) != (want > 0) {
			t.Errorf("pass %d: progress ended with %d; %d texts", pass, last, len(model.Texts()))
		}
		ok(t, r.Close())
	}
}

// TestEmbeddingFails makes the model fail in several ways. Meanwhile searches answer, and
// afterwards all entries but the one that the model refuses have a vector.
func TestEmbeddingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "memory.db")
		m, model := embedtest.New("car automobile")
		var overloaded atomic.Bool
		overloaded.Store(true)
		model.Fail(func(texts []string) error {
			switch {
			case slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, "poison") }):
				return fmt.Errorf("%w: too much of it", embed.ErrRefused)
			case texts[0] != "car" && overloaded.Load():
				return errors.New("overloaded")
			}
			return nil
		})
		s := open(t, path, &crmem.Options{Embed: m})
		for i := range 20 {
			must(s.Remember(fmt.Sprint("entry ", i), "an automobile", nil))
			if i == 9 {
				must(s.Remember("poison", "bad", nil))
			}
		}
		synctest.Wait()
		if st := s.VectorState(); !strings.Contains(st.Failure, "overloaded") || st.RetryAt == nil || st.Missing == 0 {
			t.Errorf("%+v", st)
		}
		r := search(t, s, crmem.Query{Text: "car", Limit: 5, Semantic: &fusion.Request{}})
		if r.Meaning == nil || r.Meaning.Used {
			t.Errorf("%+v", r)
		}
		overloaded.Store(false)
		embedded(t, s)
		if st := s.VectorState(); st.Entries != 21 || st.Empty != 1 || st.Failure != "" {
			t.Errorf("%+v", st)
		}
		if r := search(t, s, crmem.Query{Text: "poison", Limit: 1, Semantic: &fusion.Request{}}); hitLine(r) != "poison" || !r.Meaning.Used && !strings.Contains(r.Meaning.Reason, "refuses") {
			t.Errorf("%s, %+v", hitLine(r), r.Meaning)
		}
		ok(t, s.Close())
	})
}

// TestCloseStopsEmbedding closes a store while the model hangs.
func TestCloseStopsEmbedding(t *testing.T) {
	m, _ := embedtest.New()
	hangs := make(chan struct{})
	m.Embedder = embedderFunc(func(ctx context.Context, _ []string) ([][]float32, error) {
		close(hangs)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	path := filepath.Join(t.TempDir(), "memory.db")
	s := open(t, path, &crmem.Options{Embed: m})
	must(s.Remember("a", "text", nil))
	<-hangs
	must(s.Remember("b", "writes do not wait", nil))
	ok(t, s.Close())
	if _, err := os.Stat(path + "-vectors"); err == nil {
		t.Error("a vector file without a vector was written")
	}
}

type embedderFunc func(ctx context.Context, texts []string) ([][]float32, error)

func (f embedderFunc) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return f(ctx, texts)
}

// TestPurgeRemovesVectors checks that no vector of a purged entry remains.
func TestPurgeRemovesVectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "memory.db")
		m, model := embedtest.New()
		s := open(t, path, &crmem.Options{Embed: m})
		must(s.Remember("keep", "some text", nil))
		secret := must(s.Remember("secret", "some other text", nil))
		embedded(t, s)
		ok(t, s.Close())
		s = open(t, path, &crmem.Options{Embed: m})
		embedded(t, s)
		must(s.Purge("secret"))
		if _, err := os.Stat(path + "-vectors"); err == nil {
			t.Error("the purge left the vector file")
		}
		embedded(t, s)
		ok(t, s.Close())
		b := must(os.ReadFile(path + "-vectors"))
		id := []byte{byte(secret.ID), 0, 0, 0, 0, 0, 0, 0}
		if bytes.Contains(b, id) {
			t.Error("the file contains the entry")
		}
		if n := len(model.Texts()); n != 2 {
			t.Errorf("%d texts were embedded", n)
		}
	})
}

// TestReplaceDropsVectors checks that vectors follow a state that replaces all entries.
func TestReplaceDropsVectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, model := embedtest.New("car automobile")
		s := open(t, filepath.Join(t.TempDir(), "memory.db"), &crmem.Options{Embed: m})
		must(s.Remember("a", "an automobile", nil))
		must(s.Remember("b", "an ocean", nil))
		embedded(t, s)
		before := s.Snapshot()
		must(s.Remember("a", "an ocean", nil))
		must(s.Remember("c", "an automobile", nil))
		embedded(t, s)
		ok(t, s.Update(func(*crmem.Snapshot) (*crmem.Snapshot, error) { return before, nil }))
		synctest.Wait()
		if r := search(t, s, crmem.Query{Text: "car", Limit: 1, Semantic: &fusion.Request{}}); hitLine(r) != "a" || r.Meaning.Missing != 0 {
			t.Errorf("%s, %+v; texts %q", hitLine(r), r.Meaning, model.Texts())
		}
		ok(t, s.Close())
	})
}

// TestEmbeddingConcurrent writes, searches, and embeds at the same time.
func TestEmbeddingConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := embedtest.New("car automobile")
		s := open(t, filepath.Join(t.TempDir(), "memory.db"), &crmem.Options{Embed: m})
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := range 60 {
					name := fmt.Sprint("entry ", (i*7+w)%40)
					switch i % 3 {
					case 0, 1:
						_, err := s.Remember(name, fmt.Sprint("automobile ", i), nil)
						ok(t, err)
					case 2:
						if err := s.Forget(name); err != nil && !errors.Is(err, crmem.ErrNotFound) {
							t.Error(err)
						}
					}
					_, err := s.Search(t.Context(), crmem.Query{Text: "car 7", Limit: 3, Diverse: true, Semantic: &fusion.Request{}})
					ok(t, err)
					s.VectorState()
				}
			})
		}
		wg.Wait()
		embedded(t, s)
		if st := s.VectorState(); st.Entries != s.Len() {
			t.Errorf("%+v, want %d entries", st, s.Len())
		}
		ok(t, s.Close())
	})
}

// TestEmbedFailsToLoad embeds the entries of a store whose snapshot cannot be loaded. The
// error is that of the load, and a later call embeds them.
func TestEmbedFailsToLoad(t *testing.T) {
	fsys := faultfs.NewMem()
	s, err := crmem.Open("/m.db", &crmem.Options{FS: fsys})
	ok(t, err)
	for i := range 3 {
		must(s.Remember(fmt.Sprint("entry ", i), "text", nil))
	}
	ok(t, errors.Join(s.Checkpoint(), s.Close()))
	lazy := crmem.Options{FS: fsys, ReadOnly: true, Lazy: true}
	s, err = crmem.Open("/m.db", &lazy)
	ok(t, err)
	search(t, s, crmem.Query{Text: "text"})
	ok(t, s.Close()) // writes an index file

	m, model := embedtest.New()
	lazy.Embed = m
	s, err = crmem.Open("/m.db", &lazy)
	ok(t, err)
	fsys.Hook = func(c faultfs.Call) error {
		if c.Name == "/m.db" {
			return syscall.EIO
		}
		return nil
	}
	if err := s.EmbedAll(t.Context(), nil); !errors.Is(err, syscall.EIO) || len(model.Texts()) > 0 {
		t.Errorf("embedded %q: %v", model.Texts(), err)
	}
	fsys.Hook = nil
	ok(t, s.EmbedAll(t.Context(), nil))
	if len(model.Texts()) != 3 {
		t.Errorf("embedded %q", model.Texts())
	}
	ok(t, s.Close())
}
