package gitsync

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/tree"
)

func requireGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err == nil {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("CRABMEM_REQUIRE"), ","), "git") {
		t.Fatal("CRABMEM_REQUIRE=git, but git is not on the PATH")
	}
	t.Skip("SKIPPED: git is not on the PATH")
}

// world is two machines and the repository that they share.
type world struct {
	t        *testing.T
	r        *rand.Rand
	machines [2]*machine
	gone     map[string]bool // lines that someone replaced or removed
	counts
}

// machine is a home with a store, and a clone of the tree.
type machine struct {
	*world
	home, dir string
	s         *crmem.Store

	base, dates map[string]string // texts and dates of the tree after the last exchange, by name
}

func newWorld(t *testing.T, r *rand.Rand, copied bool) *world {
	w := &world{t: t, r: r, gone: map[string]bool{}}
	root := t.TempDir()
	w.git(root, "init", "-q", "--bare", "-b", "main", "shared.git")
	for i := range w.machines {
		dir := filepath.Join(root, fmt.Sprint("machine", i))
		w.machines[i] = &machine{world: w, home: filepath.Join(dir, "home"), dir: filepath.Join(dir, "brain")}
	}
	a, b := w.machines[0], w.machines[1]
	w.noErr(os.MkdirAll(a.home, 0o700))
	a.open()
	w.git(filepath.Dir(a.dir), "clone", "-q", filepath.Join(root, "shared.git"), "brain")
	a.configure()
	for range 3 {
		a.write()
	}
	a.dump()
	a.commit()
	a.push()
	w.noErr(os.MkdirAll(filepath.Dir(b.dir), 0o700))
	if copied {
		w.noErr(a.s.Close())
		w.noErr(os.CopyFS(b.home, os.DirFS(a.home)))
		a.open()
	} else {
		w.noErr(os.MkdirAll(b.home, 0o700))
	}
	b.open()
	w.git(filepath.Dir(b.dir), "clone", "-q", filepath.Join(root, "shared.git"), "brain")
	b.configure()
	b.merge()
	return w
}

