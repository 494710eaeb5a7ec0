package crmem_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/fuzz/vectors"
)

const (
	snapshotVectors = 149
	logVectors      = 142
)

func load(t testing.TB, dir string, least int) []*vectors.Vector {
	t.Helper()
	all, err := vectors.Load(os.DirFS(filepath.Join("..", "testdata", "vectors")), dir, least)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// says has texts that the error must contain, by class.
var says = map[string][]string{
	"magic":     {"is not CRMEM"},
	"version":   {"version"},
	"flags":     {"unknown flags"},
	"reserved":  {"reserved bytes"},
	"truncated": {"the file ends", "do not fit"},
	"trailing":  {"after the last entry"},
	"utf8":      {"invalid UTF-8"},
	"kind":      {"kind"},
	"dup-id":    {"duplicate id"},
	"dup-name":  {"duplicate name"},
	"order":     {"must ascend"},
	"next-id":   {"next_id"},
}

// faultOf compares an error with the expectation of a vector.
func faultOf(v *vectors.Vector, err error, path string) error {
	if v.Expect == "ok" {
		return err
	}
	f, ok := errors.AsType[*crmem.FormatError](err)
	switch {
	case !ok || !errors.Is(err, crmem.ErrFormat):
		return fmt.Errorf("error %v, want a *FormatError", err)
	case f.Field != v.Field || f.Offset != v.Offset || f.Entry != v.Entry || f.Path != path:
		return fmt.Errorf("error %v, want %s at %d in entry %d of %q", err, v.Field, v.Offset, v.Entry, path)
	}
	if len(says[v.Expect]) == 0 {
		return fmt.Errorf("class %q is not known", v.Expect)
	}
	for _, s := range says[v.Expect] {
		if strings.Contains(f.Msg, s) {
			return nil
		}
	}
	return fmt.Errorf("message %q, want one of %q", f.Msg, says[v.Expect])
}

func TestSnapshotVectorsDecode(t *testing.T) {
	for _, v := range load(t, "snapshot", snapshotVectors) {
		s, err := crmem.Decode(v.DB())
		if err := faultOf(v, err, ""); err != nil {
			t.Errorf("%s: decode: %v", v.Name, err)
			continue
		}
		if v.Expect != "ok" {
			continue
		}
		// A decoded snapshot encodes to the same bytes, by every method.
		b, err := s.AppendBinary([]byte("before"))
		if err != nil || string(b) != "before"+string(v.DB()) {
			t.Errorf("%s: AppendBinary: %v, %x", v.Name, err, b)
		}
		var w bytes.Buffer
		if n, err := s.WriteTo(&w); err != nil || n != int64(len(v.DB())) || !bytes.Equal(w.Bytes(), v.DB()) {
			t.Errorf("%s: WriteTo: %d, %v, %x", v.Name, n, err, w.Bytes())
		}
		again, err := crmem.NewSnapshot(s.NextID, slices.Collect(s.All()))
		if err != nil {
			t.Errorf("%s: NewSnapshot: %v", v.Name, err)
			continue
		}
		if b, err := again.AppendBinary(nil); err != nil || !bytes.Equal(b, v.DB()) {
			t.Errorf("%s: NewSnapshot: %v, %x", v.Name, err, b)
		}
	}
}

// TestPrefixLaw: no strict prefix of a valid file is one, and neither is a
// valid file and a byte.
func TestPrefixLaw(t *testing.T) {
	files := map[string][]byte{}
	for _, v := range load(t, "snapshot", snapshotVectors) {
		if v.Expect == "ok" {
			files[v.Name] = v.DB()
		}
	}
	for _, name := range []string{"basic", "unicode", "history"} {
		files[name] = goldenFile(t, name+".db")
	}
	n := 0
	for name, b := range files {
		for i := range b {
			n++
			if _, err := crmem.Decode(b[:i:i]); !errors.Is(err, crmem.ErrFormat) {
				t.Errorf("%s: %d of %d bytes: %v", name, i, len(b), err)
			}
		}
		for _, c := range []byte{0, 1, '\n', 0xff} {
			_, err := crmem.Decode(append(b[:len(b):len(b)], c))
			f, ok := errors.AsType[*crmem.FormatError](err)
			if !ok || f.Field != "trailing" || f.Offset != int64(len(b)) {
				t.Errorf("%s and byte %#x: %v", name, c, err)
			}
		}
	}
	t.Logf("prefixes refused: %d of %d files", n, len(files))
}

// formatExample returns the bytes of an example of FORMAT.md, from 0.
func formatExample(t *testing.T, n int) (b []byte) {
	t.Helper()
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```hex\n")
	if len(blocks) < n+2 {
		t.Fatalf("FORMAT.md has %d examples", len(blocks)-1)
	}
	block, _, _ := strings.Cut(blocks[n+1], "```")
	for line := range strings.Lines(block) {
		digits, comment, _ := strings.Cut(line, "#")
		at, _, _ := strings.Cut(strings.TrimSpace(comment), " ")
		if n, err := strconv.ParseInt(at, 16, 64); err != nil || n != int64(len(b)) {
			t.Errorf("line %q is at offset %04x", line, len(b))
		}
		part, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, part...)
	}
	return b
}

