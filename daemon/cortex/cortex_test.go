package cortex

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
	"crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// rig is a store at a time.
type rig struct {
	*crmem.Store
	fs  *faultfs.Mem
	t   *testing.T
	now time.Time
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, fs: faultfs.NewMem(), now: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}
	var err error
	r.check(vfs.MkdirAll(r.fs, "/home", 0o700))
	r.Store, err = crmem.Open("/home/memory.db", &crmem.Options{FS: r.fs, Now: func() time.Time { return r.now }})
	r.check(err)
	t.Cleanup(func() { r.Close() })
	return r
}

func (r *rig) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) add(ops ...crmem.Op) {
	r.t.Helper()
	_, err := r.Do(ops...)
	r.check(err)
}

// note adds a note.
func (r *rig) note(name, content string, aliases ...string) {
	r.t.Helper()
	r.add(crmem.Add{Name: name, Content: content, Aliases: aliases})
}

// pass makes proposals.
func (r *rig) pass() (list []Proposal) {
	r.t.Helper()
	r.check(Change(r.fs, r.Path(), func(b *Book) (err error) {
		list, err = b.Pass(r.Store, r.now, func(name string) bool { return strings.HasPrefix(name, "task: ") })
		return err
	}))
	return list
}

// answer answers a proposal.
func (r *rig) answer(p Proposal, accept bool) {
	r.t.Helper()
	if accept {
		ops, err := p.Ops(r.Store)
		r.check(err)
		r.add(ops...)
	}
	r.check(Change(r.fs, r.Path(), func(b *Book) error { return b.Answer(p.N, accept, r.now) }))
}

// open lists the open proposals.
func (r *rig) open() []Proposal {
	r.t.Helper()
	b, err := Read(r.fs, r.Path())
	r.check(err)
	return b.Open(r.Store)
}

func (r *rig) all() (list []crmem.Entry) { return slices.AppendSeq(list, r.All()) }

// undo undoes the newest changes.
func (r *rig) undo(n int) {
	r.t.Helper()
	var seqs []uint64
	for c, err := range r.Changes() {
		r.check(err)
		seqs = append(seqs, c.Seq)
	}
	slices.Sort(seqs)
	for i := range n {
		_, err := r.Undo(seqs[len(seqs)-1-i])
		r.check(err)
	}
}

func (r *rig) same(what string, before []crmem.Entry) {
	r.t.Helper()
	if after := r.all(); !slices.EqualFunc(before, after, crmem.Entry.Equal) {
		r.t.Errorf("%s: the store differs", what)
	}
}

