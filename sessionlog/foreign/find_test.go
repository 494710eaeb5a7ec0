package foreign

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

const (
	claudeLine = `{"type":"user","sessionId":"s","uuid":"1","message":{"role":"user","content":"hello"}}` + "\n"
	codexLine  = `{"timestamp":"2026-03-02T10:00:00Z","type":"session_meta","payload":{"id":"c"}}` + "\n"
)

func TestTranscriptKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file string
		want *Kind
	}{
		{claudeLine, claudeCode},
		{`{"type":"summary","summary":"x","leafUuid":"1"}`, claudeCode},
		{`{"type":"file-history-snapshot","messageId":"1","snapshot":{}}`, claudeCode},
		{`{"type":"mode","mode":"normal","sessionId":"s"}`, claudeCode},
		{"\n \n{torn\n\xff\n[]\n" + claudeLine, claudeCode},
		{codexLine, codex},
		{`{"type":"turn_context","payload":{}}`, codex},
		{`{"type":"session_meta","id":"c","cwd":"/srv"}`, codex},
		{`{"id":"c","timestamp":"2025-08-18T01:16:13.522Z","instructions":null}`, codex},
		{`{"id":"c","timestamp":"2025-08-18T01:16:13.522Z","git":{}}`, codex},
		{`{"record_type":"state"}`, codex},
		{`{"sessionId":"s","projectHash":"h","startTime":"2026-11-30T04:06:50.808Z"}`, gemini},
		{`{"sessionId":"s","startTime":"2026-11-30T04:06:50.808Z"}`, nil},
		{"{}\n" + codexLine + claudeLine, codex},
		{"", nil},
		{"\n\n\n", nil},
		{"# notes\n", nil},
		{`{"id":"c","timestamp":"2025-08-18T01:16:13.522Z"}`, nil},
		{`{"type":"summary","summary":"no leaf"}`, nil},
		{`{"type":"user","session_id":"s"}`, nil},
		{`{"type":"response_item"}`, nil},
		{`{"agent":"crab","created_by":"user","created_at":"x","title":"","uptime_secs":0}` + "\n" + `{"role":"user","content":"a session"}`, nil},
		{strings.Repeat("{}\n", maxHead) + claudeLine, nil},
		{strings.Repeat("{}\n", maxHead-1) + claudeLine, claudeCode},
	} {
		if got, err := detectReader(strings.NewReader(c.file)); got != c.want || err != nil {
			t.Errorf("%.80q: %v, want %v (%v)", c.file, got, c.want, err)
		}
	}
}

