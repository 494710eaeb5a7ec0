package search_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"crabmem/bm25/analysis"
	"crabmem/crmem/vfs"
	"crabmem/fuzz/race"
	"crabmem/fuzz/seed"
	"crabmem/sessionlog"
	"crabmem/sessionlog/search"

	gocmp "github.com/google/go-cmp/cmp"
)

// compareIndexes searches both for the same.
func compareIndexes(t testing.TB, r *rand.Rand, got, want *search.Index, queries int) {
	t.Helper()
	if got.Len() != want.Len() {
		t.Fatalf("%d documents, rebuilt %d", got.Len(), want.Len())
	}
	for range queries {
		q := randomSearch(r)
		q.Limit = 1 + r.IntN(20)
		a, b := mustSearch(t, got, q), mustSearch(t, want, q)
		if diff := gocmp.Diff(b, a); diff != "" {
			t.Fatalf("%+v (-rebuilt +kept):\n%s", q, diff)
		}
	}
}

// TestEqualScores has an index come to know sessions with the same message in
// every order: the session that was created last comes first, and of its messages
// the last one.
func TestEqualScores(t *testing.T) {
	line := func(created string) string {
		return fmt.Sprintf(`{"agent":"crab","created_by":"user","created_at":%q}`, created)
	}
	files := []struct{ name, created string }{ // as they are to be found
		{"crab_user_1.jsonl", "2026-01-03T00:00:00Z"},
		{"crab_user_10.jsonl", "2026-01-02T00:00:00Z"},
		{"crab_user_3.jsonl", "2026-01-02T00:00:00Z"},
		{"crab_user_2.jsonl", "2026-01-02T00:00:00Z"},
		{"crab_user_9.jsonl", "2026-01-01T00:00:00Z"},
	}
	order := []int{0, 1, 2, 3, 4}
	for range 30 {
		path := t.TempDir()
		d, err := sessionlog.OpenDir(path, nil)
		noErr(t, err)
		kept := newIndex(t, d, nil)
		for _, i := range order {
			writeSession(t, path, files[i].name, line(files[i].created), `{"role":"user","content":"alpha"}`, `{"role":"user","content":"alpha"}`)
			noErr(t, kept.Refresh())
		}
		for _, x := range []*search.Index{kept, rebuilt(t, path)} {
			for limit := 1; limit <= 11; limit++ {
				found := mustSearch(t, x, search.Query{Text: "alpha", Limit: limit})
				if found.Total != 10 || len(found.Hits) != min(limit, 10) {
					t.Fatalf("%d of %d with limit %d", len(found.Hits), found.Total, limit)
				}
				for i, h := range found.Hits {
					if h.File != files[i/2].name || h.Line != int64(3-i%2) {
						t.Fatalf("known in the order %v, hit %d of %d is line %d of %s", order, i, limit, h.Line, h.File)
					}
				}
			}
		}
		noErr(t, kept.Close())
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
}

// rebuilt is an index that was just made of the folder.
func rebuilt(t testing.TB, path string) *search.Index {
	d, err := sessionlog.OpenDir(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := newIndex(t, d, nil)
	if len(x.Unread()) > 0 {
		t.Fatal(x.Unread())
	}
	return x
}

// A scribbler changes a folder at random, through a Dir and directly.
type scribbler struct {
	t     testing.TB
	r     *rand.Rand
	d     *sessionlog.Dir
	path  string
	open  []*sessionlog.Log
	trash []string
	did   []string
}

func (s *scribbler) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%v, after %s", err, strings.Join(s.did[max(0, len(s.did)-8):], ", "))
	}
}

// files returns the session files that are not open.
func (s *scribbler) files() []string {
	entries, err := os.ReadDir(s.path)
	s.must(err)
	var names []string
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, ".jsonl") || name[0] == '.' || slices.ContainsFunc(s.open, func(l *sessionlog.Log) bool { return l.Path() == filepath.Join(s.path, name) }) {
			continue
		}
		names = append(names, name)
	}
	return names
}

func (s *scribbler) pick(names []string) string { return names[s.r.IntN(len(names))] }

func (s *scribbler) message() sessionlog.Message {
	return randomMessage(s.r, fmt.Sprintf("c%d", s.r.IntN(3)))
}