func (w *world) noErr(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// git runs git, which must succeed, and returns its output.
func (w *world) git(dir string, args ...string) string {
	w.t.Helper()
	out, err := git(dir, args...)
	if err != nil {
		w.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return out
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m *machine) configure() {
	for _, c := range [][2]string{{"user.name", "test"}, {"user.email", "test@example.com"}, {"commit.gpgsign", "false"}, {"gc.auto", "0"}, {"core.fsync", "none"}} {
		m.git(m.dir, "config", c[0], c[1])
	}
}

func (m *machine) open() {
	s, err := crmem.Open(filepath.Join(m.home, "memory.db"), &crmem.Options{CheckpointOnClose: crmem.CheckpointNever})
	m.noErr(err)
	m.s = s
	m.t.Cleanup(func() { _ = s.Close() })
}

var names = []string{"alpha", "beta", "gamma", "delta", "epsilon", "zeta/eta", "Theta", "θ"}

// line returns a new line, which no other text contains.
func (w *world) line() string {
	w.written++
	return fmt.Sprintf("line %d of the history", w.written)
}

func lines(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
}

func text(lines []string) string { return strings.Join(lines, "\n") + "\n" }

// edited returns an edited text. It removes lines that it replaces from the lines
// that must survive.
func (w *world) edited(old string) string {
	list := lines(old)
	switch k := w.r.IntN(4); {
	case len(list) == 0 || k == 0:
		list = append(list, w.line())
	case k == 1:
		list = slices.Insert(list, 0, w.line())
	case k == 2:
		i := w.r.IntN(len(list))
		w.gone[list[i]] = true
		list[i] = w.line()
	default:
		w.discard(old)
		list = []string{w.line(), w.line(), w.line()}
	}
	return text(list)
}

func (w *world) discard(old string) {
	for _, l := range lines(old) {
		w.gone[l] = true
	}
}

// step is one random step of one machine.
func (w *world) step() {
	m := w.machines[w.r.IntN(2)]
	switch k := w.r.IntN(21); {
	case k == 20:
		m.reset()
	case k < 6:
		m.write()
	case k < 9:
		m.edit()
	case k < 12:
		m.dump()
	case k < 15:
		m.merge()
	case k < 18:
		m.pull()
	default:
		m.commit()
		m.push()
	}
}

// write changes the store.
func (m *machine) write() {
	name := names[m.r.IntN(len(names))]
	e, err := m.s.Get(name)
	switch {
	case err != nil:
		m.noErr(m.s.Apply(crmem.Add{Name: name, Content: text([]string{m.line(), m.line(), m.line()})}))
	case m.r.IntN(5) == 0 && m.s.Len() > 2:
		m.discard(e.Content)
		m.noErr(m.s.Forget(name))
	default:
		m.noErr(m.s.Apply(crmem.Update{Name: name, Content: m.edited(e.Content)}))
	}
}

// edit changes a page as a person does.
func (m *machine) edit() {
	name := names[m.r.IntN(len(names))]
	page := m.page(name)
	b, err := os.ReadFile(page)
	switch {
	case err != nil:
		m.noErr(os.MkdirAll(filepath.Dir(page), 0o700))
		m.noErr(os.WriteFile(page, []byte(rowName(name)+text([]string{m.line(), m.line()})), 0o600))
	case m.r.IntN(5) == 0 && len(m.treePages()) > 2:
		m.discard(body(string(b)))
		m.noErr(os.Remove(page))
	default:
		old := body(string(b))
		head := strings.TrimSuffix(string(b), old)
		m.noErr(os.WriteFile(page, []byte(head+m.edited(old)), 0o600))
	}
}

// rowName begins a page that a person writes.
func rowName(name string) string {
	return fmt.Sprintf("<div id=\"meta\"><dl><dt>Name</dt><dd>%q</dd></dl></div>\n\n", name)
}

// page returns the path of a name's page. No two names have the same stem.
func (m *machine) page(name string) string {
	return filepath.Join(m.dir, "notes", strings.ReplaceAll(name, "/", "=2F")+".md")
}

// body returns the text of a page after its metadata.
func body(page string) string {
	if _, rest, found := strings.Cut(page, "</div>"); found {
		return strings.TrimLeft(rest, "\n")
	}
	return page
}

// treePages returns the texts of the pages by name.
func (m *machine) treePages() map[string]string {
	pages := map[string]string{}
	for _, name := range names {
		if b, err := os.ReadFile(m.page(name)); err == nil {
			pages[name] = text(lines(body(string(b))))
		}
	}
	return pages
}

// treeDates returns the dates of the pages by name. git may merge the date of a note
// that the other machine created with the same name.
func (m *machine) treeDates() map[string]string {
	dates := map[string]string{}
	for _, name := range names {
		if b, err := os.ReadFile(m.page(name)); err == nil {
			_, after, _ := strings.Cut(string(b), "datetime=\"")
			dates[name], _, _ = strings.Cut(after, "\"")
		}
	}
	return dates
}

func (m *machine) entries() map[string]string {
	entries := map[string]string{}
	for e := range m.s.All() {
		entries[e.Name] = text(lines(e.Content))
	}
	return entries
}

func (m *machine) dump() {
	m.dumps++
	_, err := tree.Dump(m.s, m.dir, nil)
	switch {
	case errors.Is(err, tree.ErrEdited):
		m.refused++
	case err != nil:
		m.t.Fatal(err)
	default:
		if e, p := m.entries(), m.treePages(); !maps.Equal(e, p) {
			m.t.Fatalf("the dump of %q wrote %q", e, p)
		}
		m.base, m.dates = m.treePages(), m.treeDates()
	}
}

// merge loads the tree and settles conflicts, of which both sides must have
// changed.
func (m *machine) merge() {
	m.merges++
	store, pages, dates := m.entries(), m.treePages(), m.treeDates()
	if len(pages) == 0 {
		return
	}
	r, err := tree.Load(m.s, m.dir, &tree.LoadOptions{Merge: true})
	m.noErr(err)
	for _, c := range r.Conflicts {
		m.conflicts++
		if base, s, p := m.base[c.Name], store[c.Name], pages[c.Name]; m.base != nil && (s == base || p == base && dates[c.Name] == m.dates[c.Name]) {
			m.t.Fatalf("conflict in %q, which changed on one side: base %q, store %q, tree %q", c.Name, base, s, p)
		}
		b, err := os.ReadFile(filepath.Join(m.dir, c.Page))
		m.noErr(err)
		old := body(string(b))
		both := lines(old)
		for _, l := range lines(c.Store.Content) {
			if !slices.Contains(both, l) {
				both = append(both, l)
			}
		}
		m.noErr(os.WriteFile(filepath.Join(m.dir, c.Page), []byte(strings.TrimSuffix(string(b), old)+text(both)), 0o600))
		m.noErr(os.RemoveAll(filepath.Join(m.dir, "conflicts")))
	}
	if len(r.Conflicts) > 0 {
		r, err := tree.Load(m.s, m.dir, &tree.LoadOptions{Merge: true})
		if err != nil || len(r.Conflicts) > 0 {
			m.t.Fatalf("the settled merge: %+v, %v", r, err)
		}
	}
	m.base, m.dates = m.treePages(), m.treeDates()
}

func (m *machine) commit() {
	m.git(m.dir, "add", "-A")
	_, merging := os.Stat(filepath.Join(m.dir, ".git", "MERGE_HEAD"))
	if merging == nil || m.git(m.dir, "status", "--porcelain") != "" {
		m.git(m.dir, "commit", "-q", "-m", "memory")
	}
}

// push publishes the commits, if the other machine published none.
func (m *machine) push() { _, _ = git(m.dir, "push", "-q", "origin", "HEAD:main") }

// reset discards what is not committed in the tree. Lines of the tree alone are
// lost, as the person wanted. Lines that load took from the tree are lost if they
// are gone from the tree at the next merge, unless the store has dumped since: the
// tree is then older than the store.
func (m *machine) reset() {
	m.resets++
	undone := m.git(m.dir, "status", "--porcelain", "--untracked-files=all", ".crabmem") != ""
	before := strings.Join(slices.Collect(maps.Values(m.treePages())), "")
	m.git(m.dir, "reset", "-q", "--hard")
	m.git(m.dir, "clean", "-q", "-fd")
	kept := strings.Join(slices.Collect(maps.Values(m.treePages())), "")
	if undone {
		kept += strings.Join(slices.Collect(maps.Values(m.entries())), "")
	}
	have := map[string]bool{}
	for _, l := range lines(kept) {
		have[l] = true
	}
	for _, l := range lines(before) {
		m.gone[l] = m.gone[l] || !have[l]
	}
	m.base = nil
}

// pull commits the tree and merges the shared one. Both sides must have changed a
// page in conflict; no other file is in conflict.
func (m *machine) pull() {
	m.commit()
	m.git(m.dir, "fetch", "-q", "origin")
	m.pulls++
	out, err := git(m.dir, "merge", "-q", "--no-edit", "origin/main")
	if err == nil {
		return
	}
	unmerged := map[string]bool{}
	for l := range strings.SplitSeq(m.git(m.dir, "ls-files", "-u", "-z"), "\x00") {
		if _, name, found := strings.Cut(l, "\t"); found {
			unmerged[name] = true
		}
	}
	if len(unmerged) == 0 {
		m.t.Fatalf("git merge: %v\n%s", err, out)
	}
	for name := range unmerged {
		if !strings.HasPrefix(name, "notes/") {
			m.t.Fatalf("git conflict in %s:\n%s", name, m.git(m.dir, "diff"))
		}
		m.gitConflicts++
		m.resolve(name)
	}
	m.commit()
}

// resolve settles a conflict of git: the page gets the lines of both sides, without
// marks. If git took a page for a renamed one, a side itself may have marks.
func (m *machine) resolve(name string) {
	var both []string
	for _, stage := range []string{":2:", ":3:"} {
		page, err := git(m.dir, "show", stage+name)
		if err != nil {
			continue // removed on this side
		}
		for _, l := range lines(body(page)) {
			if strings.HasPrefix(l, "line ") && !slices.Contains(both, l) {
				both = append(both, l)
			}
		}
	}
	m.noErr(os.WriteFile(filepath.Join(m.dir, name), []byte(rowName(m.name(name))+text(both)), 0o600))
}

// name returns the name of a page's entry.
func (m *machine) name(page string) string {
	for _, name := range names {
		if m.page(name) == filepath.Join(m.dir, page) {
			return name
		}
	}
	m.t.Fatalf("unknown page %s", page)
	return ""
}

// settle exchanges until both stores are equal, and checks that no line is lost.
func (w *world) settle() {
	for round := range 10 {
		for _, m := range w.machines {
			m.merge()
			m.dump()
			m.pull()
			m.merge()
			m.dump()
			m.commit()
			m.push()
		}
		a, b := w.machines[0].entries(), w.machines[1].entries()
		if round > 0 && maps.Equal(a, b) {
			w.check(a)
			return
		}
	}
	w.t.Fatalf("the stores differ:\n%q\n%q", w.machines[0].entries(), w.machines[1].entries())
}

func (w *world) check(entries map[string]string) {
	have := map[string]bool{}
	for _, text := range entries {
		for _, l := range lines(text) {
			have[l] = true
		}
	}
	for n := 1; n <= w.written; n++ {
		l := fmt.Sprintf("line %d of the history", n)
		switch {
		case have[l]:
			w.kept++
		case !w.gone[l]:
			w.t.Errorf("%q is lost", l)
		}
	}
	// A further exchange changes nothing.
	for _, m := range w.machines {
		m.pull()
		m.merge()
		head := m.git(m.dir, "rev-parse", "HEAD")
		m.dump()
		m.commit()
		if after := m.git(m.dir, "rev-parse", "HEAD"); after != head {
			w.t.Errorf("a dump of an unchanged store changes the tree:\n%s", m.git(m.dir, "show", "--stat", "HEAD"))
		}
	}
}
