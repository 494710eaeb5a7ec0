package importer

import (
	"crabmem/crmem/vfs/faultfs"
	"strings"
	"testing"
)

// TestParseLine checks that a line is taken exactly or not at all.
func TestParseLine(t *testing.T) {
	for line, ok := range map[string]bool{
		`{"name":"a"}`:                     true,
		`{"name":"\ud83d\ude00"}`:          true,
		`{"name":"\\ud83d"}`:               true,
		`{"name":"\\\ud83d"}`:              false,
		`{"name":"\ud83d"}`:                false,
		`{"name":"\ude00\ud83d"}`:          false,
		`{"name":"\uD83Dx"}`:               false,
		`{"name":"a"} {}`:                  false,
		`{"content":"a"}`:                  false,
		`{"name":"a","id":-1}`:             false,
		`{"name":"a","kind":"topic"}`:      false,
		`{"name":"a","created_at":1e99}`:   false,
		`["a"]`:                            false,
		"{\"name\":\"\xff\"}":              false,
		`{"name":"a","aliases":["b","c"]}`: true,
	} {
		l, err := parseLine(line)
		if (err == nil) != ok {
			t.Errorf("%s: %v, %v", line, l.Entry, err)
		}
		if ok && line == `{"name":"\\ud83d"}` && l.Entry.Name != `\ud83d` {
			t.Errorf("%s: name %q", line, l.Entry.Name)
		}
	}
}

// TestReadingProgress reads a file and checks the reported bytes.
func TestReadingProgress(t *testing.T) {
	m := faultfs.NewMem()
	text := strings.Repeat("{\"name\":\"a\",\"content\":\"long\"}\n", 10000)
	m.WriteFile("/lines.jsonl", []byte(text), 0o600)
	var last int64
	calls := 0
	in := &Source{FS: m, Path: "/lines.jsonl", Kind: Crabmem, Progress: func(done, total int64) {
		calls++
		if done < last || total != int64(len(text)) {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last = done
	}}
	if lines, _, err := in.Lines(); err != nil || len(lines) != 10000 || calls < 3 || last != int64(len(text)) {
		t.Errorf("%d lines, %d calls, %d bytes, %v", len(lines), calls, last, err)
	}
}