// meta returns a random identity of a session.
func (s *scribbler) meta() sessionlog.Meta {
	m := sessionlog.Meta{Agent: searchAgents[s.r.IntN(len(searchAgents))], CreatedBy: "user"}
	if s.r.IntN(2) == 0 {
		m.Title = searchText(s.r, 2)
	}
	return m
}

// step makes one change and reports whether the index was notified.
func (s *scribbler) step() (notified bool) {
	r := s.r
	files := s.files()
	what := r.IntN(20)
	s.did = append(s.did, fmt.Sprint("step ", what))
	switch {
	case what == 0 || len(s.open) == 0 && what < 10:
		l, err := s.d.Create(s.meta())
		s.must(err)
		s.open = append(s.open, l)
	case what < 10:
		l := s.open[r.IntN(len(s.open))]
		how := r.IntN(8)
		s.did = append(s.did, fmt.Sprint("write ", how, " ", l.ID()))
		switch how {
		case 0:
			s.must(l.SetTitle(searchText(r, r.IntN(4))))
		case 1:
			s.must(l.Compact(searchText(r, 8)))
		case 2:
			s.must(l.AddUptime(1))
		default:
			ms := []sessionlog.Message{s.message()}
			if r.IntN(3) == 0 {
				ms = append(ms, sessionlog.Message{Role: "user", Content: "injected alpha", Injected: true}, s.message())
			}
			s.must(l.Append(ms...))
		}
	case what == 10 && len(s.open) > 0:
		i := r.IntN(len(s.open))
		s.must(s.open[i].Close())
		s.open = slices.Delete(s.open, i, i+1)
	case what == 11 && len(files) > 0:
		l, err := s.d.Open(strings.TrimSuffix(s.pick(files), ".jsonl"))
		if err == nil {
			s.open = append(s.open, l)
			return false // the file may have been rewritten with another time
		} else if !errors.Is(err, sessionlog.ErrReadOnly) && !errors.Is(err, sessionlog.ErrFormat) {
			s.must(err)
		}
	case what == 12 && len(files) > 0:
		name := s.pick(files)
		if err := s.d.Delete(strings.TrimSuffix(name, ".jsonl")); errors.Is(err, sessionlog.ErrExists) || errors.Is(err, vfs.ErrLocked) {
			break // there is one in the trash, or one of its id is open
		} else if s.must(err); r.IntN(2) == 0 {
			s.trash = append(s.trash, name)
		}
	case what == 13 && len(s.trash) > 0:
		if err := s.d.Restore(strings.TrimSuffix(s.trash[0], ".jsonl")); !errors.Is(err, sessionlog.ErrExists) && !errors.Is(err, vfs.ErrLocked) {
			s.must(err)
		}
		s.trash = s.trash[1:]
	case what == 14:
		m := s.meta()
		m.CreatedAt, m.Source = "2026-04-14T10:23:45+00:00", fmt.Sprint("source", r.IntN(4))
		items := []sessionlog.Item{{Message: s.message()}, {Marker: true, Summary: searchText(r, 3)}}
		_, _, err := s.d.Import(m, items)
		s.must(err)
	default:
		s.changeFile(files)
		return false
	}
	return true
}