// threes are the sequences of 3 words of a text: another way to count than lint's.
func threes(text string) map[string]bool {
	words := strings.FieldsFunc(strings.ToLower(metadata.Text(text)), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	set := make(map[string]bool)
	for i := 0; i+2 < len(words); i++ {
		set[strings.Join(words[i:i+3], " ")] = true
	}
	return set
}

func jaccard(a, b map[string]bool) float64 {
	both := 0
	for s := range a {
		if b[s] {
			both++
		}
	}
	return float64(both) / float64(len(a)+len(b)-both)
}

// TestSample plants 30 duplicates and stale notes in the sample memory, and lists which
// are found and missed. A comparison of all pairs finds no further ones. No note changes,
// and a second pass proposes nothing.
func TestSample(t *testing.T) {
	r := newRig(t)
	sample := crmem.New(nil)
	_, err := tree.Load(sample, "../../testdata/brain", nil)
	r.check(err)
	var ops []crmem.Op
	for e := range sample.All() {
		ops = append(ops, crmem.Restore{Entry: e})
	}
	r.add(ops...)
	r.now = r.now.Add(24 * time.Hour)
	planted := make(map[string]string) // what each planted note is
	for _, e := range r.all() {
		words := strings.Fields(metadata.Text(e.Content))
		if e.Kind != crmem.Note || len(words) < 45 || len(planted) == 20 {
			continue
		}
		content := e.Content
		what := Duplicate
		if len(planted) >= 10 { // one word differs
			content = strings.Replace(content, words[len(words)/2], "otherwise", 1)
			what = "one word differs, of " + fmt.Sprint(len(words)) + " words"
		}
		r.note("copy of "+e.Name, content)
		planted["copy of "+e.Name] = what
	}
	r.now = r.now.Add(-60 * 24 * time.Hour)
	for i := range 10 {
		name := fmt.Sprint("old ", i)
		r.note(name, fmt.Sprintf("---\nimportance: 0.%d\n---\nA fact number %d.\n", 1+i%4, i))
		planted[name] = Prune + fmt.Sprintf(" with importance 0.%d", 1+i%4)
	}
	r.now = r.now.Add(60 * 24 * time.Hour)
	if len(planted) != 30 {
		t.Fatalf("%d planted", len(planted))
	}
	before := r.all()
	list := r.pass()
	found := make(map[string]string)
	for _, p := range list {
		last := p.Names[len(p.Names)-1]
		found[last] += p.Kind
		if p.Kind != Prune {
			a, _ := r.Get(p.Names[0])
			b, _ := r.Get(p.Names[1])
			if want := fmt.Sprint(int(100*jaccard(threes(a.Content), threes(b.Content))), " %"); !strings.HasPrefix(p.Why, want) {
				t.Errorf("%q: %s, want %s", p.Names, p.Why, want)
			}
		}
		if planted[last] == "" {
			t.Logf("not planted: %s of %q, %s", p.Kind, p.Names, p.Why)
		}
	}
	for name, what := range planted {
		kind := found[name]
		t.Logf("%s (%s): %s", name, what, map[bool]string{true: "missed", false: "found as " + kind}[kind == ""])
		switch {
		case what == Duplicate && kind != Duplicate,
			strings.HasPrefix(what, "one word") && kind != Duplicate && kind != Related,
			strings.HasPrefix(what, Prune) && (kind == Prune) != (what != Prune+" with importance 0.3" && what != Prune+" with importance 0.4"):
			t.Errorf("%s (%s) is found as %q", name, what, kind)
		}
	}
	// The same pairs are found without sketches.
	sets := make([]map[string]bool, len(before))
	for i, e := range before {
		sets[i] = threes(e.Content)
		mine := sets[i]
		for k, o := range before[:i] {
			if e.Kind != crmem.Note || o.Kind != crmem.Note || len(mine) < 3 {
				continue
			}
			if share := jaccard(mine, sets[k]); share >= relatedShare && found[e.Name] == "" {
				t.Errorf("missed: %q and %q, share %.2f", o.Name, e.Name, share)
			}
		}
	}
	r.same("after a pass", before)
	size := func() int {
		text, err := vfs.ReadFile(r.fs, pathOf(r.Path()), 1<<20)
		r.check(err)
		return len(text)
	}
	was := size()
	for range 3 {
		if again := r.pass(); len(again) > 0 || size() != was {
			t.Fatalf("again: %v, %d bytes, then %d", again, was, size())
		}
	}
	if open := r.open(); len(open) != len(list) {
		t.Errorf("%d open, want %d", len(open), len(list))
	}
	// Each proposal is applied and undone exactly.
	for _, p := range list {
		before := r.all()
		ops, err := p.Ops(r.Store)
		r.check(err)
		r.answer(p, true)
		if slices.EqualFunc(before, r.all(), crmem.Entry.Equal) {
			t.Errorf("proposal %d, %s of %q, changes nothing", p.N, p.Kind, p.Names)
		}
		r.undo(len(ops))
		r.same(fmt.Sprint("undo of ", p.Kind, p.Names), before)
	}
	if again := r.pass(); len(again) > 0 || len(r.open()) > 0 {
		t.Errorf("after the answers: %v, open %v", again, r.open())
	}
}

const long = "The deploy begins with a build of the image on the runner of the team, which takes about nine minutes, then a tag of the commit, then a push to the registry, then a rollout to the canary, and at last an hour of watching graphs. "

// TestMerge: a merge keeps both texts, the metadata of both, and all names; the notes are
// one entry, the earlier one. An undo restores both with their IDs.
func TestMerge(t *testing.T) {
	r := newRig(t)
	first := "---\ntags: [a]\n---\n" + strings.Repeat(long, 2) + "One end.\n"
	second := "---\ntags: [b]\nimportance: 0.9\n---\n" + strings.Repeat(long, 2) + "One end. More.\n"
	r.note("deploy", first, "ship")
	r.note("deployment", second, "ship", "release")
	before := r.all()
	list := r.pass()
	if len(list) != 1 || list[0].Kind != Duplicate || !slices.Equal(list[0].Names, []string{"deploy", "deployment"}) {
		t.Fatalf("proposals %+v", list)
	}
	ops, err := list[0].Ops(r.Store)
	r.check(err)
	r.add(ops...) // a kill before the answer
	if open, again := r.open(), r.pass(); len(open)+len(again) > 0 {
		t.Errorf("applied without an answer: open %v, proposed %v", open, again)
	}
	e, err := r.Get("deployment")
	r.check(err)
	m, _, _ := metadata.Parse(e.Content)
	if want := []string{"ship", "deployment", "release"}; e.ID != before[0].ID || !slices.Equal(e.Aliases, want) || len(r.all()) != 1 || m.Importance() != 0.9 || !slices.Equal(m.Tags(), []string{"a"}) ||
		!strings.Contains(e.Content, metadata.Text(first)[:200]) || !strings.HasSuffix(e.Content, "One end. More.\n") || strings.Count(e.Content, "One end.") != 2 {
		t.Errorf("merged to %+v", e)
	}
	r.undo(2)
	r.same("undo", before)
}

// TestAnswers: a rejected proposal returns only if a note changes; one whose notes changed is
// not open and cannot be applied; an answer counts once.
func TestAnswers(t *testing.T) {
	r := newRig(t)
	r.note("a", long)
	r.note("b", long+"Then lunch with the whole team.")
	list := r.pass()
	if len(list) != 1 || list[0].Kind != Related {
		t.Fatalf("proposals %+v", list)
	}
	r.answer(list[0], false)
	r.check(Change(r.fs, r.Path(), func(b *Book) error {
		if _, err := b.Find(list[0].N); !errors.Is(err, ErrAnswered) {
			t.Errorf("answered: %v", err)
		}
		if _, err := b.Find(9); !errors.Is(err, ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
		return nil
	}))
	if again := r.pass(); len(again) > 0 {
		t.Errorf("rejected, and proposed again: %v", again)
	}
	r.add(crmem.Update{Name: "b", Content: long + "Then tea with the whole team."})
	list = r.pass()
	if len(list) != 1 || list[0].N != 2 {
		t.Fatalf("after a change: %+v", list)
	}
	r.add(crmem.Update{Name: "b", Content: long + "Then coffee with the whole team."})
	if _, err := list[0].Ops(r.Store); !errors.Is(err, ErrChanged) || len(r.open()) != 0 {
		t.Errorf("a changed note: %v, open %v", err, r.open())
	}
	list = r.pass()
	r.answer(list[0], true)
	e, err := r.Get("a")
	r.check(err)
	if !strings.HasPrefix(e.Content, "---\nrelated: [[b]]\n---\n") && !strings.Contains(e.Content, "[[b]]") {
		t.Errorf("linked to %q", e.Content)
	}
	if again := r.pass(); len(again) > 0 {
		t.Errorf("linked, and proposed again: %v", again)
	}
	r.note("task: c", long)
	r.note("c", long)
	if list := r.pass(); len(list) != 1 || slices.Contains(list[0].Names, "task: c") {
		t.Errorf("tasks: %+v", list)
	}
}

// TestLimits: a pass makes 100 proposals of 2,000 notes, and further passes the others, each
// once.
func TestLimits(t *testing.T) {
	r := newRig(t)
	var ops []crmem.Op
	for i := range 2300 {
		content := fmt.Sprintf("The note with the number %d has a text of its own, %d words long.", i, i*i)
		if i >= 2100 || i < 150 {
			content = "---\nimportance: 0.05\n---\n" + content
		}
		ops = append(ops, crmem.Add{Name: fmt.Sprint("note ", i), Content: content})
	}
	r.add(ops...)
	r.now = r.now.Add(40 * 24 * time.Hour)
	var sizes []int
	seen := make(map[string]bool)
	for range 7 {
		list := r.pass()
		sizes = append(sizes, len(list))
		for _, p := range list {
			if p.Kind == Prune && seen[p.Names[0]] {
				t.Errorf("twice: %q", p.Names)
			}
			seen[p.Names[0]] = true
		}
	}
	if want := []int{100, 50, 100, 100, 0, 0, 0}; !slices.Equal(sizes, want) || len(seen) != 350 {
		t.Errorf("proposals by pass %v, want %v; %d notes", sizes, want, len(seen))
	}
}

// TestPrune: the importance falls with the time since a change, and rises with reads and
// links. Pinned notes and the type identity stay.
func TestPrune(t *testing.T) {
	r := newRig(t)
	for name, fields := range map[string]string{"low": "importance: 0.2", "high": "importance: 0.3", "pinned": "importance: 0\npinned: true", "me": "importance: 0\ntype: identity", "changed": "importance: 0"} {
		r.note(name, "---\n"+fields+"\n---\n"+name)
	}
	r.now = r.now.Add(30*24*time.Hour - time.Second)
	if list := r.pass(); len(list) != 0 {
		t.Errorf("after less than 30 days: %+v", list)
	}
	r.add(crmem.Update{Name: "changed", Content: "---\nimportance: 0\n---\nchanged again"})
	r.now = r.now.Add(time.Second)
	if list := r.pass(); len(list) != 1 || list[0].Names[0] != "low" || list[0].Kind != Prune {
		t.Errorf("after 30 days: %+v", list)
	}
	for _, c := range []struct {
		base          float64
		changed, read time.Duration
		inbound       int
		want          float64
	}{
		{0.5, 0, 8 * day, 0, 0.5}, {0.5, 4 * day, 8 * day, 0, 0.4}, {0.5, 99 * day, 8 * day, 0, 0.25}, {0.5, 0, day, 0, 0.55}, {0.5, 0, 31 * day, 0, 0.45},
		{0.5, 0, 8 * day, 2, 0.55}, {0.5, 0, 8 * day, 9, 0.6}, {1, 0, day, 9, 1},
	} {
		if got := value(c.base, c.changed, c.read, c.inbound); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