func TestFindTranscripts(t *testing.T) {
	t.Parallel()
	m := faultfs.NewMem()
	deep := "/home"
	for _, dir := range []string{"/home", "/home/a", "/home/a/b", "/home/empty", "/home/dir.jsonl", "/elsewhere"} {
		if err := m.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for range maxDepth {
		deep = path.Join(deep, "x")
		if err := m.Mkdir(deep, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"/home/2.jsonl": claudeLine, "/home/10.jsonl": codexLine, "/home/a/b/c.jsonl": codexLine + codexLine,
		"/home/a/other.jsonl": "{}\n", "/home/a/empty.jsonl": "", "/home/a/notes.md": claudeLine, "/home/a/text": claudeLine,
		"/elsewhere/1.jsonl": claudeLine, path.Join(deep, "too-deep.jsonl"): claudeLine, path.Join(path.Dir(deep), "deep.jsonl"): claudeLine,
	} {
		m.WriteFile(name, []byte(text), 0o600)
	}
	m.Symlink("/elsewhere", "/home/link")
	m.Symlink("/elsewhere/1.jsonl", "/home/link.jsonl")
	m.Symlink("/home", "/elsewhere/home")
	m.Mkfifo("/home/pipe.jsonl")

	got, err := Find(t.Context(), m, "/elsewhere/home")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"/home/10.jsonl codex 80", "/home/2.jsonl claude-code 87", "/home/a/b/c.jsonl codex 160",
		path.Join(path.Dir(deep), "deep.jsonl") + " claude-code 87",
	}
	if diff := cmp.Diff(want, foundList(got)); diff != "" || got.Others != 2 {
		t.Errorf("%d others:\n%s", got.Others, diff)
	}
	if len(got.Failed) != 1 || filepath.ToSlash(got.Failed[0].Error()) != deep+": deeper than 32 directories" {
		t.Errorf("failed: %v", got.Failed)
	}
	for _, f := range got.Found {
		if tr, err := f.Read(m); err != nil && !errors.Is(err, ErrNoMessages) || tr.Lines == 0 {
			t.Errorf("%s: %d lines (%v)", f.Path, tr.Lines, err)
		} else if err != nil && !strings.HasPrefix(err.Error(), f.Path+": ") {
			t.Errorf("no path in %q", err)
		}
	}

	for name, want := range map[string]any{
		"/home/a/text":        "/home/a/text claude-code 87", // whatever its name
		"/home/link.jsonl":    "/elsewhere/1.jsonl claude-code 87",
		"/home/a/notes.md":    "/home/a/notes.md claude-code 87",
		"/home/a/other.jsonl": ErrNoTranscript, "/home/a/empty.jsonl": ErrNoTranscript,
		"/home/pipe.jsonl": vfs.ErrNotRegular, "/home/none": fs.ErrNotExist, "/home/none/at/all": fs.ErrNotExist,
		"/home/empty": "",
	} {
		got, err := Find(t.Context(), m, name)
		if want, ok := want.(error); ok {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
			continue
		}
		if list := strings.Join(foundList(got), "\n"); list != want || err != nil {
			t.Errorf("%s: %s (%v), want %s", name, list, err, want)
		}
	}

	for limit, want := range map[int]bool{5: false, 6: true} { // entries of /home/a and its subdirectories
		root, err := m.Root("/home/a")
		if err != nil {
			t.Fatal(err)
		}
		w := walker{ctx: t.Context(), root: root, dir: "/home/a", limit: limit}
		if err := w.walk(".", 0); (err == nil) != want {
			t.Errorf("a limit of %d names: %v", limit, err)
		}
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Find(ctx, m, "/home"); !errors.Is(err, context.Canceled) {
		t.Errorf("a walk that was stopped: %v", err)
	}
}

// TestFindTranscriptsDamage fails every call of a walk in turn. The walk must
// report the error or return the complete list.
func TestFindTranscriptsDamage(t *testing.T) {
	t.Parallel()
	build := func() *faultfs.Mem {
		m := faultfs.NewMem()
		for i := range 3 {
			dir := fmt.Sprintf("/t/%d", i)
			if err := vfs.MkdirAll(m, dir, 0o700); err != nil {
				t.Fatal(err)
			}
			m.WriteFile(dir+"/1.jsonl", []byte(claudeLine), 0o600)
		}
		return m
	}
	m := build()
	before := m.Calls()
	if got, err := Find(t.Context(), m, "/t"); err != nil || len(got.Found) != 3 {
		t.Fatalf("%v (%v)", foundList(got), err)
	}
	calls := m.Calls() - before
	if calls < 10 {
		t.Fatalf("only %d calls", calls)
	}
	for i := range calls {
		m := build()
		m.Hook = func(c faultfs.Call) error {
			if c.N == before+i+1 {
				return errors.New("the disk is broken")
			}
			return nil
		}
		got, err := Find(t.Context(), m, "/t")
		if err == nil && len(got.Failed) == 0 && len(got.Found) != 3 {
			t.Errorf("call %d failed without an error: %v", i, foundList(got))
		}
	}
}

func foundList(l List) []string {
	var list []string
	for _, f := range l.Found {
		list = append(list, fmt.Sprint(filepath.ToSlash(f.Path), " ", f.Kind.Tool, " ", f.Size))
	}
	return list
}

// TestFindTranscriptFiles finds those under testdata on a real disk.
func TestFindTranscriptFiles(t *testing.T) {
	t.Parallel()
	got, err := Find(t.Context(), vfs.OS{}, "../../testdata/transcripts")
	if err != nil || len(got.Failed) > 0 || got.Others > 0 {
		t.Fatalf("%d others, failed: %v (%v)", got.Others, got.Failed, err)
	}
	if len(got.Found) != 15 {
		t.Fatalf("%d transcripts: %v", len(got.Found), foundList(got))
	}
	sessions := 0
	for _, f := range got.Found {
		if filepath.Base(filepath.Dir(f.Path)) != f.Kind.Tool {
			t.Errorf("%s is one of %s", f.Path, f.Kind.Tool)
		}
		tr, err := f.Read(vfs.OS{})
		if err == nil {
			sessions++
			checkSession(t, tr)
		}
		for _, bad := range tr.Bad {
			if bad.Path != f.Path {
				t.Errorf("%v: no path", bad)
			}
		}
	}
	if sessions != 10 {
		t.Errorf("%d sessions, want 8", sessions)
	}
}

// TestCompressed reads compressed transcripts. TestTranscriptFileLimit bounds what they
// decompress to.
func TestCompressed(t *testing.T) {
	t.Parallel()
	zstandard := func(text string) []byte {
		e, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		return e.EncodeAll([]byte(text), nil)
	}
	gz := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write([]byte(text))
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	m := faultfs.NewMem()
	if err := m.Mkdir("/h", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"a.jsonl.zst": zstandard(claudeLine), "b.jsonl.gz": gz(claudeLine), "c.jsonl": zstandard(claudeLine), "d.zst": zstandard(claudeLine),
		"e.jsonl.zst": zstandard("{}"), "f.jsonl.zst": zstandard(claudeLine)[:20], "g.jsonl.xz": nil, "i.jsonl.zst": []byte(claudeLine),
		"j.jsonl.bz2": []byte("BZh"), "k.tar.xz": nil,
	} {
		m.WriteFile("/h/"+name, b, 0o600)
	}
	list, err := Find(t.Context(), m, "/h")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range list.Found {
		tr, err := f.Read(m)
		switch {
		case err != nil:
			got = append(got, fmt.Sprintf("%s: %v", path.Base(f.Path), err))
		case len(tr.Items) == 1 && tr.Items[0].Message.Content == "hello":
			got = append(got, path.Base(f.Path))
		}
	}
	for _, err := range list.Failed {
		got = append(got, "failed: "+path.Base(err.Error()))
	}
	want := []string{"a.jsonl.zst", "b.jsonl.gz", "c.jsonl", "i.jsonl.zst",
		"failed: f.jsonl.zst: unexpected EOF", "failed: g.jsonl.xz: compressed in a format that import does not read: decompress it",
		"failed: j.jsonl.bz2: unexpected EOF"}
	if diff := cmp.Diff(want, got); diff != "" || list.Others != 1 {
		t.Errorf("%d others\n%s", list.Others, diff)
	}
	if one, err := Find(t.Context(), m, "/h/d.zst"); err != nil || len(one.Found) != 1 {
		t.Errorf("one file: %+v, %v", one, err)
	}
}
