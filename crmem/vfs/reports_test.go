package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/golden"
)

// reportMem returns a machine with each kind of file, and with directories and
// files of several modes. Each reading advances the clock by a second.
func reportMem(t *testing.T) *faultfs.Mem {
	t.Helper()
	m := faultfs.NewMem()
	now := time.Unix(1_760_000_000, 0)
	m.Now = func() time.Time { now = now.Add(time.Second); return now }
	for _, dir := range []string{"/d", "/d/sub", "/d/empty", "/ro", "/wo", "/x", "/no", "/d/no"} {
		must(t, m.Mkdir(dir, 0o755))
		if dir != "/d/empty" {
			m.WriteFile(dir+"/f", []byte("f of "+dir), 0o644)
		}
	}
	m.WriteFile("/f", []byte("text"), 0o600)
	m.WriteFile("/big", bytes.Repeat([]byte("0123456789abcdef"), 600), 0o600)
	m.WriteFile("/r", []byte("readable"), 0o400)
	m.WriteFile("/w", []byte("writable"), 0o200)
	m.WriteFile("/n", []byte("neither"), 0)
	for _, link := range [][2]string{
		{"/link", "f"}, {"/abs", "/d/f"}, {"/dirlink", "d"}, {"/absdir", "/d/sub"}, {"/dangling", "nowhere"}, {"/loop", "loop"},
		{"/d/up", ".."}, {"/d/abs", "/f"}, {"/d/in", "sub"}, {"/d/slash", "sub/"}, {"/d/sub/back", "../f"}, {"/chain0", "d"},
	} {
		m.Symlink(link[1], link[0])
	}
	for i := range 41 {
		m.Symlink(fmt.Sprintf("chain%d", i), fmt.Sprintf("/chain%d", i+1))
	}
	m.Mkfifo("/fifo")
	must(t, m.Link("/f", "/hard"), m.SyncDir("/"), m.SyncDir("/d"))
	for dir, mode := range map[string]fs.FileMode{"/ro": 0o500, "/wo": 0o300, "/x": 0o100, "/no": 0, "/d/no": 0} {
		m.Chmod(dir, mode)
	}
	return m
}

// reportNames lists existing and missing names in reportMem.
var reportNames = []string{
	"/", ".", "..", "", "f", "/f", "/f/", "/f/x", "/big", "/r", "/w", "/n", "/new", "/new/x", "/hard", "/link", "/link/x",
	"/abs", "/dangling", "/loop", "/loop/x", "/fifo", "/d", "/d/", "/d/.", "/d/..", "/d/f", "/d/../f", "/d/new", "/d/sub",
	"/d/sub/f", "/d/sub/new", "/d/empty", "/d/empty/new", "/d/up/f", "/d/abs", "/d/in/f", "/d/in/back", "/d/slash", "/dirlink",
	"/dirlink/f", "/dirlink/new", "/absdir/f", "/absdir/../f", "/ro", "/ro/f", "/ro/new", "/wo", "/wo/f", "/wo/new", "/x/f",
	"/x/new", "/no", "/no/f", "/no/new", "/chain39", "/chain40", "/chain39/f", "/chain38/f", "/chain40/f",
	"/" + strings.Repeat("a", 255), "/" + strings.Repeat("a", 256), "../f", "d/f",
}

// rootNames lists existing, missing, and escaping names in the directory /d of
// reportMem.
var rootNames = []string{
	".", "..", "", "/", "/f", "f", "f/x", "new", "new/x", "sub", "sub/", "sub/f", "sub/new", "sub/..", "sub/../f", "sub/../../f", "empty",
	"empty/new", "up", "up/f", "up/d/f", "abs", "abs/x", "in", "in/f", "in/new", "in/back", "slash/f", "sub/back", "no", "no/f", "no/new", "../f", "./f",
}

// pairNames lists the names for calls with two names.
var pairNames = []string{
	"", "f", "/f", "/big", "/new", "/new/x", "/hard", "/link", "/dangling", "/fifo", "/d", "/d/f", "/d/sub", "/d/empty", "/d/empty/new",
	"/d/sub/new", "/dirlink/new", "/ro/f", "/ro/new", "/wo/f", "/wo/new", "/x/f", "/x/new", "/no/f", "/d/..", "sub", "sub/new", "empty", "up", "in/f", "new",
}

