// Package ops compares a store with a model, a plain map. Random programs of
// operations, reopens, checkpoints, and kills drive both.
package ops

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/refdec"
	"crabmem/fuzz/seed"

	"golang.org/x/text/unicode/norm"
)

var (
	programs = flag.Int("programs", 300, "number of programs")
)

const path = "/home/me/memory.db"

// model is the expected content of a store. The key of an entry is its name.
type model struct {
	entries map[string]crmem.Entry
	nextID  uint64
}

func (m *model) clone() model { return model{maps.Clone(m.entries), m.nextID} }

func (m *model) list() []crmem.Entry {
	return slices.SortedFunc(maps.Values(m.entries), func(a, b crmem.Entry) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
}

// apply applies one operation or returns the expected error. The parameter empty
// reports whether the store was empty before the batch. The map given contains the IDs
// of the batch.
func (m *model) apply(op crmem.Op, now uint64, empty bool, given map[uint64]bool) error {
	switch o := op.(type) {
	case crmem.Add:
		if _, taken := m.find(o.Name); taken {
			return crmem.ErrExists
		}
		return m.add(crmem.Entry{ID: m.nextID, Name: o.Name, Kind: o.Kind, CreatedAt: crmem.UnixTime(now), Content: o.Content, Aliases: o.Aliases}, given)
	case crmem.Update:
		e, exists := m.entries[o.Name]
		if !exists {
			return crmem.ErrNotFound
		}
		e.Content, e.Aliases = o.Content, o.Aliases
		m.entries[o.Name] = e
	case crmem.Alias:
		e, exists := m.entries[o.Name]
		if !exists {
			return crmem.ErrNotFound
		}
		e.Aliases = o.Aliases
		m.entries[o.Name] = e
	case crmem.Remove:
		if _, exists := m.entries[o.Name]; !exists {
			return crmem.ErrNotFound
		}
		delete(m.entries, o.Name)
	case crmem.Restore:
		e := o.Entry
		if _, taken := m.entries[e.Name]; taken {
			return crmem.ErrExists
		}
		if e.ID == 0 || e.ID < m.nextID && (!empty || given[e.ID]) {
			e.ID = m.nextID
		}
		return m.add(e, given)
	}
	return nil
}

func (m *model) add(e crmem.Entry, given map[uint64]bool) error {
	if e.ID == math.MaxUint64 {
		return crmem.ErrInvalid
	}
	m.entries[e.Name] = e
	m.nextID = max(m.nextID, e.ID+1)
	given[e.ID] = true
	return nil
}

// find returns the name of the entry with a name, or with a canonically equivalent one.
func (m *model) find(name string) (string, bool) {
	if _, exact := m.entries[name]; exact {
		return name, true
	}
	for other := range m.entries {
		if norm.NFC.String(other) == norm.NFC.String(name) {
			return other, true
		}
	}
	return name, false
}

// batch applies all operations, or none if one fails.
func (m *model) batch(ops []crmem.Op, now uint64) error {
	next := m.clone()
	empty, given := len(m.entries) == 0, map[uint64]bool{}
	for _, op := range ops {
		if err := next.apply(op, now, empty, given); err != nil {
			return err
		}
	}
	*m = next
	return nil
}

// program is a sequence of choices, one per byte. After the last byte each choice
// is 0.
type program []byte

func (p *program) pick(n int) int {
	if len(*p) == 0 {
		return 0
	}
	b := int((*p)[0])
	*p = (*p)[1:]
	return b % n
}

var (
	names    = []string{"a", "b", "c", "dir/x", "日本", "\x01 odd\nname", "A", "long name of several words", "e\u0301", "\u00e9"}
	contents = []string{"", "one", "two words", "the quick brown fox", "京都のホテル", "\r\n\t ", "<div id=\"meta\">", "naïve café"}
	aliases  = [][]string{nil, {"x"}, {"x", "y"}, {"x", "x"}, {"a"}, {"ship", "release", "旅"}}
)

func (p *program) op() crmem.Op {
	name := names[p.pick(len(names))]
	content := contents[p.pick(len(contents))]
	list := aliases[p.pick(len(aliases))]
	switch p.pick(5) {
	case 0:
		return crmem.Add{Name: name, Content: content, Aliases: list, Kind: crmem.Kind(p.pick(2))}
	case 1:
		return crmem.Update{Name: name, Content: content, Aliases: list}
	case 2:
		return crmem.Alias{Name: name, Aliases: list}
	case 3:
		return crmem.Remove{Name: name}
	}
	return crmem.Restore{Entry: crmem.Entry{ID: uint64(p.pick(40)), Name: name, Kind: crmem.Kind(p.pick(2)), CreatedAt: crmem.UnixTime(p.pick(256)) << 40, Content: content, Aliases: list}}
}

// world contains a store, the store's file system, and the model.
type world struct {
	mem   *faultfs.Mem
	opts  crmem.Options
	store *crmem.Store
	model model
	now   uint64
}

// run runs a program and returns the number of steps.
func run(p program) (steps int, err error) {
	w := &world{mem: faultfs.NewMem(), model: model{map[string]crmem.Entry{}, 1}, now: 1000}
	w.opts = crmem.Options{
		FS:                w.mem,
		Now:               func() time.Time { return time.Unix(int64(w.now), 0) },
		CheckpointOnClose: crmem.CheckpointMode(p.pick(3)),
		Literal:           p.pick(4) == 1,
		LogLimit:          []int64{0, 1, 300}[p.pick(3)],
	}
	if err := w.mem.Mkdir("/home", 0o755); err != nil {
		return 0, err
	}
	if w.store, err = crmem.Open(path, &w.opts); err != nil {
		return 0, err
	}
	for len(p) > 0 {
		steps++
		if err := w.step(&p); err != nil {
			return steps, fmt.Errorf("step %d: %w", steps, err)
		}
	}
	if err := w.store.Close(); err != nil {
		return steps, fmt.Errorf("close: %w", err)
	}
	return steps, w.files()
}

func (w *world) step(p *program) error {
	w.now += uint64(p.pick(3))
	switch p.pick(16) {
	case 0, 1, 2, 3, 4, 5, 6:
		return w.batch([]crmem.Op{p.op()})
	case 7:
		ops := make([]crmem.Op, p.pick(5))
		for i := range ops {
			ops[i] = p.op()
		}
		return w.batch(ops)
	case 8:
		return w.remember(names[p.pick(len(names))], contents[p.pick(len(contents))], aliases[p.pick(len(aliases))])
	case 9:
		return w.forget(names[p.pick(len(names))])
	case 10:
		if err := w.store.Checkpoint(); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	case 11:
		if err := w.store.Close(); err != nil {
			return fmt.Errorf("close: %w", err)
		}
		return w.reopen()
	case 12: // the process is killed, and another one opens the store
		w.mem = w.mem.Kill()
		w.opts.FS = w.mem
		return w.reopen()
	case 13:
		return w.reader()
	case 14:
		return w.get(append(slices.Clone(names), "x", "ship", "nobody")[p.pick(len(names)+3)])
	case 15:
		return w.search([]string{"one", "words fox", "x", "caf\u00e9", "京都"}[p.pick(5)], analysis.Analyzer(p.pick(2)))
	}
	return w.same(w.store)
}

func (w *world) reopen() error {
	s, err := crmem.Open(path, &w.opts)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	w.store = s
	return w.same(s)
}

func (w *world) same(s *crmem.Store) error {
	want := w.model.list()
	if got := slices.Collect(s.All()); !slices.EqualFunc(got, want, crmem.Entry.Equal) {
		return fmt.Errorf("entries %+v, want %+v", got, want)
	}
	if s.Len() != len(want) || s.NextID() != w.model.nextID {
		return fmt.Errorf("%d entries and next_id %d, want %d and %d", s.Len(), s.NextID(), len(want), w.model.nextID)
	}
	return nil
}

func sameError(got, want error) error {
	if want == nil && got != nil || want != nil && !errors.Is(got, want) {
		return fmt.Errorf("error %v, want %v", got, want)
	}
	return nil
}

func (w *world) batch(ops []crmem.Op) error {
	want := w.model.batch(ops, w.now)
	if err := sameError(w.store.Apply(ops...), want); err != nil {
		return fmt.Errorf("apply %+v: %w", ops, err)
	}
	return w.same(w.store)
}

func (w *world) remember(name, content string, list []string) error {
	name, exists := w.model.find(name)
	old := w.model.entries[name]
	var want error
	switch {
	case !exists:
		want = w.model.batch([]crmem.Op{crmem.Add{Name: name, Content: content, Aliases: list}}, w.now)
	case old.Kind != crmem.Note:
		want = crmem.ErrKind
	default:
		if list == nil {
			list = old.Aliases
		}
		want = w.model.batch([]crmem.Op{crmem.Update{Name: name, Content: content, Aliases: list}}, w.now)
	}
	e, err := w.store.Remember(name, content, list)
	if err := sameError(err, want); err != nil {
		return fmt.Errorf("remember %q: %w", name, err)
	}
	if want == nil && !e.Equal(w.model.entries[name]) {
		return fmt.Errorf("remember returns %+v, want %+v", e, w.model.entries[name])
	}
	return w.same(w.store)
}

func (w *world) forget(name string) error {
	name, exists := w.model.find(name)
	e := w.model.entries[name]
	var want error
	switch {
	case !exists:
		want = crmem.ErrNotFound
	case e.Kind != crmem.Note:
		want = crmem.ErrKind
	default:
		delete(w.model.entries, name)
	}
	if err := sameError(w.store.Forget(name), want); err != nil {
		return fmt.Errorf("forget %q: %w", name, err)
	}
	return w.same(w.store)
}

// get compares Get of a name or an alias. An alias of several entries is ambiguous.
func (w *world) get(name string) error {
	want, exists := w.model.entries[name]
	var owners []string
	if !exists {
		for _, e := range w.model.list() {
			if slices.Contains(e.Aliases, name) {
				owners, want = append(owners, e.Name), e
			}
		}
	}
	if other, found := w.model.find(name); found && len(owners) == 0 {
		want, exists = w.model.entries[other], true
	}
	got, err := w.store.Get(name)
	switch {
	case exists || len(owners) == 1:
		if err != nil || !got.Equal(want) {
			return fmt.Errorf("get %q: %+v, %v, want %+v", name, got, err, want)
		}
	case len(owners) == 0:
		if !errors.Is(err, crmem.ErrNotFound) {
			return fmt.Errorf("get %q: %v, want ErrNotFound", name, err)
		}
	default:
		a, ambiguous := errors.AsType[*crmem.AmbiguousError](err)
		if !ambiguous || !slices.Equal(a.Owners, owners) {
			return fmt.Errorf("get %q: %v, want the owners %q", name, err, owners)
		}
	}
	return nil
}

// search compares the hits with the hits of a new store.
func (w *world) search(text string, a analysis.Analyzer) error {
	fresh := crmem.New(&w.opts)
	defer fresh.Close()
	for _, e := range w.model.list() {
		if err := fresh.Apply(crmem.Restore{Entry: e}); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	q := crmem.Query{Text: text, Analyzer: a}
	want, err := fresh.Search(context.Background(), q)
	if err != nil {
		return err
	}
	got, err := w.store.Search(context.Background(), q)
	if err != nil {
		return fmt.Errorf("search: %w", err)
	}
	same := func(a, b crmem.Hit) bool { return a.Entry.Equal(b.Entry) && a.Score == b.Score }
	if !slices.EqualFunc(got.Hits, want.Hits, same) || got.Total != want.Total || got.Searched != want.Searched {
		return fmt.Errorf("search %q: %+v, a new store returns %+v", text, got, want)
	}
	return nil
}

// reader opens the store concurrently with its writer.
func (w *world) reader() error {
	o := w.opts
	o.ReadOnly = true
	r, err := crmem.Open(path, &o)
	if err != nil {
		return fmt.Errorf("open read-only: %w", err)
	}
	if err := w.same(r); err != nil {
		return fmt.Errorf("reader: %w", err)
	}
	if err := r.Apply(crmem.Add{Name: "z"}); !errors.Is(err, crmem.ErrReadOnly) {
		return fmt.Errorf("reader applies an operation: error %v, want ErrReadOnly", err)
	}
	return r.Close()
}

// files checks the final files with the independent decoder and with Check.
func (w *world) files() error {
	db, err := vfs.ReadFile(w.mem, path, 1<<30)
	if err != nil {
		if w.model.nextID == 1 {
			return nil // the store was never changed
		}
		return err
	}
	s, err := refdec.Snapshot(db)
	if err != nil {
		return err
	}
	if log, lerr := vfs.ReadFile(w.mem, path+"-wal", 1<<30); lerr == nil {
		var verdict string
		if s, verdict, _, err = refdec.Recover(db, log); err != nil || verdict != "clean" {
			return fmt.Errorf("the independent decoder returns %q, %v", verdict, err)
		}
	}
	want := &refdec.Store{NextID: w.model.nextID}
	for _, e := range w.model.list() {
		want.Entries = append(want.Entries, refdec.Entry{ID: e.ID, CreatedAt: uint64(e.CreatedAt), Kind: uint32(e.Kind), Name: e.Name, Content: e.Content, Aliases: e.Aliases})
	}
	if string(s.Bytes()) != string(want.Bytes()) {
		return fmt.Errorf("the independent decoder has %+v, want %+v", s, want)
	}
	r, err := crmem.Check(w.mem, path, 0)
	if err == nil && len(r.Problems) != 0 {
		err = fmt.Errorf("check reports %+v", r.Problems)
	}
	return err
}

// TestPrograms runs random programs. The seed determines the programs.
func TestPrograms(t *testing.T) {
	s := seed.Of(t)
	rng := rand.New(rand.NewPCG(s, 0))
	total := 0
	for i := range *programs {
		p := make(program, 200+rng.IntN(800))
		for j := range p {
			p[j] = byte(rng.Uint32())
		}
		steps, err := run(p)
		if err != nil {
			t.Fatalf("seed %d, program %d: %v", s, i, err)
		}
		total += steps
	}
	t.Logf("%d programs, %d steps (seed %d)", *programs, total, s)
}

func FuzzOps(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 8 {
		p := make([]byte, 120)
		for j := range p {
			p[j] = byte(rng.Uint32())
		}
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) > 4096 {
			return // longer programs find no other failures
		}
		if _, err := run(slices.Clone(p)); err != nil {
			t.Fatal(err)
		}
	})
}
