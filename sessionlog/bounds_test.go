package sessionlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog/internal/line"
)

// memDir returns a folder in memory, and its warnings.
func memDir(t *testing.T, o Options) (*faultfs.Mem, *Dir, *[]string) {
	t.Helper()
	m := faultfs.NewMem()
	m.Now = func() time.Time { return time.Unix(1_760_000_000, 0) }
	warnings := new([]string)
	o.FS, o.Now, o.Warn = m, m.Now, func(s string) { *warnings = append(*warnings, s) }
	must(t, m.Mkdir("/s", 0o700))
	d, err := OpenDir("/s", &o)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return m, d, warnings
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLeftoverNames(t *testing.T) {
	for name, want := range map[string]string{
		".a.jsonl1": "a true", ".a_b.jsonl9876543210": "a_b true", ".a1.jsonl22": "a1 true", ".a.jsonl": "a false",
		"a.jsonl1": " false", "a.jsonl": " false", ".a.json1": ".a.json1 false", ".a1": ".a1 false", "": " false",
	} {
		stem, ok := leftoverOf(name)
		if got := fmt.Sprint(stem, " ", ok); ok != strings.HasSuffix(want, "true") || ok && got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// TestRepairRemovesLeftovers repairs a session next to temporary files of it and of
// other sessions.
func TestRepairRemovesLeftovers(t *testing.T) {
	m, d, _ := memDir(t, Options{})
	names := []string{".crab_user_1.jsonl1", ".crab_user_1_title.jsonl23", ".crab_user_10.jsonl1", ".crab_user_1.jsonl", ".x.jsonl1", "crab_user_1.jsonl1"}
	for _, name := range names {
		m.WriteFile("/s/"+name, nil, 0o600)
	}
	m.WriteFile("/s/crab_user_1.jsonl", []byte(`{"agent":"crab","created_by":"user","created_at":""}`+"\nbad\n"), 0o600)
	_, err := d.Repair("crab_user_1")
	must(t, err)
	var left []string
	for _, name := range names {
		if _, err := m.Lstat("/s/" + name); err == nil {
			left = append(left, name)
		}
	}
	if got := strings.Join(left, " "); got != strings.Join(names[2:], " ") {
		t.Errorf("left: %s", got)
	}
}

// TestTextLimits creates and imports sessions with texts at their limits.
func TestTextLimits(t *testing.T) {
	at, over := strings.Repeat("x", maxTitle), strings.Repeat("x", maxTitle+1)
	_, d, _ := memDir(t, Options{})
	meta := func(change func(m *Meta, s string), s string) Meta {
		m := Meta{Agent: "crab", CreatedBy: "user", CreatedAt: "now"}
		change(&m, s)
		return m
	}
	for i, change := range []func(m *Meta, s string){
		func(m *Meta, s string) { m.Agent = s }, func(m *Meta, s string) { m.CreatedBy = s },
		func(m *Meta, s string) { m.CreatedAt = s }, func(m *Meta, s string) { m.Title = s },
	} {
		l, err := d.Create(meta(change, at))
		must(t, err)
		must(t, l.Close())
		for _, s := range []string{over, "\xff", at + "\xff"} {
			if _, err := d.Create(meta(change, s)); !errors.Is(err, ErrInvalid) {
				t.Errorf("text %d, %.9q: %v", i, s, err)
			}
		}
	}
	l, err := d.Create(Meta{Agent: "crab", CreatedBy: "user"})
	must(t, err)
	must(t, l.SetTitle(at))
	for _, title := range []string{over, "\xff", "a\x00", "\x00"} {
		if err := l.SetTitle(title); err == nil || err.Error() != ErrInvalid.Error()+": title must be UTF-8 of at most 4096 bytes without NUL" || l.Meta().Title != at {
			t.Errorf("%.9q: %v", title, err)
		}
	}
	must(t, l.Close())
	for source, want := range map[string]error{at: nil, over: ErrInvalid, "\xff": ErrInvalid} {
		if _, _, err := d.Import(Meta{Agent: "crab", CreatedBy: "user", CreatedAt: "now", Source: source}, nil); !errors.Is(err, want) {
			t.Errorf("source of %d bytes: %v", len(source), err)
		}
	}
	calls := make([]ToolCall, line.MaxCalls+1)
	if err := checkMessage(&Message{Role: "assistant", ToolCalls: calls[1:]}); err != nil {
		t.Error(err)
	}
	if err := checkMessage(&Message{Role: "assistant", ToolCalls: calls}); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// TestLongestLines writes lines that are as long as the limit, and one byte longer.
func TestLongestLines(t *testing.T) {
	const limit = 300
	_, d, _ := memDir(t, Options{MaxLine: limit})
	l, err := d.Create(Meta{Agent: "crab", CreatedBy: "user"})
	must(t, err)
	defer l.Close()
	message := func(n int) Message {
		m := Message{Role: "user", Content: "x"}
		m.Content = strings.Repeat("x", n+2-len(line.AppendMessage(nil, &m))) // with the line end
		return m
	}
	summary := func(n int) string { return strings.Repeat("x", n+1-len(line.AppendMarker(nil, ""))) }
	imports := func(i Item) error {
		_, _, err := d.Import(Meta{Agent: "crab", CreatedBy: "user", CreatedAt: "now", Source: fmt.Sprint(len(i.Summary) + len(i.Message.Content))}, []Item{{Message: message(100)}, i})
		return err
	}
	for _, c := range []struct {
		what string
		do   func(n int) error
	}{
		{"message", func(n int) error { return l.Append(message(100), message(n)) }},
		{"summary", func(n int) error { return l.Compact(summary(n)) }},
		{"item", func(n int) error { return imports(Item{Message: message(n)}) }},
		{"item", func(n int) error { return imports(Item{Marker: true, Summary: summary(n)}) }},
	} {
		must(t, c.do(limit))
		want := fmt.Sprintf("%s needs a line of %d bytes; limit is %d", c.what, limit+1, limit)
		if err := c.do(limit + 1); !errors.Is(err, ErrInvalid) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestRecoveryOfLongLines opens sessions whose last line has no line end and is as
// long as the limit, or longer.
func TestRecoveryOfLongLines(t *testing.T) {
	const limit = 300
	for _, n := range []int{limit, limit + 1} {
		m, d, warnings := memDir(t, Options{MaxLine: limit})
		head := `{"agent":"crab","created_by":"user","created_at":""}` + "\n"
		last := `{"role":"user","content":"` + strings.Repeat("x", n-len(`{"role":"user","content":""}`)) + `"}`
		m.WriteFile("/s/crab_user_1.jsonl", []byte(head+last), 0o600)
		l, err := d.Open("crab_user_1")
		must(t, err)
		must(t, l.Close())
		got, err := vfs.ReadFile(m, "/s/crab_user_1.jsonl", 1<<20)
		must(t, err)
		want, warning := head+last+"\n", "/s/crab_user_1.jsonl: added the missing newline of the last line"
		if n > limit {
			want, warning = head, fmt.Sprintf("/s/crab_user_1.jsonl: moved a torn tail of %d bytes at offset %d to /s/.torn/crab_user_1-%d.jsonl", n, len(head), len(head))
		}
		if string(got) != want || len(*warnings) != 1 || (*warnings)[0] != warning {
			t.Errorf("%d bytes: %.60q, %q", n, got, *warnings)
		}
	}
}

// readsOf lists the reads of a reader.
type readsOf struct {
	io.ReaderAt
	list []string
	fail int // the number of the read that fails
}

func (r *readsOf) ReadAt(b []byte, off int64) (int, error) {
	r.list = append(r.list, fmt.Sprintf("%d+%d", off, len(b)))
	if len(r.list) == r.fail {
		return len(b) - 1, syscall.EIO
	}
	return r.ReaderAt.ReadAt(b, off)
}

func TestLastLineEnd(t *testing.T) {
	const chunk = 64 << 10
	for _, c := range []struct {
		before, after int // bytes before and after the line end; -1 for no line end
		want          string
	}{
		{0, 0, "1 <nil> [0+1]"}, {0, 5, "1 <nil> [0+6]"}, {5, 0, "6 <nil> [0+6]"}, {-1, 0, "0 <nil> []"}, {-1, 1, "0 <nil> [0+1]"},
		{0, chunk - 1, "1 <nil> [0+65536]"}, {0, chunk, "1 <nil> [1+65536 0+1]"}, {3, chunk + 1, "4 <nil> [5+65536 0+5]"},
		{chunk, 0, "65537 <nil> [1+65536]"}, {chunk - 1, chunk, "65536 <nil> [65536+65536 0+65536]"}, {-1, 2 * chunk, "0 <nil> [65536+65536 0+65536]"},
	} {
		text := strings.Repeat("x", c.after)
		if c.before >= 0 {
			text = strings.Repeat("x", c.before) + "\n" + text
		}
		r := &readsOf{ReaderAt: strings.NewReader(text)}
		end, err := lastLineEnd(r, int64(len(text)))
		if got := fmt.Sprint(end, " ", err, " ", r.list); got != c.want {
			t.Errorf("%d, %d: %s, want %s", c.before, c.after, got, c.want)
		}
	}
	r := &readsOf{ReaderAt: strings.NewReader(strings.Repeat("x", 2*chunk)), fail: 2}
	if end, err := lastLineEnd(r, 2*chunk); end != 0 || err != syscall.EIO {
		t.Errorf("%d, %v", end, err)
	}
}

// TestHolds compares files with bytes, and fails each call.
func TestHolds(t *testing.T) {
	m, d, _ := memDir(t, Options{})
	m.WriteFile("/s/file", []byte("some bytes"), 0o600)
	m.Symlink("file", "/s/link")
	want := io.NewSectionReader(strings.NewReader("-some bytes-"), 1, 10)
	for _, c := range []struct {
		path string
		want *io.SectionReader
		fail string // operation
		same bool
		err  error
	}{
		{"/s/file", want, "", true, nil}, {"/s/link", want, "", false, nil}, {"/s/none", want, "", false, fs.ErrNotExist},
		{"/s/file", io.NewSectionReader(strings.NewReader("some bytes"), 0, 9), "", false, nil},
		{"/s/file", io.NewSectionReader(strings.NewReader("some Bytes"), 0, 10), "", false, nil},
		{"/s/file", want, "open", false, syscall.EIO}, {"/s/file", want, "stat", false, syscall.EIO}, {"/s/file", want, "read", false, syscall.EIO},
		{"/s/file", io.NewSectionReader(&readsOf{ReaderAt: strings.NewReader("some bytes"), fail: 1}, 0, 10), "", false, syscall.EIO},
	} {
		m.Hook = func(call faultfs.Call) error {
			if call.Op == c.fail {
				return syscall.EIO
			}
			return nil
		}
		same, err := d.holds(c.path, c.want)
		m.Hook = nil
		if same != c.same || !errors.Is(err, c.err) {
			t.Errorf("%+v: %t, %v", c, same, err)
		}
	}
}

// TestWrittenLines adds lines whose sizes are at the limit.
func TestWrittenLines(t *testing.T) {
	const half = maxWritten / 2
	for _, c := range []struct {
		sizes []int
		want  int // bytes that are remembered
	}{
		{[]int{10, 20}, 30}, {[]int{half, half}, 2 * half}, {[]int{half, half, 1}, 2*half + 1}, {[]int{half, half + 1}, 2*half + 1},
		{[]int{half, half + 1, half}, half + 1 + half}, {[]int{half, half, half, half, 1}, 2*half + 1}, {[]int{5, maxWritten}, maxWritten + 5},
		{[]int{5, maxWritten + 1}, 0}, {[]int{5, maxWritten + 1, 7}, 7}, {[]int{5, 2 * maxWritten}, 0},
	} {
		var w written
		var all []byte
		for i, n := range c.sizes {
			b := bytes.Repeat([]byte{byte('a' + i)}, n)
			w.add(int64(len(all)), b)
			all = append(all, b...)
		}
		if got := w.lines(); !bytes.Equal(got, all[len(all)-c.want:]) || w.end != int64(len(all)) {
			t.Errorf("%v: %d bytes to %d, want %d", c.sizes, len(got), w.end, c.want)
		}
		if !w.isIn(bytes.NewReader(all)) {
			t.Errorf("%v: not in the file", c.sizes)
		}
		if c.want > 0 {
			all[len(all)-c.want] ^= 1
			if w.isIn(bytes.NewReader(all)) || w.isIn(bytes.NewReader(all[:len(all)-1])) {
				t.Errorf("%v: in another file", c.sizes)
			}
		}
	}
}

func TestKeptNames(t *testing.T) {
	for name, want := range map[string]string{
		"a_kept-01.jsonl": "a", "a_lines-01.jsonl": "a", "_kept-01.jsonl": "", "a_kept-b_lines-01.jsonl": "a_kept-b", "a_lines-b_kept-01.jsonl": "a_lines-b", "a.jsonl": "a", "kept-1.jsonl": "kept-1",
	} {
		if got := keptID(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestReportOfChangedFiles compares lock texts with the inode and the length of a
// session file.
func TestReportOfChangedFiles(t *testing.T) {
	_, d, warnings := memDir(t, Options{})
	l, err := d.Create(Meta{Agent: "crab", CreatedBy: "user"})
	must(t, err)
	defer l.Close()
	ino := vfs.Identify(l.open.info).Ino
	for _, c := range []struct {
		inodes []uint64
		clean  int64
		want   string
	}{
		{nil, -1, ""}, {nil, 10, ""}, {[]uint64{ino}, 10, ""}, {[]uint64{ino + 1, ino}, -1, ""},
		{nil, 0, "has 10 bytes, but its last writer in this boot left 0"}, {nil, 9, "has 10 bytes, but its last writer in this boot left 9"},
		{[]uint64{ino}, 11, "has 10 bytes, but its last writer in this boot left 11"},
		{[]uint64{ino + 1}, 10, "is not the file that process 7 (cmd) wrote"}, {[]uint64{ino + 1, ino + 2}, 9, "is not the file that process 7 (cmd) wrote"},
	} {
		*warnings = nil
		l.report(vfs.LockHolder{PID: 7, Command: "cmd", Inodes: c.inodes, Clean: c.clean}, 10)
		if got := strings.Join(*warnings, "\n"); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
