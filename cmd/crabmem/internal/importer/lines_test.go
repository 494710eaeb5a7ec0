package importer

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
)

// TestParseLine checks that a line is taken exactly or not at all.
func TestParseLine(t *testing.T) {
	for line, ok := range map[string]bool{
		`{"name":"a"}`:                       true,
		`{"name":"\ud83d\ude00"}`:            true,
		`{"name":"\\ud83d"}`:                 true,
		`{"name":"\\\ud83d"}`:                false,
		`{"name":"\ud83d"}`:                  false,
		`{"name":"\ude00\ud83d"}`:            false,
		`{"name":"\uD83Dx"}`:                 false,
		`{"name":"a"} {}`:                    false,
		`{"content":"a"}`:                    false,
		`{"name":"a","id":-1}`:               false,
		`{"name":"a","kind":"topic"}`:        false,
		`{"name":"a","created_at":1e99}`:     false,
		`["a"]`:                              false,
		"{\"name\":\"\xff\"}":                false,
		`{"name":"a","aliases":["b","c"]}`:   true,
		`{"name":"a","id":1,"created_at":1}`: true,
		`{"name":"a","id":1}`:                true,
		`{"name":"a","created_at":1}`:        true,
	} {
		l, err := parseLine(line)
		if (err == nil) != ok {
			t.Errorf("%s: %v, %v", line, l.Entry, err)
		}
		if l.Exported != (ok && strings.Contains(line, `"id":1,"created_at":1`)) {
			t.Errorf("%s: exported %v", line, l.Exported)
		}
		if ok && line == `{"name":"\\ud83d"}` && l.Entry.Name != `\ud83d` {
			t.Errorf("%s: name %q", line, l.Entry.Name)
		}
	}
}

// TestReadingProgress checks the progress of each kind of source: it rises to a total
// that is known from the beginning.
func TestReadingProgress(t *testing.T) {
	lines := strings.Repeat("{\"name\":\"a\",\"content\":\"long\"}\n", 10000)
	chats := `[{"uuid":"c-%d","name":"x","chat_messages":[` + strings.Repeat(" ", 200_000) + `]}]`
	m := faultfs.NewMem()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	m.WriteFile("/lines.jsonl", []byte(lines), 0o600)
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	check(m.Mkdir("/export", 0o700))
	check(m.Mkdir("/vault", 0o700))
	check(m.Mkdir("/vault/sub", 0o700))
	check(m.Mkdir("/brain", 0o700))
	check(m.Mkdir("/brain/entries", 0o700))
	size := 0
	for i := range 3 {
		name, text := fmt.Sprintf("conversations-%d.json", i), fmt.Sprintf(chats, i)
		w, err := z.Create(name)
		check(err)
		io.WriteString(w, text)
		m.WriteFile("/export/"+name, []byte(text), 0o600)
		m.WriteFile(fmt.Sprintf("/vault/%d.md", i), []byte("text"), 0o600)
		m.WriteFile(fmt.Sprintf("/vault/sub/%d.md", i), []byte("text"), 0o600)
		m.WriteFile(fmt.Sprintf("/brain/entries/%d.md", i), []byte("---\nname: x\n---\ntext"), 0o600)
		size += len(text)
	}
	check(z.Close())
	m.WriteFile("/export.zip", archive.Bytes(), 0o600)

	for _, tc := range []struct {
		kind, path string
		total      int64
	}{
		{Crabmem, "/lines.jsonl", int64(len(lines))},
		{Claude, "/export", int64(size)},
		{Claude, "/export.zip", int64(size)},
		{Markdown, "/vault", 6},
		{RFC0038, "/brain", 3},
	} {
		t.Run(tc.kind+tc.path, func(t *testing.T) {
			var last int64
			calls := 0
			in := &Source{FS: m, Path: tc.path, Kind: tc.kind, Bytes: func(done, total int64) {
				calls++
				if done < last || total != tc.total {
					t.Errorf("%d of %d after %d, want a total of %d", done, total, last, tc.total)
				}
				last = done
			}}
			in.Pages = func(done, total int) { in.Bytes(int64(done), int64(total)) }
			var err error
			switch tc.kind {
			case Crabmem:
				_, _, err = in.Lines()
			case Claude:
				_, err = in.Chats(func(*Chat) error { return nil })
			default:
				_, err = in.Memory(t.Context())
			}
			if err != nil || calls < 3 || last != tc.total {
				t.Errorf("%d calls, %d of %d, %v", calls, last, tc.total, err)
			}
		})
	}
}
