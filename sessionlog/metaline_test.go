package sessionlog

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog/internal/line"
)

// metaLine returns a meta line of n bytes with the line end.
func metaLine(n int) string {
	m := Meta{Agent: "a", CreatedBy: "b", CreatedAt: "c"}
	m.Title = strings.Repeat("t", n-len(line.AppendMeta(nil, &m))-len(`,"title":""`))
	text := string(line.AppendMeta(nil, &m))
	m.Title += strings.Repeat("t", n-len(text))
	return string(line.AppendMeta(nil, &m))
}

// TestReadMetaLineOfAnyLength reads meta lines around the sizes of the buffer and
// around the limit, with and without a line end.
func TestReadMetaLineOfAnyLength(t *testing.T) {
	for _, around := range []int{200, 1 << 10, 4 << 10, maxMetaLine + 1} {
		for n := around - 1; n <= around+1; n++ {
			text := metaLine(n)
			if len(text) != n {
				t.Fatalf("a line of %d bytes, want %d", len(text), n)
			}
			whole := text[:n-1]
			for _, c := range []struct {
				what, file string
				good       bool
			}{
				{"with a line end", text, n-1 <= maxMetaLine},
				{"and a message", text + `{"role":"user"}` + "\n", n-1 <= maxMetaLine},
				{"without a line end", whole, n-1 <= maxMetaLine},
				{"joined with a message", whole + `{"role":"user"}` + "\n", n-1 <= maxMetaLine},
				{"joined with a torn message", whole + `{"role`, n-1 <= maxMetaLine},
				{"cut", whole[:n-2], false},
				{"after a blank line", "\n" + text, false},
				{"joined after text", "x" + text, false},
			} {
				m, err := readMetaLine(strings.NewReader(c.file), "file")
				if good := err == nil; good != c.good || good != (len(m.Title) > 0) || !good && !errors.Is(err, ErrFormat) {
					t.Errorf("%d bytes %s: %v", n, c.what, err)
				}
			}
		}
	}
}

// TestReadMetaLineReturnsErrors fails reads of files of several lengths.
func TestReadMetaLineReturnsErrors(t *testing.T) {
	failed := errors.New("read failed")
	for _, n := range []int{0, 100, 1 << 10, 5000} {
		r := io.NewSectionReader(failingAt{strings.NewReader(strings.Repeat("x", n)), failed}, 0, 1<<30)
		if _, err := readMetaLine(r, "file"); !errors.Is(err, failed) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	text := metaLine(900)
	if m, err := readMetaLine(failingAt{strings.NewReader(text), failed}, "file"); m != (Meta{}) || err != failed {
		t.Errorf("an error after the line: %v, %v", m.Agent, err)
	}
	if m, err := readMetaLine(failingAt{strings.NewReader(text + text), failed}, "file"); m.Agent != "a" || err != nil {
		t.Errorf("an error after the first read: %v, %v", m.Agent, err)
	}
	for file, want := range map[string]string{
		"":         "no meta line",
		"\n":       "no meta line",
		"{\n":      "no meta line: record is cut after 1 bytes",
		`{"a":1}`:  `no meta line: no meta line: "agent" is missing`,
		"text\n\n": "no meta line: not JSON at byte 2: unexpected 'e'",
	} {
		_, err := readMetaLine(strings.NewReader(file), "file")
		if want = "file: line 1 (offset 0): " + want; fmt.Sprint(err) != want {
			t.Errorf("%q: %v, want %s", file, err, want)
		}
	}
}

// failingAt returns an error in place of io.EOF.
type failingAt struct {
	io.ReaderAt
	err error
}

func (f failingAt) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.ReaderAt.ReadAt(b, off)
	if err == io.EOF {
		err = f.err
	}
	return n, err
}

// TestLineLimits writes and imports lines of exactly Options.MaxLine, and of one
// byte more.
func TestLineLimits(t *testing.T) {
	message := Message{Role: "user", Content: "text"}
	marker := line.AppendMarker(nil, "summary")
	limit := len(line.AppendMessage(nil, &message)) - 1
	for n, refused := range []string{"", fmt.Sprintf("invalid: %%s needs a line of %d bytes; limit is %d", limit+1, limit)} {
		d, err := OpenDir("/s", &Options{FS: faultfs.NewMem(), MaxLine: int64(limit)})
		if err != nil {
			t.Fatal(err)
		}
		m := message
		m.Content += strings.Repeat("x", n)
		summary := "summary" + strings.Repeat("x", limit+1-len(marker)+n)
		want := func(what, item string) string {
			if refused == "" {
				return "<nil>"
			}
			return item + fmt.Sprintf(refused, what)
		}
		l, err := d.Create(Meta{Agent: "a", CreatedBy: "b"})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Append(m); fmt.Sprint(err) != want("message", "") {
			t.Errorf("append: %v", err)
		}
		if err := l.Compact(summary); fmt.Sprint(err) != want("summary", "") {
			t.Errorf("compact: %v", err)
		}
		for i, item := range []Item{{Message: m}, {Marker: true, Summary: summary}} {
			_, _, err := d.Import(Meta{Agent: "a", CreatedBy: "b", CreatedAt: "c", Source: fmt.Sprint("s", i)}, []Item{{Message: Message{Role: "user"}}, item})
			if fmt.Sprint(err) != want("item", "item 2: ") {
				t.Errorf("import of item %d: %v", i, err)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestImportNumbersFollowTrash imports where the trash and the folder contain
// sessions with higher numbers, and no locks.
func TestImportNumbersFollowTrash(t *testing.T) {
	for _, c := range []struct{ files, want string }{
		{"", "a_b_1"},
		{"/s/.trash/a_b_4.jsonl /s/a_b_2.jsonl", "a_b_5"},
		{"/s/.trash/a_b_2.jsonl /s/a_b_4_title.jsonl", "a_b_5"},
		{"/s/.trash/other_b_4.jsonl /s/other_b_9.jsonl /s/a_b_x.jsonl", "a_b_1"},
		{"/s/.trash/a_b_0.jsonl /s/a_b_03.jsonl", "a_b_1"},
	} {
		m := faultfs.NewMem()
		for _, dir := range []string{"/s", "/s/.trash"} {
			if err := m.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for file := range strings.FieldsSeq(c.files) {
			m.WriteFile(file, []byte("text\n"), 0o600)
		}
		d, err := OpenDir("/s", &Options{FS: m})
		if err != nil {
			t.Fatal(err)
		}
		meta := Meta{Agent: "a", CreatedBy: "b", CreatedAt: "c", Source: "s:1"}
		if id, changed, err := d.Import(meta, nil); id != c.want || !changed || err != nil {
			t.Errorf("%s: %s, %t, %v; want %s", c.files, id, changed, err, c.want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