// changeFile changes a file directly, as another program may.
func (s *scribbler) changeFile(files []string) {
	r := s.r
	fresh := fmt.Sprintf("new%d.jsonl", r.IntN(20)) // not a session of the folder, or one of files
	if slices.ContainsFunc(s.open, func(l *sessionlog.Log) bool { return filepath.Base(l.Path()) == fresh }) {
		return
	}
	if len(files) == 0 || r.IntN(6) == 0 {
		writeSession(s.t, s.path, fresh, `{"agent":"crab","created_by":"cron","created_at":"2026-01-01T00:00:00Z"}`,
			`{"role":"user","content":"alpha of a stranger"}`)
		return
	}
	path := filepath.Join(s.path, s.pick(files))
	how := r.IntN(8)
	s.did = append(s.did, fmt.Sprint("file change ", how, " ", path[len(s.path)+1:]))
	b, err := os.ReadFile(path)
	s.must(err)
	m := s.message()
	appended := m.AppendLine(nil)
	switch how {
	case 0:
		s.must(os.Remove(path))
	case 1:
		s.must(os.Rename(path, filepath.Join(s.path, fresh)))
	case 2: // as the reference changes a title: line 1 is another, in the same file
		_, rest, _ := strings.Cut(string(b), "\n")
		m := sessionlog.Meta{Agent: "crab", CreatedBy: "user", CreatedAt: "x", Title: searchText(r, 2)}
		s.must(os.WriteFile(path, append(m.AppendLine(nil), rest...), 0o600))
	case 3: // shorter
		s.must(os.WriteFile(path, b[:r.IntN(len(b)+1)], 0o600))
	case 4: // another file of the same name
		s.must(os.WriteFile(path+".new", append(b, appended...), 0o600))
		s.must(os.Rename(path+".new", path))
	case 5: // without its end
		s.must(os.WriteFile(path, append(b, appended[:len(appended)-1]...), 0o600))
	case 6: // in the middle of it
		s.must(os.WriteFile(path, append(b, appended[:r.IntN(len(appended))]...), 0o600))
	default:
		s.must(os.WriteFile(path, append(b, appended...), 0o600))
	}
}

// TestIndexIsKeptCurrent compares an index that follows writes and refreshes
// with one that reads the folder from scratch.
func TestIndexIsKeptCurrent(t *testing.T) {
	rounds, steps := 3, 300
	if testing.Short() {
		rounds, steps = 2, 150
	}
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			r := seed.Random(t)
			path := t.TempDir()
			searchFolder(t, r, path, 6)
			d, err := sessionlog.OpenDir(path, &sessionlog.Options{Sync: sessionlog.SyncNone, MaxOpen: 3})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			x := newIndex(t, d, nil)
			s := &scribbler{t: t, r: r, d: d, path: path}
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("after %s", strings.Join(s.did[max(0, len(s.did)-12):], ", "))
				}
			})
			notified := true
			for i := range steps {
				if notified = s.step() && notified; i%5 > 0 {
					continue
				}
				if !notified || r.IntN(20) == 0 {
					if err := x.Refresh(); err != nil {
						t.Fatal(err)
					}
					notified = true
				}
				y := rebuilt(t, path)
				compareIndexes(t, r, x, y, 4)
				y.Close()
			}
		})
	}
}

// countingFS counts the bytes read from files that are opened for reading.
type countingFS struct {
	vfs.FS
	bytes  atomic.Int64
	closed func() // is called when one is closed; or nil
}

type countingFile struct {
	vfs.File
	fs *countingFS
}

func (c *countingFS) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return countingFile{f, c}, nil
}

func (f countingFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.fs.bytes.Add(int64(n))
	return n, err
}

func (f countingFile) Close() error {
	if f.fs.closed != nil {
		f.fs.closed()
	}
	return f.File.Close()
}