// files returns one line for each file of a machine. It reads a copy of the
// machine, in which it removes all restrictions by permissions.
func files(t *testing.T, m *faultfs.Mem) []string {
	t.Helper()
	m = m.Kill()
	var list []string
	var visit func(dir string)
	visit = func(dir string) {
		fi, err := m.Lstat(dir)
		must(t, err)
		list = append(list, fmt.Sprintf("%s %v links %d", dir, fi.Mode(), vfs.Identify(fi).Links))
		m.Chmod(dir, 0o700)
		entries, err := m.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			fi, err := m.Lstat(name)
			must(t, err)
			switch {
			case e.IsDir() != fi.IsDir() || e.Type() != fi.Mode().Type():
				t.Errorf("%s: ReadDir returns type %v, Lstat returns mode %v", name, e.Type(), fi.Mode())
			case e.IsDir():
				visit(name)
				continue
			case !fi.Mode().IsRegular():
				list = append(list, fmt.Sprintf("%s %v", name, fi.Mode()))
				continue
			}
			m.Chmod(name, 0o600)
			b, err := vfs.ReadFile(m, name, 1<<20)
			must(t, err)
			list = append(list, fmt.Sprintf("%s %v inode %d links %d size %d sum %08x changed %d", name, fi.Mode(), vfs.Identify(fi).Ino,
				vfs.Identify(fi).Links, fi.Size(), crc32.ChecksumIEEE(b), fi.ModTime().Unix()-1_760_000_000))
			if len(b) != int(fi.Size()) {
				t.Errorf("%s: read %d bytes, size %d", name, len(b), fi.Size())
			}
		}
	}
	visit("/")
	return list
}

