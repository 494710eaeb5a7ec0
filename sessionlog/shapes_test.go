package sessionlog

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog/internal/line"
)

const shapesMeta = `{"agent":"crab","created_by":"user","created_at":""}` + "\n"

// TestOpenShortensNames opens sessions whose file names are as long as the limit for
// new names, and longer.
func TestOpenShortensNames(t *testing.T) {
	slug := strings.Repeat("x", 300)
	for _, c := range []struct{ before, after string }{
		{"crab_user_1_" + "X" + slug[:maxName-13-len(nameExt)], "crab_user_1_" + "X" + slug[:maxName-13-len(nameExt)]},
		{"crab_user_1_" + slug[:maxName-11-len(nameExt)], fileName("crab_user_1", slug[:maxName-11-len(nameExt)])},
		{"crab_user_1_Title", "crab_user_1_Title"},
		{"other_" + slug[:maxName-len(nameExt)], "other_" + slug[:maxName-len(nameExt)]},
	} {
		m, d, _ := memDir(t, Options{})
		m.WriteFile("/s/"+c.before+nameExt, []byte(shapesMeta), 0o600)
		id, _, _ := strings.Cut(strings.Replace(c.before, "_X", "_x", 1), "_x")
		if id == "other" {
			id = c.before
		}
		l, err := d.Open(strings.TrimSuffix(id, "_Title"))
		must(t, err)
		if got := strings.TrimSuffix(strings.TrimPrefix(l.Path(), "/s/"), nameExt); got != strings.TrimSuffix(c.after, nameExt) {
			t.Errorf("%.20s of %d bytes: %.20s of %d bytes", c.before, len(c.before), got, len(got))
		}
		must(t, l.Close())
	}
}

// TestRecoveryOfLastLines opens sessions whose last line has no line end.
func TestRecoveryOfLastLines(t *testing.T) {
	const bom = "\xef\xbb\xbf"
	for _, c := range []struct{ before, after string }{
		{shapesMeta + `{"x":1}`, shapesMeta + `{"x":1}` + "\n"},
		{shapesMeta + bom + `{"x":1}`, shapesMeta},
		{shapesMeta + bom + `{"role":"user","content":"a"}`, shapesMeta + bom + `{"role":"user","content":"a"}` + "\n"},
		{strings.TrimSuffix(shapesMeta, "\n"), shapesMeta},
		{bom + strings.TrimSuffix(shapesMeta, "\n"), bom + shapesMeta},
		{bom + strings.TrimSuffix(shapesMeta, "\n") + `{"ro`, bom + shapesMeta},
		{strings.TrimSuffix(shapesMeta, "\n") + `{"ro`, shapesMeta},
		{shapesMeta + " \t", shapesMeta},
		{shapesMeta + `{"r{"role":"user","content":"a"} {"ro`, shapesMeta + `{"r{"role":"user","content":"a"} ` + "\n"},
		{shapesMeta + `{"role":"us`, shapesMeta},
	} {
		m, d, _ := memDir(t, Options{})
		m.WriteFile("/s/crab_user_1.jsonl", []byte(c.before), 0o600)
		l, err := d.Open("crab_user_1")
		must(t, err)
		must(t, l.Close())
		got, err := vfs.ReadFile(m, "/s/crab_user_1.jsonl", 1<<20)
		must(t, err)
		if string(got) != c.after {
			t.Errorf("%q: %q, want %q", c.before, got, c.after)
		}
	}
}

// TestLastLinesOfBlankLines counts blank lines at the beginning of a file.
func TestLastLinesOfBlankLines(t *testing.T) {
	m, d, _ := memDir(t, Options{})
	for _, text := range []string{"\n\nx", "\n\n", "\n", "x", "\n\n\n\nx\n"} {
		m.WriteFile("/s/x.jsonl", []byte(text), 0o600)
		s, err := d.Read("x")
		must(t, err)
		lines := strings.SplitAfter(text, "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		for n := range len(lines) + 2 {
			want := strings.Join(lines[max(0, len(lines)-n):], "")
			if at, err := s.LastLines(n); err != nil || text[at:] != want {
				t.Errorf("%q: the last %d lines are %q, want %q, %v", text, n, text[at:], want, err)
			}
		}
		must(t, s.Close())
	}
}

