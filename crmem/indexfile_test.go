package crmem_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

var noErr = crmem.NoErr

// indexStores returns the number of random stores that a test compares.
func indexStores(t *testing.T) int {
	n := 30
	if v := os.Getenv("CRABMEM_INDEXES"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

var indexWords = strings.Fields("deploy deploys deployed deploying release released canary camelCaseName snake_case v1.2.3 tea coffee the and " +
	"memory memories index indexes rate_limit HTTP 404 日本語 русский café run running runner quick quickly")

// randomText returns a text of words that several entries share.
func randomText(rng *rand.Rand, n int) string {
	var b strings.Builder
	for range rng.IntN(n + 1) {
		b.WriteString(indexWords[rng.IntN(len(indexWords))])
		b.WriteByte(" .\n"[rng.IntN(3)])
	}
	return b.String()
}

// randomMessage returns a message of one of two conversations. Its metadata may be invalid.
func randomMessage(rng *rand.Rand) string {
	position := fmt.Sprint(rng.IntN(8))
	if rng.IntN(10) == 0 {
		position = "-1"
	}
	return fmt.Sprintf("---\nconversation: %s\nposition: %s\nrole: %s\ndate: %s\n---\n%s%s", indexWords[rng.IntN(2)], position,
		[]string{"user", "assistant", "Nora"}[rng.IntN(3)], []string{"2023-11-14", "2026-03-14", "soon"}[rng.IntN(3)],
		randomText(rng, 6), []string{"", "?"}[rng.IntN(2)])
}

// randomOp returns an operation that may fail.
func randomOp(rng *rand.Rand) crmem.Op {
	name := func() string { return fmt.Sprintf("%s %d", indexWords[rng.IntN(4)], rng.IntN(12)) }
	var aliases []string
	for range rng.IntN(3) {
		aliases = append(aliases, indexWords[rng.IntN(6)])
	}
	content := randomText(rng, 30)
	switch rng.IntN(12) {
	case 0:
		content = fmt.Sprintf("---\ncrabmem: 1\ntags: [%s]\nsupersedes: \"[[%s]]\"\n---\n%s", indexWords[rng.IntN(6)], name(), content)
	case 1:
		content = fmt.Sprintf("---\ncontradicts: \"[[%s]]\"\n---\n%s", name(), content)
	case 2:
		content = strings.Repeat(content, 20)
	case 3, 4, 5:
		content = randomMessage(rng)
	}
	switch rng.IntN(9) {
	case 0:
		return crmem.Remove{Name: name()}
	case 1:
		return crmem.Rename{Name: name(), To: name()}
	case 2:
		return crmem.Alias{Name: name(), Aliases: aliases}
	case 3:
		return crmem.Add{Name: name(), Content: content, Aliases: aliases, Kind: crmem.Archive}
	}
	return crmem.Remember{Name: name(), Content: content, Aliases: aliases}
}

// indexScene is a store whose files tests open in several ways.
type indexScene struct {
	t     *testing.T
	fs    *faultfs.Mem
	clock time.Time
	warn  []string
}

func newIndexScene(t *testing.T) *indexScene {
	c := &indexScene{t: t, fs: faultfs.NewMem(), clock: time.Unix(1_700_000_000, 0)}
	c.fs.Now = func() time.Time { return c.clock }
	return c
}

func (c *indexScene) open(o crmem.Options) *crmem.Store {
	c.t.Helper()
	o.FS, o.Now = c.fs, func() time.Time { return c.clock }
	o.Warn = func(s string) { c.warn = append(c.warn, s) }
	s, err := crmem.Open("/m.db", &o)
	noErr(c.t, err)
	return s
}

// write applies random operations.
func (c *indexScene) write(rng *rand.Rand, n int, o crmem.Options) {
	c.t.Helper()
	s := c.open(o)
	for range n {
		_ = s.Apply(randomOp(rng)) // some fail
	}
	noErr(c.t, s.Close())
}

func (c *indexScene) hasFile(name string) bool {
	_, err := c.fs.Lstat(name)
	return err == nil
}

var indexFiles = []string{"/m.db-index-standard", "/m.db-index-plain"}

func (c *indexScene) removeIndexes() {
	for _, name := range indexFiles {
		if err := c.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.t.Fatal(err)
		}
	}
}

// answers returns what a store answers to lookups and queries, which depend on a seed.
func answers(t *testing.T, s *crmem.Store, seed uint64) (list []string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	add := func(v ...any) { list = append(list, fmt.Sprintf("%+v", v)) }
	for range 10 {
		q := crmem.Query{Text: randomText(rng, 4), Limit: rng.IntN(6), Count: rng.IntN(2) == 0, Explain: rng.IntN(2) == 0, Expand: rng.IntN(3)}
		switch rng.IntN(6) {
		case 0:
			q.Analyzer = analysis.Plain
		case 1:
			q.Text = "deplyo memries " + q.Text
		case 2:
			q.Text = fmt.Sprintf("%s %d", indexWords[rng.IntN(4)], rng.IntN(12))
		case 3:
			q.Syntax, q.Text = true, "kind:note -tea "+q.Text
		case 4:
			q.Text += []string{" yesterday", " in March", " on 14 November 2023"}[rng.IntN(3)]
		}
		if rng.IntN(4) == 0 {
			q.Kinds = []crmem.Kind{crmem.Archive}
		}
		if rng.IntN(4) == 0 {
			q.Sort = crmem.ByRecent
		}
		r, err := s.Search(context.Background(), q)
		noErr(t, err)
		add(q.Text, r.Total, r.Searched, r.Corrections)
		for i, h := range r.Hits {
			add(h.Entry, h.Score, h.Marks.Notes())
			if q.Explain {
				add(r.Explanations[i])
			}
		}
		e, ok, err := s.Explain(context.Background(), q, 1+rng.Uint64N(20))
		noErr(t, err)
		add(e, ok)
	}
	for _, word := range indexWords[:6] {
		e, err := s.Get(word)
		add(e, err)
		for n := range 12 {
			e, err := s.Get(fmt.Sprintf("%s %d", word, n))
			add(e, err)
		}
	}
	add(s.Len(), s.NextID())
	return list
}

// TestIndexFileEquality compares the answers of stores that use index files with those
// of a store without them: lazy and complete, before and after more operations of the
// log, and after checkpoints.
func TestIndexFileEquality(t *testing.T) {
	t.Parallel()
	race.Skip(t)
	used := 0
	for seed := range uint64(indexStores(t)) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := newIndexScene(t)
		c.write(rng, 40, crmem.Options{CheckpointOnClose: crmem.CheckpointAlways})
		if rng.IntN(2) == 0 {
			c.write(rng, 5, crmem.Options{CheckpointOnClose: crmem.CheckpointNever})
		}
		c.clock = c.clock.Add(time.Duration(rng.IntN(5)) * time.Second)
		s := c.open(crmem.Options{ReadOnly: true, Lazy: true})
		answers(t, s, seed) // builds both indexes
		noErr(t, s.Close())
		for range 3 {
			lazy := c.open(crmem.Options{ReadOnly: true, Lazy: true})
			if crmem.UsesIndexFile(lazy) {
				used++
			}
			got := answers(t, lazy, seed)
			if rng.IntN(3) == 0 {
				noErr(t, lazy.Load())
				compareAnswers(t, seed, "after Load", answers(t, lazy, seed), got)
			}
			noErr(t, lazy.Close())
			complete := c.open(crmem.Options{ReadOnly: true})
			full := answers(t, complete, seed)
			noErr(t, complete.Close())
			hidden := c.hide()
			plain := c.open(crmem.Options{ReadOnly: true})
			want := answers(t, plain, seed)
			noErr(t, plain.Close())
			hidden()
			compareAnswers(t, seed, "lazy", got, want)
			compareAnswers(t, seed, "complete", full, want)
			mode := []crmem.CheckpointMode{crmem.CheckpointNever, crmem.CheckpointNever, crmem.CheckpointAlways}[rng.IntN(3)]
			c.write(rng, 1+rng.IntN(6), crmem.Options{CheckpointOnClose: mode, Lazy: rng.IntN(2) == 0})
			c.clock = c.clock.Add(time.Second)
		}
		if len(c.warn) > 0 {
			t.Fatalf("seed %d: %q", seed, c.warn)
		}
	}
	if used < indexStores(t) {
		t.Errorf("only %d lazy stores used an index file", used)
	}
}

// hide removes the index files, and returns a function that restores them.
func (c *indexScene) hide() func() {
	data := map[string][]byte{}
	for _, name := range indexFiles {
		if c.hasFile(name) {
			b, err := vfs.ReadFile(c.fs, name, 1<<30)
			noErr(c.t, err)
			data[name] = b
		}
	}
	c.removeIndexes()
	return func() {
		for name, b := range data {
			c.fs.WriteFile(name, b, 0o600)
		}
	}
}

func compareAnswers(t *testing.T, seed uint64, what string, got, want []string) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("seed %d, %s: answer %d\n got %s\nwant %s", seed, what, i, got[min(i, len(got)-1)], want[i])
		}
	}
	t.Fatalf("seed %d, %s: %d answers, want %d", seed, what, len(got), len(want))
}