// changes returns the lines of before that after lacks, marked "-", and the lines
// of after that before lacks, marked "+".
func changes(before, after []string) string {
	var b strings.Builder
	for _, line := range before {
		if !slices.Contains(after, line) {
			fmt.Fprintln(&b, "-", line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			fmt.Fprintln(&b, "+", line)
		}
	}
	return b.String()
}

// describeError returns the text and the class of an error.
func describeError(err error) string {
	if err == nil {
		return "ok"
	}
	return fmt.Sprintf("%v [%s]", err, class(err))
}

// treeCall is a call or a series of calls with one or two names.
type treeCall struct {
	name string
	two  bool // do uses both names
	do   func(tree vfs.Tree, a, b string) (string, error)
}

// openCall opens a file with flag, then makes each call of an open file.
func openCall(name string, flag int) treeCall {
	return treeCall{name: name, do: func(tree vfs.Tree, a, _ string) (string, error) {
		f, err := tree.OpenFile(a, flag, 0o640)
		if err != nil {
			if f != nil {
				return "file and error", err
			}
			return "", err
		}
		n, werr := f.Write([]byte("written"))
		b := make([]byte, 10)
		r, rerr := f.ReadAt(b, 0)
		q, qerr := f.Read(b[r:])
		fi, serr := f.Stat()
		stat := fmt.Sprint(serr)
		if serr == nil {
			stat = fmt.Sprint(fi.Name(), " ", fi.Size())
		}
		return fmt.Sprintf("write %d, %v; read %q, %v; then %d, %v; stat %s; truncate %v; sync %v", n, werr, b[:r], rerr, q, qerr,
			stat, f.Truncate(5), f.Sync()), f.Close()
	}}
}

var treeCalls = []treeCall{
	openCall("open", os.O_RDONLY), openCall("open to write", os.O_WRONLY), openCall("open for both", os.O_RDWR),
	openCall("create", os.O_RDWR|os.O_CREATE), openCall("create new", os.O_WRONLY|os.O_CREATE|os.O_EXCL),
	openCall("append", os.O_RDWR|os.O_APPEND), openCall("empty", os.O_RDWR|os.O_TRUNC), openCall("open new only", os.O_RDWR|os.O_EXCL),
	{name: "replace", do: func(tree vfs.Tree, a, _ string) (string, error) {
		return "", vfs.Replace(tree, a, 0o604, func(w io.Writer) error { _, err := io.WriteString(w, "replaced"); return err })
	}},
	{name: "discard", do: func(tree vfs.Tree, a, _ string) (string, error) {
		p, err := tree.Pending(a, 0o604)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(p.Name(), " ", p.Discard()), p.Discard()
	}},
	{name: "keep", do: func(tree vfs.Tree, a, _ string) (string, error) {
		p, err := tree.Pending(a, 0o604)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(p.Name(), " ", p.Keep()), p.Discard()
	}},
	{name: "read", do: func(tree vfs.Tree, a, _ string) (string, error) {
		b, fi, err := vfs.ReadFileInfo(tree, a, 8)
		if err != nil {
			return "", err
		}
		over, err := vfs.ReadFileOver(make([]byte, 2, 100), tree, a, 8)
		return fmt.Sprintf("%q %q of %s, %d bytes", b, over, fi.Name(), fi.Size()), err
	}},
	{name: "remove", do: func(tree vfs.Tree, a, _ string) (string, error) { return "", tree.Remove(a) }},
	{name: "mkdir", do: func(tree vfs.Tree, a, _ string) (string, error) { return "", tree.Mkdir(a, 0o750) }},
	{name: "mkdir all", do: func(tree vfs.Tree, a, _ string) (string, error) { return "", vfs.MkdirAll(tree, a, 0o750) }},
	{name: "list", do: func(tree vfs.Tree, a, _ string) (string, error) {
		list, err := tree.ReadDir(a)
		return fmt.Sprint(list), err
	}},
	{name: "lstat", do: func(tree vfs.Tree, a, _ string) (string, error) {
		fi, err := tree.Lstat(a)
		if err != nil {
			return fmt.Sprint(fi), err
		}
		return fmt.Sprint(fi.Name(), " ", fi.Mode(), " ", fi.IsDir()), nil
	}},
	{name: "check", do: func(tree vfs.Tree, a, _ string) (string, error) {
		fi, changed, err := vfs.CheckName(tree, a, nil)
		return fmt.Sprint(fi != nil, " ", changed), err
	}},
	{name: "sync", do: func(tree vfs.Tree, a, _ string) (string, error) { return "", tree.SyncDir(a) }},
	{name: "rename", two: true, do: func(tree vfs.Tree, a, b string) (string, error) { return "", tree.Rename(a, b) }},
	{name: "link", two: true, do: func(tree vfs.Tree, a, b string) (string, error) { return "", tree.Link(a, b) }},
	{name: "check another", two: true, do: func(tree vfs.Tree, a, b string) (string, error) {
		was, err := tree.Lstat(a)
		if err != nil {
			return "", nil
		}
		fi, changed, err := vfs.CheckName(tree, b, was)
		return fmt.Sprint(fi != nil, " ", changed), err
	}},
}

// machineCalls lists the calls of an FS that a Tree lacks. The tree must be an
// FS.
var machineCalls = []treeCall{
	{name: "resolve", do: func(tree vfs.Tree, a, _ string) (string, error) { return tree.(vfs.FS).Resolve(a) }},
	{name: "lock", do: func(tree vfs.Tree, a, _ string) (string, error) {
		l, err := tree.(vfs.FS).Lock(a)
		if err != nil {
			return "", err
		}
		_, second := tree.(vfs.FS).Lock(a)
		err = l.SetText("text of the lock")
		text, terr := l.Text()
		return fmt.Sprintf("%v, %q, %v, %v", second, text, terr, l.Unlock()), err
	}},
	{name: "root", do: func(tree vfs.Tree, a, _ string) (string, error) {
		r, err := tree.(vfs.FS).Root(a)
		if err != nil {
			return fmt.Sprint(r), err
		}
		_, ferr := vfs.ReadFile(r, "f", 100)
		return fmt.Sprint(ferr), errors.Join(r.Mkdir("made", 0o700), r.Close())
	}},
}

// eachCall calls f for each call with each name. For a call with two names, it
// uses the pairs of pairNames whose first name is in names.
func eachCall(calls []treeCall, names []string, f func(title string, c treeCall, a, b string)) {
	for _, c := range calls {
		for _, a := range names {
			if !c.two {
				f(fmt.Sprintf("%s %.20q", c.name, a), c, a, "")
				continue
			}
			if !slices.Contains(pairNames, a) {
				continue
			}
			for _, b := range pairNames {
				f(fmt.Sprintf("%s %.20q to %.20q", c.name, a, b), c, a, b)
			}
		}
	}
}

// TestReportsOfMemCalls makes each call with each name on a Mem. It compares the
// results, the calls of the hook, the changed files, and the unsynced changes.
func TestReportsOfMemCalls(t *testing.T) {
	var r golden.Reports
	initial := reportMem(t)
	before := files(t, initial)
	run := func(root bool) func(string, treeCall, string, string) {
		return func(title string, c treeCall, a, b string) {
			m := initial.Kill()
			now := time.Unix(1_760_001_000, 0)
			m.Now = func() time.Time { now = now.Add(time.Second); return now }
			var hooked []string
			m.Hook = func(c faultfs.Call) error {
				hooked = append(hooked, fmt.Sprint(c.N, " ", c.Op, " ", c.Name, " ", c.Size))
				return nil
			}
			var tree vfs.Tree = m
			if root {
				d, err := m.Root("/d")
				must(t, err)
				tree, title = d, "root: "+title
			}
			result, err := c.do(tree, a, b)
			m.Hook = nil
			text := describeError(err) + "\n" + result + "\n"
			if !c.two {
				text += strings.Join(hooked, "; ") + "\n"
			}
			r.Add(title, text+changes(before, files(t, m))+unsynced(m)+fmt.Sprintf("%x", keptHash(m)))
		}
	}
	eachCall(treeCalls, reportNames, run(false))
	eachCall(machineCalls, reportNames, run(false))
	eachCall(treeCalls, rootNames, run(true))
	r.Compare(t, "testdata/reports/calls.txt.gz")
}

// unsynced returns one line for each unsynced change.
func unsynced(m *faultfs.Mem) string {
	var b strings.Builder
	for _, c := range m.Unsynced() {
		if c.Name == "/hard" && (c.Op == "write" || c.Op == "truncate") {
			c.Name = "/f" // Mem.Unsynced returns /hard or /f, at random
		}
		fmt.Fprintf(&b, "unsynced %s %s at %d, %d bytes, %d cuts\n", c.Op, c.Name, c.Off, c.Len, c.Cuts)
	}
	return b.String()
}

// keptHash returns the first 4 bytes of the hash of the state after a crash that
// keeps all unsynced changes.
func keptHash(m *faultfs.Mem) []byte {
	outcomes := make([]faultfs.Outcome, len(m.Unsynced()))
	for i := range outcomes {
		outcomes[i] = faultfs.Kept
	}
	sum := m.Crash(outcomes...).Hash()
	return sum[:4]
}

// TestReportsOfMemFaults injects each fault into each primitive call of an
// operation. It compares the result, the changed files, and the unsynced changes.
func TestReportsOfMemFaults(t *testing.T) {
	var r golden.Reports
	faults := []struct {
		name string
		err  error
	}{
		{"fails", syscall.EIO}, {"is denied", fs.ErrPermission}, {"works and fails", &faultfs.Fault{Err: syscall.EIO, Done: true}},
		{"stops after 3", &faultfs.Fault{Err: syscall.ENOSPC, N: 3}},
		{"is cut short", &faultfs.Fault{Corrupt: func(b []byte) []byte { return b[:len(b)/2] }}},
		{"is doubled", &faultfs.Fault{Corrupt: func(b []byte) []byte { return append(b, b...) }}},
		{"ends", &faultfs.Fault{Err: io.EOF, Corrupt: bytes.Clone}}, {"is changed and fails", &faultfs.Fault{Err: syscall.EIO, Corrupt: bytes.ToUpper}},
	}
	operations := slices.Concat(treeCalls, machineCalls, []treeCall{
		{name: "checked", do: func(tree vfs.Tree, a, _ string) (string, error) {
			checked := false
			err := vfs.ReplaceChecked(tree, a, 0o600, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err },
				func(vfs.Pending) error { checked = true; return nil })
			return fmt.Sprint(checked), err
		}},
		{name: "check fails", do: func(tree vfs.Tree, a, _ string) (string, error) {
			return "", vfs.ReplaceChecked(tree, a, 0o600, func(w io.Writer) error { return nil },
				func(vfs.Pending) error { return errors.New("refused") })
		}},
		{name: "write fails", do: func(tree vfs.Tree, a, _ string) (string, error) {
			return "", vfs.Replace(tree, a, 0o600, func(w io.Writer) error { return errors.New("refused") })
		}},
		{name: "discard after failures", do: func(tree vfs.Tree, a, _ string) (string, error) {
			p, err := tree.Pending(a, 0o604)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(p.Commit(), " ", p.Discard(), " ", p.Discard()), p.Close()
		}},
	})
	initial := reportMem(t)
	before := files(t, initial)
	for _, operation := range operations {
		for _, name := range []string{"/d/f", "/d/new", "/d", "/d/new/deep/er"} {
			for _, fault := range faults {
				for n := 1; ; n++ {
					m := initial.Kill()
					seen, failed := 0, "" // calls so far, and the call with the fault
					m.Hook = func(c faultfs.Call) error {
						if seen++; seen == n {
							failed = c.Op + " " + c.Name
							return fault.err
						}
						return nil
					}
					m.Now = func() time.Time { return time.Unix(1_760_001_000, 0) }
					result, err := operation.do(m, name, "/d/sub/f")
					m.Hook = nil
					r.Add(fmt.Sprintf("%s %s: %s %s", operation.name, name, failed, fault.name),
						describeError(err)+"\n"+result+"\n"+changes(before, files(t, m))+unsynced(m)+fmt.Sprintf("%x", keptHash(m)))
					if failed == "" {
						break
					}
				}
			}
		}
	}
	r.Compare(t, "testdata/reports/faults.txt.gz")
}