// TestCompactionsOfJoinedMarkers lists compactions whose markers are on one line.
func TestCompactionsOfJoinedMarkers(t *testing.T) {
	m, d, _ := memDir(t, Options{})
	user := `{"role":"user","content":"a"}`
	m.WriteFile("/s/crab_user_1.jsonl", []byte(shapesMeta+user+"\n"+`{"compact":"one"}{"compact":"two"}`+user+`{"compact":"three"}`+"\n"+`{"compact":"four"}`+"\n"+user+"\n"+`{"compact":"five"}`), 0o600)
	s, err := d.Read("crab_user_1")
	must(t, err)
	defer s.Close()
	list, err := s.Compactions()
	must(t, err)
	var got []string
	for _, c := range list {
		var b strings.Builder
		must(t, s.Expand(c, &b))
		got = append(got, fmt.Sprintf("%d %s at %d: lines %d to %d, %d messages: %q", c.N, c.Summary, c.Line, c.FirstLine, c.LastLine, c.Messages, b.String()))
	}
	want := []string{
		fmt.Sprintf("1 one at 3: lines 2 to 2, 1 messages: %q", user+"\n"),
		`2 two at 3: lines 3 to 2, 0 messages: ""`,
		fmt.Sprintf("3 three at 3: lines 3 to 3, 1 messages: %q", user),
		`4 four at 4: lines 4 to 3, 0 messages: ""`,
		fmt.Sprintf("5 five at 6: lines 5 to 5, 1 messages: %q", user+"\n"),
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestDefaults(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []int{-1, 0, 1, 2} {
		d, err := OpenDir(dir, &Options{MaxOpen: n})
		must(t, err)
		want := n
		if n < 1 {
			want = defaultMaxOpen
		}
		if d.opts.MaxOpen != want || d.opts.MaxLine != line.LimitOf(0) || d.opts.Now == nil || d.fs != (vfs.OS{}) {
			t.Errorf("%d: %+v", n, d.opts)
		}
		must(t, d.Close())
	}
}

// TestOpenDuringFailedOpen opens a session while another call opens it and fails.
func TestOpenDuringFailedOpen(t *testing.T) {
	m, d, _ := memDir(t, Options{})
	m.WriteFile("/s/crab_user_1.jsonl", []byte(shapesMeta), 0o600)
	opened := make(chan *Log, 1)
	m.Hook = func(c faultfs.Call) error {
		if c.Op != "lock" {
			return nil
		}
		m.Hook = nil
		go func() {
			l, err := d.Open("crab_user_1")
			if err != nil {
				t.Error(err)
			}
			opened <- l
		}()
		for { // until the other call waits
			d.mu.Lock()
			users := d.logs["crab_user_1"].refs
			d.mu.Unlock()
			if users == 2 {
				return syscall.EIO
			}
			runtime.Gosched()
		}
	}
	if _, err := d.Open("crab_user_1"); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	l := <-opened
	d.mu.Lock()
	if d.logs["crab_user_1"] != l {
		t.Error("the session is not in the table")
	}
	d.mu.Unlock()
	must(t, l.Close())
}

// TestMoveToExistingSession deletes and restores sessions whose ID is in use at the
// destination.
func TestMoveToExistingSession(t *testing.T) {
	m, d, _ := memDir(t, Options{})
	must(t, m.Mkdir("/s/.trash", 0o700))
	for _, name := range []string{"crab_user_1_title", ".trash/crab_user_1", "crab_user_2", ".trash/crab_user_2"} {
		m.WriteFile("/s/"+name+nameExt, []byte(shapesMeta), 0o600)
	}
	for _, c := range []struct {
		err  error
		path string
	}{
		{d.Restore("crab_user_1"), "/s/crab_user_1_title.jsonl"}, {d.Delete("crab_user_1"), "/s/.trash/crab_user_1.jsonl"},
		{d.Restore("crab_user_2"), "/s/crab_user_2.jsonl"}, {d.Delete("crab_user_2"), "/s/.trash/crab_user_2.jsonl"},
	} {
		if !errors.Is(c.err, ErrExists) || !strings.HasSuffix(c.err.Error(), ": "+c.path) {
			t.Errorf("%s: %v", c.path, c.err)
		}
	}
}

// TestCheckListsDamage checks files with as many bad lines as a check lists, and
// one more.
func TestCheckListsDamage(t *testing.T) {
	m, d, _ := memDir(t, Options{})
	for _, n := range []int{line.MaxDamage, line.MaxDamage + 1} {
		m.WriteFile("/s/crab_user_1.jsonl", []byte(shapesMeta+strings.Repeat("bad\n", n)), 0o600)
		s, err := d.Read("crab_user_1")
		must(t, err)
		c, err := s.Check()
		must(t, err)
		if c.Damaged != n || len(c.Damage) != line.MaxDamage || c.Damage[line.MaxDamage-1].Line != line.MaxDamage+1 {
			t.Errorf("%d bad lines: %d damaged, %d listed", n, c.Damaged, len(c.Damage))
		}
		must(t, s.Close())
	}
}

// TestLastRecordEndOfFirstLine finds the last record of a file without a line end:
// only a meta line is one.
func TestLastRecordEndOfFirstLine(t *testing.T) {
	m, d, _ := memDir(t, Options{})
	meta := strings.TrimSuffix(shapesMeta, "\n")
	for text, want := range map[string]int{meta: len(meta), `{"agent":"crab"}`: 0, meta + `{"ro`: len(meta), `{"ro`: 0, " ": 0} {
		m.WriteFile("/s/x.jsonl", []byte(text), 0o600)
		f, err := m.Open("/s/x.jsonl")
		must(t, err)
		l := &Log{dir: d, open: &openFiles{file: f}}
		if end, err := l.lastRecordEnd(0, int64(len(text))); err != nil || end != int64(want) {
			t.Errorf("%q: %d, %v, want %d", text, end, err, want)
		}
		must(t, f.Close())
	}
}