// TestFormatLogExample reads the example of a log of FORMAT.md, checkpoints it,
// and compares the next log's header with the record checksum of the text.
func TestFormatLogExample(t *testing.T) {
	log := formatExample(t, 1)
	empty, err := crmem.NewSnapshot(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := empty.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, identity, _ := strings.Cut(string(text), "```\nidentity ")
	identity, _, _ = strings.Cut("identity "+identity, "```")
	path := Place(t, map[string][]byte{"db": db, "wal": log, "id": []byte(identity)})
	s, err := crmem.Open(path, &crmem.Options{Warn: func(m string) { t.Errorf("warning: %s", m) }})
	if err != nil {
		t.Fatal(err)
	}
	want := crmem.Entry{ID: 1, Name: "deploy", CreatedAt: 1776162225, Content: "prod steps", Aliases: []string{"ship"}}
	if got := slices.Collect(s.All()); len(got) != 1 || !got[0].Equal(want) || s.NextID() != 2 {
		t.Errorf("entries %+v, next ID %d", got, s.NextID())
	}
	if err := errors.Join(s.Checkpoint(), s.Close()); err != nil {
		t.Fatal(err)
	}
	compareHistory(t, path, string(text), formatExample(t, 2))
	next, err := os.ReadFile(path + "-wal")
	if err != nil || len(next) != 112 {
		t.Fatalf("next log: %d bytes, %v", len(next), err)
	}
	_, sum, _ := strings.Cut(string(text), "Its record checksum\nis `")
	prev := hex.EncodeToString([]byte{next[107], next[106], next[105], next[104]})
	if !bytes.Equal(next[48:80], log[48:80]) || !bytes.Equal(next[80:96], log[64:80]) || next[96] != 1 || !strings.HasPrefix(sum, prev) {
		t.Errorf("next log: % x; record checksum %s", next[48:], prev)
	}
}

// compareHistory compares the history of the store at path with the example. Salt and
// checksums differ.
func compareHistory(t *testing.T, path, text string, want []byte) {
	t.Helper()
	files := filesIn(t, path+"-history")
	got := []byte(files["00000001.log"])
	if len(files) != 2 || len(got) != len(want) {
		t.Fatalf("history %q", slices.Sorted(maps.Keys(files)))
	}
	for name := range files {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("FORMAT.md does not name %s", name)
		}
	}
	for _, b := range [][]byte{got, want} {
		clear(b[8:16])
		clear(b[44:48])
		clear(b[108:112])
		clear(b[112+24 : 112+32])
	}
	if !bytes.Equal(got, want) {
		t.Errorf("segment % x\nwant % x", got, want)
	}
}

// TestFormatHistoryExample reads the example of a history, without the log.
func TestFormatHistoryExample(t *testing.T) {
	readHistoryExample(t, "00000001.log", formatExample(t, 2))
	z := formatExample(t, 3)
	if got := decompressed(string(z)); got != string(formatExample(t, 2)) {
		t.Errorf("the compressed segment has the content % x", got)
	}
	readHistoryExample(t, "00000001.log.zst", z)
}