// TestReportsOfMemPrograms makes random calls, crashes, and kills with fixed
// seeds. It compares the machine after each call.
func TestReportsOfMemPrograms(t *testing.T) {
	var r golden.Reports
	for seed := range uint64(120) {
		p := &memProgram{t: t, r: rand.New(rand.NewPCG(seed, 1)), m: faultfs.NewMem(), links: seed%3 == 0}
		p.setClock(0)
		if seed%4 == 1 {
			p.m.Limit = 40_000
		}
		for step := range 60 {
			title := fmt.Sprintf("%d.%d ", seed, step)
			r.Add(title, p.step())
		}
	}
	r.Compare(t, "testdata/reports/programs.txt.gz")
}

// memProgram makes random calls on a Mem.
type memProgram struct {
	t     *testing.T
	r     *rand.Rand
	m     *faultfs.Mem
	open  []vfs.File
	links bool  // make links instead of replacements
	boots int64 // crashes and kills so far
}

// setClock sets a clock that starts at a fixed time plus start seconds. Each
// reading advances the clock by a second.
func (p *memProgram) setClock(start int64) {
	now := time.Unix(1_760_000_000+start, 0)
	p.m.Now = func() time.Time { now = now.Add(time.Second); return now }
}

func (p *memProgram) name() string {
	return []string{"/a", "/b", "/c", "/x/a", "/x/b", "/x", "/y", "/y/a", "/x/y", "/x/y/a"}[p.r.IntN(10)]
}