// countedSession returns an empty session in a directory whose reads are counted.
func countedSession(t *testing.T) (*countingFS, *sessionlog.Dir, *sessionlog.Log) {
	t.Helper()
	fsys := &countingFS{FS: vfs.OS{}}
	d, err := sessionlog.OpenDir(t.TempDir(), &sessionlog.Options{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
	if err != nil {
		t.Fatal(err)
	}
	return fsys, d, l
}

// TestWrittenWhileIndexed writes to a session that a new index has just read.
func TestWrittenWhileIndexed(t *testing.T) {
	fsys, d, l := countedSession(t)
	var once sync.Once
	fsys.closed = func() {
		once.Do(func() {
			if err := l.Append(sessionlog.Message{Role: "user", Content: "a needle"}); err != nil {
				t.Error(err)
			}
		})
	}
	x := newIndex(t, d, nil)
	if r := mustSearch(t, x, search.Query{Text: "needle"}); r.Total != 1 {
		t.Errorf("%+v", r)
	}
}

// TestAppendIsNotReadBack checks that an index takes the appends of this
// process from memory and does not read the file.
func TestAppendIsNotReadBack(t *testing.T) {
	fsys, d, l := countedSession(t)
	x := newIndex(t, d, nil)
	before, opened := fsys.bytes.Load(), 0
	fsys.closed = func() { opened++ }
	for range 3 {
		if err := l.Append(sessionlog.Message{Role: "user", Content: "a needle"}); err != nil {
			t.Fatal(err)
		}
	}
	if read := fsys.bytes.Load() - before; read > 0 || opened > 0 {
		t.Errorf("%d bytes were read from %d files", read, opened)
	}
	fsys.closed = nil
	if r := mustSearch(t, x, search.Query{Text: "needle"}); r.Total != 3 {
		t.Errorf("%d messages found, want 3", r.Total)
	}
}

// TestLongMessageReleasesBuffers checks that after a very long message an index
// keeps its terms, but not the buffers for reading it.
func TestLongMessageReleasesBuffers(t *testing.T) {
	race.Skip(t)
	d, err := sessionlog.OpenDir(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	x := newIndex(t, d, nil)
	say := func(text string) {
		l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
		if err == nil {
			err = errors.Join(l.Append(sessionlog.Message{Role: "user", Content: text}), l.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	say("short")
	before := measuredHeap()
	say(strings.Repeat("some words ", 8<<20/11))
	after := measuredHeap()
	t.Logf("%.1f MiB before, %.1f after", before/(1<<20), after/(1<<20))
	if after-before > 6<<20 {
		t.Errorf("%.1f MiB are left", (after-before)/(1<<20))
	}
	if r := mustSearch(t, x, search.Query{Text: "words"}); r.Total != 1 {
		t.Errorf("%+v", r)
	}
}

// TestRefreshReadsOnlyNewLines counts the bytes that a refresh reads.
func TestRefreshReadsOnlyNewLines(t *testing.T) {
	dir := t.TempDir()
	meta := `{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00"}`
	filler := `{"role":"user","content":"` + strings.Repeat("hay ", 1000) + `"}`
	for i := range 50 {
		writeSession(t, dir, fmt.Sprintf("crab_user_%d.jsonl", i+1), append([]string{meta}, slices.Repeat([]string{filler}, 50)...)...)
	}
	fsys := &countingFS{FS: vfs.OS{}}
	d, err := sessionlog.OpenDir(dir, &sessionlog.Options{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	x := newIndex(t, d, nil)
	refresh := func() int64 {
		fsys.bytes.Store(0)
		if err := x.Refresh(); err != nil {
			t.Fatal(err)
		}
		return fsys.bytes.Load()
	}
	if n := refresh(); n != 0 {
		t.Errorf("a refresh of an unchanged folder reads %d bytes", n)
	}
	path := filepath.Join(dir, "crab_user_7.jsonl")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"role":"user","content":"a needle"}` + "\n"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if n := refresh(); n == 0 || n > 8<<10 {
		t.Errorf("a refresh of one new message reads %d bytes", n)
	}
	if err := os.Rename(path, filepath.Join(dir, "crab_user_7_title.jsonl")); err != nil {
		t.Fatal(err)
	}
	if n := refresh(); n > 8<<10 {
		t.Errorf("a refresh after a title reads %d bytes", n)
	}
	// In the middle of a file of the same length.
	if err := rewrite(filepath.Join(dir, "crab_user_9.jsonl"), strings.Repeat("hay ", 1000)+`"}`+"\n"+`{"role":"user","content":"hay hay`,
		strings.Repeat("hay ", 1000)+`"}`+"\n"+`{"role":"user","content":"hay pin`); err != nil {
		t.Fatal(err)
	}
	refresh()
	if r := mustSearch(t, x, search.Query{Text: "pin"}); r.Total == 0 || r.Hits[0].Line != 3 {
		t.Errorf("%+v", r.Hits)
	}
	r := mustSearch(t, x, search.Query{Text: "needle"})
	if r.Total != 2 || r.Hits[0].File != "crab_user_7_title.jsonl" || r.Hits[0].ID != "crab_user_7" || r.Hits[0].Line != 52 || r.Hits[0].Snippet != "a needle" {
		t.Errorf("%+v", r.Hits)
	}
}

// TestRefreshSeesReplacedEnd has another program replace the last message that
// the index has read, in the same file, and append to it.
func TestRefreshSeesReplacedEnd(t *testing.T) {
	dir := t.TempDir()
	line := func(word string) string {
		return `{"role":"user","content":"` + strings.Repeat("hay ", 500) + word + `"}` + "\n"
	}
	path := filepath.Join(dir, "crab_user_1.jsonl")
	meta := `{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00"}` + "\n"
	if err := os.WriteFile(path, []byte(meta+line("first")+line("needle")), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := sessionlog.OpenDir(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	x := newIndex(t, d, &search.IndexOptions{Analyzer: analysis.Plain})
	for _, step := range []struct{ content, lost, found string }{
		{meta + line("first") + line("pin") + line("thread"), "needle", "pin"},
		{meta + line("first") + line("pin") + line("button") + line("hook"), "thread", "button"},
	} {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(step.content); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := x.Refresh(); err != nil {
			t.Fatal(err)
		}
		if r := mustSearch(t, x, search.Query{Text: step.lost}); r.Total != 0 {
			t.Errorf("%q is found: %+v", step.lost, r.Hits)
		}
		if r := mustSearch(t, x, search.Query{Text: step.found}); r.Total != 1 {
			t.Errorf("%q is found %d times", step.found, r.Total)
		}
	}
}

// TestIndexWhileWriting searches, refreshes and rebuilds while sessions are
// written, titled, deleted and restored.
func TestIndexWhileWriting(t *testing.T) {
	path := t.TempDir()
	r := seed.Random(t)
	searchFolder(t, r, path, 10)
	d, err := sessionlog.OpenDir(path, &sessionlog.Options{Sync: sessionlog.SyncNone})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	seeds := []uint64{r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()}
	var writing, reading sync.WaitGroup
	var x atomic.Pointer[search.Index]
	var done atomic.Bool
	for w := range 3 {
		writing.Go(func() {
			r := rand.New(rand.NewPCG(seeds[w], 0))
			for n := range 15 {
				l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: fmt.Sprint("writer", w), Title: "beta"})
				if err != nil {
					t.Error(err)
					return
				}
				for range 10 {
					err = errors.Join(err, l.Append(randomMessage(r, "c1"), randomMessage(r, "c0")))
				}
				err = errors.Join(err, l.SetTitle(fmt.Sprint("gamma ", n)), l.Compact("delta"), l.Append(randomMessage(r, "c1")), l.Close())
				if n%3 == 0 {
					err = errors.Join(err, d.Delete(l.ID()))
				}
				if n%6 == 0 {
					err = errors.Join(err, d.Restore(l.ID()))
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	first, err := search.NewIndex(d, nil) // in the midst of it
	if err != nil {
		t.Fatal(err)
	}
	x.Store(first)
	for w := range 2 {
		reading.Go(func() {
			r := rand.New(rand.NewPCG(seeds[3+w], 0))
			for n := 0; !done.Load(); n++ {
				res, err := x.Load().Search(t.Context(), randomSearch(r))
				if err != nil {
					t.Error(err)
					return
				}
				if res.Total > res.Searched || len(res.Hits) > res.Total {
					t.Errorf("%d hits of %d in %d", len(res.Hits), res.Total, res.Searched)
				}
				if n%16 == 0 {
					if err := x.Load().Refresh(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	writing.Wait()
	done.Store(true)
	reading.Wait()
	compareIndexes(t, r, first, rebuilt(t, path), 100)
	if _, err := search.NewIndex(d, nil); err == nil {
		t.Error("two indexes of one folder")
	}
	first.Close()
	if _, err := first.Search(t.Context(), search.Query{Text: "alpha"}); err == nil {
		t.Error("a closed index finds something")
	}
	if err := first.Refresh(); err == nil {
		t.Error("a closed index is refreshed")
	}
	second := newIndex(t, d, nil)
	compareIndexes(t, r, second, rebuilt(t, path), 10)
}

// TestIndexWithoutFolder is of a folder that the first session makes.
func TestIndexWithoutFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions")
	d := openSearchDir(t, path)
	x := newIndex(t, d, nil)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("indexing makes the folder: %v", err)
	}
	l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(sessionlog.Message{Role: "user", Content: "a needle"}); err != nil {
		t.Fatal(err)
	}
	if r := mustSearch(t, x, search.Query{Text: "needle"}); r.Total != 1 || r.Searched != 2 || r.Hits[0].Snippet != "a needle" {
		t.Errorf("%+v", r)
	}
}