// readHistoryExample reads a history with one segment.
func readHistoryExample(t *testing.T, name string, segment []byte) {
	path := Place(t, map[string][]byte{"db": formatExample(t, 0)})
	empty, err := crmem.NewSnapshot(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	base, err := empty.AppendBinary(nil)
	err = errors.Join(err, os.Mkdir(path+"-history", 0o700),
		os.WriteFile(path+"-history/1c000000000000009634d8ed4a2f00e7.crmem", base, 0o600),
		os.WriteFile(path+"-history/"+name, segment, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	s, err := crmem.Open(path, &crmem.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for c, err := range s.Changes() {
		if n++; err != nil || c.Seq != 1 || c.By.Client != crmem.ClientCLI || c.After.Name != "deploy" {
			t.Errorf("change %+v, %v", c, err)
		}
	}
	if n != 1 {
		t.Errorf("%d changes", n)
	}
}

// TestFormatExample reads the example of FORMAT.md.
func TestFormatExample(t *testing.T) {
	b := formatExample(t, 0)
	s, err := crmem.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	want := crmem.Entry{ID: 1, Name: "deploy", CreatedAt: 1776162225, Content: "prod steps", Aliases: []string{"ship"}}
	if got := slices.Collect(s.All()); len(got) != 1 || !got[0].Equal(want) || s.NextID != 2 {
		t.Errorf("the example is %+v, next_id %d", got, s.NextID)
	}
	if again, err := s.AppendBinary(nil); err != nil || !bytes.Equal(again, b) {
		t.Errorf("the example encodes to other bytes (%v)", err)
	}
}

// Place puts files into a directory of their own and returns the store's path.
func Place(t testing.TB, files map[string][]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "memory.db")
	for name, b := range files {
		if name == "db" {
			name = path
		} else {
			name = path + "-" + name
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// filesIn reads every file of a directory.
func filesIn(t testing.TB, dir string) map[string]string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range list {
		if e.IsDir() {
			for name, text := range filesIn(t, filepath.Join(dir, e.Name())) {
				all[e.Name()+"/"+name] = text
			}
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

func names(seq func(func(crmem.Entry) bool)) string {
	var all []string
	for e := range seq {
		all = append(all, e.Name)
	}
	return strings.Join(all, " ")
}

// TestSnapshotVectorsOpen opens every vector as a file: to read, to write, and
// with a log on top.
func TestSnapshotVectorsOpen(t *testing.T) {
	aLog := load(t, "log", logVectors)[0].Files["wal"]
	for _, v := range load(t, "snapshot", snapshotVectors) {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel() // a reader waits a while before it gives a file up
			snapshotVectorOpen(t, v, aLog)
		})
	}
}

func snapshotVectorOpen(t *testing.T, v *vectors.Vector, aLog []byte) {
	path := Place(t, map[string][]byte{"db": v.DB()})
	dir := filepath.Dir(path)
	before := filesIn(t, dir)

	r, err := crmem.Open(path, &crmem.Options{ReadOnly: true})
	if err := faultOf(v, err, path); err != nil {
		t.Errorf("open to read: %v", err)
	}
	if got := filesIn(t, dir); !maps.Equal(got, before) {
		t.Errorf("a reader changed files: %q", slices.Collect(maps.Keys(got)))
	}
	s, err := crmem.Open(path, &crmem.Options{CheckpointOnClose: crmem.CheckpointNever})
	if err := faultOf(v, err, path); err != nil {
		t.Errorf("open: %v", err)
	}
	if v.Expect != "ok" {
		// A good log does not make a bad file better.
		os.WriteFile(path+"-wal", aLog, 0o600)
		_, err := crmem.Open(path, nil)
		if err := faultOf(v, err, path); err != nil {
			t.Errorf("open with a log: %v", err)
		}
		if got := filesIn(t, dir)["memory.db"]; got != string(v.DB()) {
			t.Errorf("a refused file was changed")
		}
		return
	}
	if err != nil {
		return
	}
	want := slices.Collect(s.All())
	if !slices.EqualFunc(slices.Collect(r.All()), want, crmem.Entry.Equal) {
		t.Errorf("reader and writer differ")
	}
	if err := r.Close(); err != nil {
		t.Errorf("close the reader: %v", err)
	}
	full := s.NextID() == 1<<64-1
	err = s.Apply(crmem.Add{Name: "on top", Content: "of the log", Aliases: []string{"x"}})
	if full != (err != nil) || full && !errors.Is(err, crmem.ErrInvalid) {
		t.Errorf("add with next_id %d: %v", s.NextID(), err)
	}
	want = slices.Collect(s.All())
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if got := filesIn(t, dir)["memory.db"]; got != string(v.DB()) {
		t.Errorf("the file changed without a checkpoint")
	}
	s, err = crmem.Open(path, nil)
	if err != nil {
		t.Errorf("open again: %v", err)
		return
	}
	if got := slices.Collect(s.All()); !slices.EqualFunc(got, want, crmem.Entry.Equal) || len(got) != s.Len() {
		t.Errorf("after the log: %v, want %v", got, want)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestLogVectors opens a snapshot with every log, to read and to write.
func TestLogVectors(t *testing.T) {
	for _, v := range load(t, "log", logVectors) {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			if v.More["db"] == "missing" {
				delete(v.Files, "db")
			}
			path := Place(t, v.Files)
			logVectorRead(t, v, path)
			logVectorWrite(t, v, path)
		})
	}
}

// refused reports whether err is the refusal that a log vector expects.
func refused(v *vectors.Vector, err error, path string) error {
	if v.Expect == "foreign" {
		if !errors.Is(err, crmem.ErrForeign) {
			return fmt.Errorf("error %v, want ErrForeign", err)
		}
		return nil
	}
	f, ok := errors.AsType[*crmem.FormatError](err)
	if !ok || f.Path != path+"-wal" || f.Field != v.Field || f.Offset != v.Offset {
		return fmt.Errorf("error %v, want %s at %d of the log", err, v.Field, v.Offset)
	}
	return nil
}

func logVectorRead(t *testing.T, v *vectors.Vector, path string) {
	before := filesIn(t, filepath.Dir(path))
	var warned []string
	s, err := crmem.Open(path, &crmem.Options{ReadOnly: true, Warn: func(m string) { warned = append(warned, m) }})
	if v.Expect == "format" || v.Files["db"] == nil {
		if err := refused(v, err, path); err != nil {
			t.Errorf("open to read: %v", err)
		}
	} else if err != nil {
		t.Errorf("open to read: %v", err)
	} else {
		if got := names(s.All()); got != v.More["names"] {
			t.Errorf("a reader sees %q, want %q", got, v.More["names"])
		}
		loud := v.Expect == "rotten" || v.Expect == "foreign"
		if loud != (len(warned) > 0) && v.Expect != "torn" {
			t.Errorf("warnings %q for %s", warned, v.Expect)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := filesIn(t, filepath.Dir(path)); !maps.Equal(got, before) {
		t.Errorf("a reader changed files: %q", slices.Collect(maps.Keys(got)))
	}
}

func logVectorWrite(t *testing.T, v *vectors.Vector, path string) {
	var warned []string
	s, err := crmem.Open(path, &crmem.Options{Warn: func(m string) { warned = append(warned, m) }})
	warned = slices.DeleteFunc(warned, func(m string) bool { // a vector has no identity file
		return strings.HasPrefix(m, "restored "+path+"-id from the log: ")
	})
	after := filesIn(t, filepath.Dir(path))
	if v.Expect != "ok" && v.Expect != "torn" {
		if err := refused(v, err, path); err != nil {
			t.Errorf("open: %v", err)
		}
		if after["memory.db"] != string(v.Files["db"]) || after["memory.db-wal"] != string(v.Files["wal"]) {
			t.Error("a refused store was changed")
		}
		if err == nil {
			s.Close()
		}
		return
	}
	if err != nil {
		t.Errorf("open: %v", err)
		return
	}
	if got := names(s.All()); got != v.More["names"] {
		t.Errorf("open: entries %q, want %q", got, v.More["names"])
	}
	if v.Expect == "torn" {
		kept := ""
		for name, b := range after {
			if strings.HasPrefix(name, "memory.db-wal.torn-") {
				kept += b
			}
		}
		if cut := string(v.Files["wal"][v.Offset:]); kept != cut {
			t.Errorf("kept %q of a tear of %q", kept, cut)
		}
		if len(warned) != 1 {
			t.Errorf("warnings of a tear: %q", warned)
		}
	} else if foreign := v.Name == "ok-foreign-empty"; len(warned) != 0 && !foreign || foreign && len(warned) != 1 {
		t.Errorf("warnings %q", warned)
	}
	want := slices.Collect(s.All())
	next := s.NextID()
	if err := s.Apply(crmem.Add{Name: "later", Content: "x"}); err != nil {
		t.Errorf("add: %v", err)
	}
	e, err := s.Get("later")
	if err != nil || e.ID != next {
		t.Errorf("add: %v, %v, want id %d", e, err, next)
	}
	want = append(want, e)
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sn, err := crmem.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(sn.All()); !slices.EqualFunc(got, want, crmem.Entry.Equal) {
		t.Errorf("the file holds %v, want %v", got, want)
	}
}