func (p *memProgram) file() vfs.File {
	if len(p.open) == 0 {
		return nil
	}
	return p.open[p.r.IntN(len(p.open))]
}

// step makes one call, with a fault at random, and describes the call, the files,
// and crash states. Then it may replace the machine by a crashed or killed copy.
func (p *memProgram) step() string {
	p.m.Hook = nil
	if p.r.IntN(6) == 0 {
		fault := []error{syscall.EIO, &faultfs.Fault{Err: syscall.EIO, Done: true}, &faultfs.Fault{Err: syscall.ENOSPC, N: 100},
			&faultfs.Fault{Corrupt: func(b []byte) []byte { return append(b, "more"...) }}}[p.r.IntN(4)]
		p.m.Hook = func(faultfs.Call) error { return fault }
	}
	what := p.call()
	p.m.Hook = nil
	text := fmt.Sprintf("%s\n%s\ncalls %d, boot %s\n", what, strings.Join(files(p.t, p.m), "\n"), p.m.Calls(), p.m.BootID())
	list := p.m.Unsynced()
	for _, c := range list {
		if c.Op == "write" || c.Op == "truncate" {
			c.Name = "" // with several names, Mem.Unsynced returns one at random
		}
		text += fmt.Sprintln(c)
	}
	for _, outcome := range []faultfs.Outcome{faultfs.Lost, faultfs.Kept, faultfs.Zeroed, faultfs.Garbage, faultfs.Cut(1), faultfs.Cut(3), faultfs.Cut(8)} {
		sum := p.m.Crash(slices.Repeat([]faultfs.Outcome{outcome}, len(list))...).Hash()
		text += fmt.Sprintf("%d %x ", outcome, sum[:3])
	}
	outcomes := make([]faultfs.Outcome, p.r.IntN(len(list)+2))
	for i := range outcomes {
		outcomes[i] = []faultfs.Outcome{faultfs.Lost, faultfs.Kept, faultfs.Zeroed, faultfs.Garbage, faultfs.Cut(1), faultfs.Cut(2)}[p.r.IntN(6)]
	}
	crashed := p.m.Crash(outcomes...)
	text += fmt.Sprintf("\nafter %v:\n%s\n", outcomes, strings.Join(files(p.t, crashed), "\n"))
	switch p.r.IntN(40) {
	case 0:
		p.m = crashed
		p.restart()
	case 1:
		p.m = p.m.Kill()
		p.restart()
	}
	return text
}

