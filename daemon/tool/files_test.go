//go:build unix

package tool

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
	"crabmem/fuzz/seed"
)

// token is a secret that no attack may see.
const token = "TOKEN-f3b1c9"

// desk is a home with a data directory and a key, which are hidden, and the
// directory of a session.
type desk struct {
	*testing.T
	home, work string
	files      *Files

	read, edit, list, write Tool
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{T: t, home: home, work: home + "/work"}
	for _, name := range []string{"/share/data/sessions", "/work/sub/deep", "/outside"} {
		if err := os.MkdirAll(home+name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d.put("share/data/secret", token+"\n")
	d.put("share/data/sessions/log", token+"\n")
	d.put("share/data/closed-f3b1", token+"\n")
	d.put("key", token+"\n")
	d.put("outside/file", token+"\n")
	d.put("work/file", "OPEN\none\ntwo\n")
	d.put("work/sub/deep/file", "OPEN\n")
	d.put("work/secret", "OPEN\n")
	d.put("open", "OPEN\n")
	for name, to := range map[string]string{
		"data": "../share/data", "abs": home + "/share/data", "up": "..", "root": "/", "inside": "sub/deep", "filelink": "sub/deep/file",
		"secretlink": "../share/data/secret", "keylink": home + "/key", "chain": "chain2", "chain2": "data", "loop": "loop", "sub/back": "..",
		"dangling": "../share/data/none", "self": ".", "out": "../outside/file", "proc": "/proc/self", "sub/data": "../../share/data/sessions",
	} {
		if err := os.Symlink(to, d.work+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	d.files = NewFiles(vfs.OS{}, []string{home + "/share/data", home + "/key", home + "/missing"})
	tools := d.files.Tools()
	d.read, d.edit, d.list, d.write = tools[0], tools[1], tools[2], tools[3]
	if d.read.Name != Read || d.edit.Name != Edit || d.list.Name != ListFiles || d.write.Name != Write {
		t.Fatalf("%s, %s, %s, %s", d.read.Name, d.edit.Name, d.list.Name, d.write.Name)
	}
	return d
}

func (d *desk) put(name, text string) {
	d.Helper()
	if err := os.WriteFile(d.home+"/"+name, []byte(text), 0o600); err != nil {
		d.Fatal(err)
	}
}

func (d *desk) text(name string) string {
	d.Helper()
	b, err := os.ReadFile(d.home + "/" + name)
	if err != nil {
		d.Fatal(err)
	}
	return string(b)
}

// run returns the text for the model.
func (d *desk) run(tool Tool, c Call, fields ...any) string {
	d.Helper()
	c.Arguments = args(d.T, fields...)
	out, err := tool.Run(d.Context(), c)
	if err != nil && out != "" {
		d.Errorf("both an error and a result: %v, %s", err, out)
	}
	if err != nil {
		return err.Error()
	}
	return out
}

// TestReadResults reads a long result of the session, outside its directory, and no other
// file near it.
func TestReadResults(t *testing.T) {
	d := newDesk(t)
	for _, name := range []string{"share/data/results/a/1.txt", "share/data/results/b/1.txt"} {
		if err := os.MkdirAll(filepath.Dir(d.home+"/"+name), 0o700); err != nil {
			t.Fatal(err)
		}
		d.put(name, "all of it\n")
	}
	results := d.home + "/share/data/results"
	tool := d.files.Tools()[slices.IndexFunc(d.files.Tools(), func(t Tool) bool { return t.Name == Read })]
	c := Call{Dir: d.work, Results: results + "/a"}
	if got := d.run(tool, c, "path", results+"/a/1.txt"); got != "1\tall of it\n--- 1 total lines ---" {
		t.Error(got)
	}
	for _, path := range []string{results + "/b/1.txt", results + "/a/../b/1.txt", results + "/a/..", results + "/a", d.home + "/share/data"} {
		if got := d.run(tool, c, "path", path); !strings.Contains(got, "no such file") && !strings.Contains(got, "is a directory") && !strings.Contains(got, "escapes") {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := d.run(tool, Call{Dir: d.work}, "path", results+"/a/1.txt"); !strings.Contains(got, "no such file") {
		t.Error(got)
	}
}

func TestRead(t *testing.T) {
	d := newDesk(t)
	d.put("work/empty", "")
	d.put("work/open end", "a\nb")
	d.put("work/crlf", "a\r\nb\r\n")
	d.put("work/blank", "\n\n")
	d.put("work/latin", "caf\xe9\n")
	d.put("work/binary", "PK\x00\x01")
	d.put("work/ten", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n")
	d.put("work/many", strings.Repeat("x\n", 2500))
	d.put("work/long", strings.Repeat("é", 50_000)+"\nnext\n")
	if err := os.Truncate(d.home+"/work/empty", 0); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int64{"large": maxFile + 1, "largest": maxFile} {
		d.put("work/"+name, "")
		if err := os.Truncate(d.work+"/"+name, size); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(d.work+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", d.work+"/sock")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	none := func(name string) string { return name + ": no such file under " + d.work }
	for _, c := range []struct {
		path          string
		offset, limit int // -1: not given
		want          string
	}{
		{"file", -1, -1, "1\tOPEN\n2\tone\n3\ttwo\n--- 3 total lines ---"},
		{"./sub/../file", -1, -1, "1\tOPEN\n2\tone\n3\ttwo\n--- 3 total lines ---"},
		{d.work + "/file", -1, -1, "1\tOPEN\n2\tone\n3\ttwo\n--- 3 total lines ---"},
		{"inside/file", -1, -1, "1\tOPEN\n--- 1 total lines ---"},
		{"filelink", -1, -1, "1\tOPEN\n--- 1 total lines ---"},
		{"sub/back/self/file", 2, 1, "2\tone\n--- 3 total lines (showing lines 2-2) ---"},
		{"empty", -1, -1, "--- 0 total lines ---"},
		{"open end", -1, -1, "1\ta\n2\tb\n--- 2 total lines ---"},
		{"crlf", -1, -1, "1\ta\n2\tb\n--- 2 total lines ---"},
		{"blank", -1, -1, "1\t\n2\t\n--- 2 total lines ---"},
		{"latin", -1, -1, "1\tcaf\uFFFD\n--- 1 total lines ---"},
		{"ten", 3, 2, "3\t3\n4\t4\n--- 10 total lines (showing lines 3-4) ---"},
		{"ten", 9, 100, "9\t9\n10\t10\n--- 10 total lines (showing lines 9-10) ---"},
		{"ten", 0, 1, "1\t1\n--- 10 total lines (showing lines 1-1) ---"},
		{"ten", 11, -1, "--- 10 total lines (no line 11) ---"},
		{"ten", -2, -1, "offset and limit must not be negative"},
		{"ten", 1, -2, "offset and limit must not be negative"},
		{"ten", 10, 0, "10\t10\n--- 10 total lines (showing lines 10-10) ---"},
		{"binary", -1, -1, "binary is a binary file (4 bytes)"},
		{"largest", -1, -1, "largest is a binary file (52428800 bytes)"},
		{"large", -1, -1, "file is too large (52428801 bytes, at most 52428800)"},
		{"fifo", -1, -1, "fifo is not a regular file"},
		{"sock", -1, -1, "sock is not a regular file"},
		{"sub", -1, -1, "sub is a directory"},
		{"", -1, -1, "path must not be empty"},
		{"a\x00b", -1, -1, `"a\x00b" is not a path`},
		{"none", -1, -1, none("none")},
		{".", -1, -1, none(".")},
		{"file/x", -1, -1, none("file/x")},
		{"../open", -1, -1, none("../open")},
		{"loop", -1, -1, none("loop")},
		{d.home + "/open", -1, -1, none(d.home + "/open")},
	} {
		fields := []any{"path", c.path}
		if c.offset != -1 {
			fields = append(fields, "offset", c.offset)
		}
		if c.limit != -1 {
			fields = append(fields, "limit", c.limit)
		}
		if got := d.run(d.read, Call{Dir: d.work, Session: 1}, fields...); got != c.want {
			t.Errorf("%q: %.200q, want %q", c.path, got, c.want)
		}
	}
	got := d.run(d.read, Call{Dir: d.work}, "path", "many")
	if !strings.HasSuffix(got, "\n2000\tx\n--- 2500 total lines (showing lines 1-2000) ---") {
		t.Errorf("many lines: %q", got[len(got)-100:])
	}
	got = d.run(d.read, Call{Dir: d.work}, "path", "long")
	if len(got) > MaxOutput || !utf8.ValidString(got) || !strings.Contains(got, " more bytes of this line]\n--- 2 total lines (showing lines 1-1) ---") {
		t.Errorf("a long line: %d bytes, %q", len(got), got[len(got)-100:])
	}
	if got := d.run(d.read, Call{}, "path", "file"); got != errNoDir.Error() {
		t.Error(got)
	}
	if got := d.run(d.read, Call{Dir: d.home + "/gone"}, "path", "file"); !strings.Contains(got, "no such file") {
		t.Error(got)
	}
	for _, name := range []string{"loop", "dangling"} {
		if got := d.run(d.read, Call{Dir: d.work + "/" + name}, "path", "file"); !strings.HasPrefix(got, "session directory: ") {
			t.Errorf("session directory %s: %q", name, got)
		}
	}
	// Results are cut where a line ends.
	d.put("work/wide", strings.Repeat(strings.Repeat("w", 999)+"\n", 100))
	got = d.run(d.read, Call{Dir: d.work}, "path", "wide")
	if n := strings.Count(got, "\n"); len(got) > MaxOutput || n < 60 || !strings.HasSuffix(got, fmt.Sprintf("w\n--- 100 total lines (showing lines 1-%d) ---", n)) {
		t.Errorf("%d bytes, %q", len(got), got[len(got)-80:])
	}
}

// TestReadView compares the view with the lines of the text, for writes of any
// size.
func TestReadView(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		var text []byte
		for range r.IntN(30) {
			text = append(text, []string{"a", "\n", "\r\n", "é", "\n\n", "word "}[r.IntN(6)]...)
		}
		v := &view{first: 1 + r.IntN(12), limit: 1 + r.IntN(12)}
		for rest := text; len(rest) > 0; {
			k := 1 + r.IntN(len(rest))
			v.Write(rest[:k])
			rest = rest[k:]
		}
		lines := strings.Split(string(text), "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		var want strings.Builder
		for i, line := range lines {
			if i+1 >= v.first && i+1 < v.first+v.limit {
				fmt.Fprintf(&want, "%d\t%s\n", i+1, strings.TrimSuffix(line, "\r"))
			}
		}
		got, trailer, _ := strings.Cut(v.text(), "---")
		if got != want.String() || !strings.HasPrefix(trailer, fmt.Sprintf(" %d total lines", len(lines))) {
			t.Fatalf("%q from %d, %d: %q, want %q", text, v.first, v.limit, v.text(), want.String())
		}
	}
}

func TestEdit(t *testing.T) {
	d := newDesk(t)
	c := Call{Dir: d.work, Session: 7}
	edit := func(path, older, newer, want string) {
		t.Helper()
		if got := d.run(d.edit, c, "path", path, "old_string", older, "new_string", newer); got != want {
			t.Errorf("edit %s: %q, want %q", path, got, want)
		}
	}
	edit("file", "one", "1", "you must read file before editing it")
	d.run(d.read, Call{Dir: d.work, Session: 8}, "path", "file")
	edit("file", "one", "1", "you must read file before editing it") // another session did
	d.run(d.read, c, "path", "file", "limit", 1)
	edit("file", "", "1", "old_string must not be empty")
	edit("file", "one", "one", "old_string and new_string are identical")
	edit("file", "three", "3", "old_string not found")
	edit("file", "o", "0", "old_string is not unique, found 2 occurrences")
	if err := os.Chmod(d.work+"/file", 0o640); err != nil {
		t.Fatal(err)
	}
	edit("file", "one\ntwo", "1\n2", "ok")
	if got := d.text("work/file"); got != "OPEN\n1\n2\n" {
		t.Errorf("%q", got)
	}
	if fi, err := os.Stat(d.work + "/file"); err != nil || fi.Mode() != 0o640 {
		t.Errorf("%v %v", fi.Mode(), err)
	}
	edit("./sub/../file", "1", "one", "ok") // by another name, after its own edit
	d.put("work/file", "OPEN\none\n2\n3\n")
	edit("file", "one", "1", "file has changed since you read it: read it again before editing it")
	d.run(d.read, c, "path", "file")
	edit("file", "one\n", "", "ok")
	if got := d.text("work/file"); got != "OPEN\n2\n3\n" {
		t.Errorf("%q", got)
	}
	d.files.Forget(7)
	edit("file", "2", "1", "you must read file before editing it")

	// Line ends stay unchanged, and so do invalid bytes.
	for _, l := range []struct{ before, older, newer, after string }{
		{"a\r\nb\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\n"},
		{"a\r\nb\r\n", "a\r\nb", "x\ny", "x\r\ny\r\n"},
		{"a\r\nb\n", "a\r\nb", "x\ny", "x\ny\n"}, // both kinds: literally
		{"a\nb\n", "a", "x\r\ny", "x\r\ny\nb\n"},
		{"caf\xe9 au lait", "lait", "chocolat", "caf\xe9 au chocolat"},
		{"no end", "no", "still no", "still no end"},
	} {
		d.put("work/lines", l.before)
		d.run(d.read, c, "path", "lines")
		edit("lines", l.older, l.newer, "ok")
		if got := d.text("work/lines"); got != l.after {
			t.Errorf("%q became %q, want %q", l.before, got, l.after)
		}
	}
	if err := os.Chmod(d.work+"/lines", 0o400); err != nil {
		t.Fatal(err)
	}
	d.run(d.read, c, "path", "lines")
	edit("lines", "still", "x", "lines is read-only")
	d.run(d.read, c, "path", "filelink")
	edit("filelink", "OPEN", "OPEN still", "ok")
	if fi, err := os.Lstat(d.work + "/filelink"); err != nil || fi.Mode()&fs.ModeSymlink == 0 || d.text("work/sub/deep/file") != "OPEN still\n" {
		t.Errorf("the link was replaced, not the file: %v %v", fi, err)
	}
	edit("none", "a", "b", "none: no such file under "+d.work)
	if got := d.run(d.edit, Call{}, "path", "file", "old_string", "a", "new_string", "b"); got != errNoDir.Error() {
		t.Error(got)
	}
	left, err := filepath.Glob(d.work + "/.*")
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v %v", left, err)
	}
}

// TestFilesBounded checks that the record of read files is limited.
func TestFilesBounded(t *testing.T) {
	f := NewFiles(vfs.OS{}, nil)
	for s := range uint64(maxSessions + 100) {
		f.remember(s, "/a", sum{})
	}
	for i := range maxSeen + 100 {
		f.remember(1, fmt.Sprint(i), sum{})
	}
	if len(f.seen) > maxSessions || len(f.seen[1]) > maxSeen {
		t.Errorf("%d sessions, %d files", len(f.seen), len(f.seen[1]))
	}
	if _, ok := f.remembered(1, fmt.Sprint(maxSeen+99)); !ok {
		t.Error("the last is forgotten")
	}
}

// safe checks that read, and optionally edit, show and change no hidden file.
func (d *desk) safe(c Call, path string, edit bool) (shown bool) {
	d.Helper()
	before := d.text("open") + d.text("outside/file")
	got := d.run(d.read, c, "path", path)
	if listed := d.run(d.list, c, "path", path, "depth", 3); strings.Contains(listed, "closed-f3b1") {
		d.Errorf("ESCAPE: list %q in %s: %q", path, c.Dir, listed)
	}
	if edit {
		d.run(d.write, c, "path", path, "content", "OPEN\nWRITTEN\n")
		d.run(d.write, c, "path", path+".new", "content", "OPEN\n", "create", true)
		d.run(d.edit, c, "path", path, "old_string", token, "new_string", "MADE")
		d.run(d.edit, c, "path", path, "old_string", "\n", "new_string", "MADE\n")
	}
	if strings.Contains(got, token) || strings.Contains(got, "PLANTED") {
		d.Errorf("ESCAPE: read %q in %s: %q", path, c.Dir, got)
	}
	for _, name := range []string{"share/data/secret", "share/data/sessions/log", "key"} {
		if text := d.text(name); text != token+"\n" {
			d.Fatalf("ESCAPE: edit %q in %s: %s is %q", path, c.Dir, name, text)
		}
	}
	d.unchanged()
	if c.Dir == d.work && d.text("open")+d.text("outside/file") != before {
		d.Fatalf("ESCAPE: edit %q in %s changed a file outside", path, c.Dir)
	}
	return strings.Contains(got, "OPEN")
}

// unchanged checks that the hidden directory has no new file.
func (d *desk) unchanged() {
	d.Helper()
	for dir, names := range map[string]string{"share/data": "closed-f3b1 secret sessions", "share/data/sessions": "log"} {
		entries, err := os.ReadDir(d.home + "/" + dir)
		var found []string
		for _, e := range entries {
			if e.Name() != "sock" {
				found = append(found, e.Name())
			}
		}
		if err != nil || strings.Join(found, " ") != names {
			d.Fatalf("ESCAPE: %s has %v, %v", dir, found, err)
		}
	}
}

func TestFilesAttacks(t *testing.T) {
	d := newDesk(t)
	d.Setenv("PLANTED", token)
	if err := syscall.Mkfifo(d.work+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", d.home+"/share/data/sock")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Link(d.home+"/key", d.work+"/hardkey"); err != nil { // by identity, this one is known
		t.Fatal(err)
	}
	attacks := []string{
		"../share/data/secret", "../work/../share/data/secret", "sub/../../share/data/secret", "sub/back/../../share/data/secret",
		d.home + "/share/data/secret", "/" + d.home + "/share/data/secret", d.work + "/../share/data/secret", d.home + "/key",
		"data/secret", "abs/secret", "chain/secret", "chain2/sessions/log", "up/share/data/secret", "root" + d.home + "/share/data/secret",
		"secretlink", "keylink", "hardkey", "sub/data/log", "self/self/data/secret", "sub/back/data/secret", "data/sock", "data/sessions", "data", "dangling",
		"out", "up/outside/file", "../outside/file", "share/data/secret", "share/data", "share/data/sessions/log", "key", "work/data/secret", "work/keylink",
		"work/hardkey", "work/sub/data/log", "share/../share/data/secret", "SHARE/DATA/SECRET", "Share/Data/Secret", "share/data/Secret", "KEY", "Key",
		"share/data/secret\x00", "share/data/secret/", "share/data/./secret", "share//data//secret", "./share/data/secret", "share/data/sessions/../secret",
		"/proc/self/environ", "/proc/self/root" + d.home + "/key", "/proc/self/cwd/../../../key", "proc/environ", "root/proc/self/environ", "proc/self/environ", "proc/self/mem",
		"proc/self/fd/0", "sys/kernel/uevent_seqnum", "dev/zero", "dev/stdin", "dev/null", "fifo", "/dev/zero", "/dev/fd/0", "/etc/shadow", "~/key", "$HOME/key",
		"file:///etc/passwd", `..\share\data\secret`, `share\data\secret`, strings.Repeat("../", 60) + "etc/passwd", strings.Repeat("sub/../", 900) + "../key",
		strings.Repeat("a/", 5000), "..", "../", "/", "//", ".../key", "..//key", "work/../key", "%2e%2e/key", "．．/key", "‥/key",
	}
	n := 0
	for _, dir := range []string{d.work, d.home, d.home + "/share", d.home + "/share/data", d.home + "/share/data/sessions", d.work + "/data", d.work + "/up", "/proc", "/proc/self", "/dev"} {
		for _, path := range attacks {
			d.safe2(dir, path)
			n++
		}
	}
	t.Logf("%d attacks", n)
	// The root as a session's directory: hidden paths stay hidden.
	for _, path := range []string{
		d.home[1:] + "/share/data/secret", d.home[1:] + "/key", d.home[1:] + "/work/data/secret", "proc/self/environ", "proc/1/environ",
		fmt.Sprintf("proc/%d/environ", os.Getpid()), "proc/self/root" + d.home + "/key", "dev/zero", "sys/kernel/uevent_seqnum", "proc/thread-self/environ",
	} {
		got := d.run(d.read, Call{Dir: "/"}, "path", path)
		if !strings.HasPrefix(got, path+": no such file under /") {
			t.Errorf("ESCAPE: read %q in /: %q", path, got)
		}
	}
	if got := d.run(d.read, Call{Dir: "/"}, "path", d.home[1:]+"/work/file"); !strings.Contains(got, "OPEN") {
		t.Errorf("no file can be read in /: %q", got)
	}
}

// safe2 is safe for a directory in which the file outside the work, which is
// not hidden, may be inside.
func (d *desk) safe2(dir, path string) {
	d.Helper()
	c := Call{Dir: dir, Session: 3}
	if dir == d.home || dir == d.work+"/up" {
		if strings.Contains(path, "out") {
			return
		}
	}
	d.safe(c, path, true)
}

// TestFilesRandom checks that no path leads outside or to a hidden path.
func TestFilesRandom(t *testing.T) {
	race.Skip(t)
	d := newDesk(t)
	r := seed.Random(t)
	parts := []string{
		"..", "..", ".", "", "/", "work", "share", "data", "secret", "sessions", "log", "key", "file", "sub", "deep", "back", "abs", "up", "root", "inside",
		"filelink", "secretlink", "keylink", "chain", "loop", "self", "out", "outside", "open", "proc", "environ", d.home, d.work, "dangling", "\\", " ", "é", "...", "~",
	}
	shown := 0
	for i := range 4_000 {
		var path []string
		for range 1 + r.IntN(7) {
			path = append(path, parts[r.IntN(len(parts))])
		}
		dir, name := d.work, strings.Join(path, "/")
		if i%3 == 0 {
			dir = d.home
			if strings.Contains(name, "out") {
				continue // that is inside, then
			}
		}
		if d.safe(Call{Dir: dir, Session: 5}, name, i%40 < 2) {
			shown++
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	if shown < 20 {
		t.Errorf("only %d of the paths led to a file", shown)
	}
}

// TestFilesRace swaps directories for links concurrently: no hidden file is
// read.
func TestFilesRace(t *testing.T) {
	d := newDesk(t)
	d.put("work/sub/secret", "OPEN\n")
	d.put("work/sub/log", "OPEN\n")
	for name, to := range map[string]string{"work/decoy": "../share/data", "work/decoy2": "../share/data/sessions", "decoy3": "share"} {
		if err := os.Symlink(to, d.home+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(d.work+"/data.d", 0o700); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		swap := func(a, b string) {
			os.Rename(a, a+".held")
			os.Rename(b, a)
			for range 200 { // enough for a reader to notice
				_ = os.Getpid()
			}
			os.Rename(a, b)
			os.Rename(a+".held", a)
		}
		for {
			select {
			case <-stop:
				return
			default:
			}
			swap(d.work+"/sub", d.work+"/decoy")
			swap(d.work+"/sub", d.work+"/decoy2")
			swap(d.work, d.home+"/decoy3")
		}
	}()
	shown, tries := 0, 0
	for began := time.Now(); tries < 1500 || shown == 0 && time.Since(began) < gate.Hang; {
		for _, path := range []string{"sub/secret", "sub/log", "data/secret", "secret"} {
			tries++
			got := d.run(d.read, Call{Dir: d.work, Session: 9}, "path", path)
			if strings.Contains(got, token) {
				t.Errorf("ESCAPE: %s: %s", path, got)
			}
			if strings.Contains(got, "OPEN") {
				shown++
			}
			if tries%20 == 0 {
				d.run(d.edit, Call{Dir: d.work, Session: 9}, "path", path, "old_string", "\n", "new_string", ".\n")
				if !strings.HasPrefix(path, "sub") { // write would make it while it is away
					d.run(d.write, Call{Dir: d.work, Session: 9}, "path", path, "content", "OPEN\n")
					d.run(d.write, Call{Dir: d.work, Session: 9}, "path", path+".new", "content", "OPEN\n")
				}
				if got := d.run(d.list, Call{Dir: d.work, Session: 9}, "depth", 2); strings.Contains(got, "sessions/log") {
					t.Errorf("ESCAPE: %s", got)
				}
			}
		}
	}
	close(stop)
	<-done
	d.unchanged()
	if shown == 0 {
		t.Error("no read succeeded")
	}
	t.Logf("%d of %d shown", shown, tries)
	for _, name := range []string{"share/data/secret", "share/data/sessions/log"} {
		if b := []byte(d.text(name)); !bytes.Equal(b, []byte(token+"\n")) {
			t.Errorf("ESCAPE: %s is %q", name, b)
		}
	}
}

// TestFilesMem: the tools know the machine only as a vfs.FS.
func TestFilesMem(t *testing.T) {
	m := faultfs.NewMem()
	for _, dir := range []string{"/w", "/w/data"} {
		if err := m.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"/w/file", "/w/data/secret"} {
		err := vfs.Replace(m, name, 0o640, func(w io.Writer) error { _, err := io.WriteString(w, "one\n"); return err })
		if err != nil {
			t.Fatal(err)
		}
	}
	tools := NewFiles(m, []string{"/w/data"}).Tools()
	d := &desk{T: t}
	c := Call{Dir: "/w"}
	if got := d.run(tools[0], c, "path", "data/secret"); !strings.HasPrefix(got, "data/secret: no such file under /w; crabmem's own files are closed: ") {
		t.Error(got)
	}
	if got := d.run(tools[0], c, "path", "file"); got != "1\tone\n--- 1 total lines ---" {
		t.Error(got)
	}
	if got := d.run(tools[1], c, "path", "file", "old_string", "one", "new_string", "two"); got != "ok" {
		t.Error(got)
	}
	if b, err := vfs.ReadFile(m, "/w/file", 100); err != nil || string(b) != "two\n" {
		t.Errorf("%q %v", b, err)
	}
}