func (p *memProgram) restart() {
	p.open = nil
	p.boots++
	p.setClock(p.boots * 10_000)
}

func (p *memProgram) call() string {
	switch n := p.r.IntN(16); n {
	case 0, 1:
		name := p.name()
		flag := []int{os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_APPEND | os.O_CREATE, os.O_RDWR | os.O_TRUNC, os.O_RDONLY}[p.r.IntN(4)]
		f, err := p.m.OpenFile(name, flag, 0o600)
		if err == nil {
			p.open = append(p.open, f)
		}
		return fmt.Sprintf("open %s %#x: %v", name, flag, err)
	case 2, 3, 4, 5:
		f := p.file()
		if f == nil {
			return "no file"
		}
		b := make([]byte, []int{0, 1, 100, 511, 512, 513, 4095, 4096, 4097, 9000}[p.r.IntN(10)])
		for i := range b {
			b[i] = byte(p.r.IntN(256) * min(1, p.r.IntN(3)))
		}
		if p.r.IntN(5) == 0 {
			clear(b)
		}
		n, err := f.Write(b)
		return fmt.Sprintf("write %d: %d, %v", len(b), n, err)
	case 6:
		f := p.file()
		if f == nil {
			return "no file"
		}
		size := []int64{0, 1, 511, 512, 4095, 4096, 4097, 8192, 20_000, -1}[p.r.IntN(10)]
		return fmt.Sprintf("truncate %d: %v", size, f.Truncate(size))
	case 7:
		f := p.file()
		if f == nil {
			return "no file"
		}
		return fmt.Sprint("sync ", f.Sync())
	case 8:
		f := p.file()
		if f == nil {
			return "no file"
		}
		b := make([]byte, 5000)
		off := int64(p.r.IntN(9000) - 10)
		n, err := f.ReadAt(b, off)
		k, rerr := f.Read(b[n:])
		return fmt.Sprintf("read at %d: %d, %v, %d, %v, %08x", off, n, err, k, rerr, crc32.ChecksumIEEE(b))
	case 9:
		if len(p.open) == 0 {
			return "no file"
		}
		i := p.r.IntN(len(p.open))
		f := p.open[i]
		p.open = slices.Delete(p.open, i, i+1)
		return fmt.Sprint("close ", f.Close())
	case 10:
		a, b := p.name(), p.name()
		return fmt.Sprint("rename ", a, " ", b, " ", p.m.Rename(a, b))
	case 11:
		a := p.name()
		return fmt.Sprint("remove ", a, " ", p.m.Remove(a))
	case 12:
		a := []string{"/x", "/y", "/x/y"}[p.r.IntN(3)]
		return fmt.Sprint("mkdir ", a, " ", p.m.Mkdir(a, 0o700))
	case 13:
		a := []string{"/", "/x", "/y", "/x/y"}[p.r.IntN(4)]
		return fmt.Sprint("syncdir ", a, " ", p.m.SyncDir(a))
	case 14:
		a, b := p.name(), p.name()
		if p.links {
			return fmt.Sprint("link ", a, " ", b, " ", p.m.Link(a, b))
		}
		return fmt.Sprint("replace ", a, " ", vfs.Replace(p.m, a, 0o600, func(w io.Writer) error { _, err := io.WriteString(w, b); return err }))
	default:
		a := p.name()
		l, err := p.m.Lock(a)
		if err == nil {
			err = errors.Join(l.SetText(a), l.Unlock())
		}
		return fmt.Sprint("lock ", a, " ", err)
	}
}
