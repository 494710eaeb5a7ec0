package sessionlog_test

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/sessionlog"
)

// put writes a file as another program would.
func put(t *testing.T, fsys vfs.FS, path, content string) {
	t.Helper()
	noErr(t, vfs.MkdirAll(fsys, filepath.Dir(path), 0o700))
	noErr(t, vfs.WriteFile(fsys, path, 0o600, []byte(content)))
}

func TestLastLines(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	long := `{"role":"user","content":"` + strings.Repeat("x", 150<<10) + `"}`
	for _, end := range []string{"\n", "", "\n\n"} {
		lines := []string{strings.TrimSuffix(metaLine, "\n"), `{"role":"user","content":"a"}`, "", long, `{"compact":"c"}`, `{"role":"user","content":"b"}`}
		put(t, m, "/s/crab_user_1.jsonl", strings.Join(lines, "\n")+end)
		if end == "\n\n" {
			lines = append(lines, "")
		}
		s, err := d.Read("crab_user_1")
		noErr(t, err)
		for n := range len(lines) + 3 {
			off, err := s.LastLines(n)
			noErr(t, err)
			var got []string
			for l, err := range s.Lines(off) {
				noErr(t, err)
				got = append(got, string(l.Raw))
			}
			first := int64(max(0, len(lines)-n) + 1)
			for l, err := range s.LinesFrom(off, first) {
				noErr(t, err)
				if l.Number != first || string(l.Raw) != lines[first-1] {
					t.Errorf("line %d is numbered %d", first, l.Number)
				}
				first++
			}
			if want := lines[max(0, len(lines)-n):]; !slices.Equal(got, want) {
				t.Errorf("the last %d lines of a file that ends in %q are %d, want %d", n, end, len(got), len(want))
			}
		}
		off, ok, err := s.LastMarker()
		noErr(t, err)
		if want := int64(strings.Index(strings.Join(lines, "\n"), `{"compact"`)); !ok || off != want {
			t.Errorf("the last marker is at %d (%v), want %d", off, ok, want)
		}
		noErr(t, s.Close())
	}
	put(t, m, "/s/crab_user_1.jsonl", metaLine+`{"compact":"unfinished"`)
	s, err := d.Read("crab_user_1")
	noErr(t, err)
	if off, ok, err := s.LastMarker(); ok || err != nil {
		t.Errorf("a marker at %d, %v", off, err)
	}
	noErr(t, s.Close())
}

func TestRecord(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	const whole = `{"role":"user","content":"whole","x":1}`
	put(t, m, "/s/crab_user_1.jsonl", metaLine+whole+"\n\n"+`{"role":"assi`+whole+"\nno record\n")
	s, err := d.Read("crab_user_1")
	noErr(t, err)
	var got []string
	for l, err := range s.Lines(0) {
		noErr(t, err)
		if l.Err == nil {
			got = append(got, string(l.Raw))
		}
	}
	if want := []string{strings.TrimSuffix(metaLine, "\n"), whole, "", whole}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	noErr(t, s.Close())
}

func TestMoved(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	noErr(t, l.Append(user("a")))
	s, err := d.Read(l.ID())
	noErr(t, err)
	moved := func(want bool, after string) {
		t.Helper()
		if got, err := s.Moved(); got != want || err != nil {
			t.Errorf("after %s: moved %v, want %v (%v)", after, got, want, err)
		}
	}
	moved(false, "nothing")
	noErr(t, l.Append(user("b")))
	moved(false, "an append")
	noErr(t, l.SetTitle("t"))
	moved(true, "a title")
	noErr(t, l.Close())
	again := func() {
		t.Helper()
		noErr(t, s.Close())
		if s, err = d.Read(l.ID()); err != nil {
			t.Fatal(err)
		}
	}
	again()
	moved(false, "reading it again")
	put(t, m, s.Path, text(t, m, s.Path))
	moved(true, "a replacement")
	again()
	noErr(t, d.Delete(l.ID()))
	moved(true, "a delete")
	noErr(t, s.Close())
}

func TestInfo(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	l := begin(t, d)
	noErr(t, l.Append(user("a"), answer("b")))
	noErr(t, l.SetTitle("t"))
	noErr(t, l.Close())
	b := text(t, m, "/s/crab_user_1_t.jsonl")
	put(t, m, "/s/crab_user_1_t.jsonl", b+"bad\n"+`{"role":"us`)
	s, err := d.Read("crab_user_1")
	noErr(t, err)
	got, err := s.Info()
	noErr(t, err)
	list, err := d.List()
	noErr(t, err)
	if len(list) != 1 || got != list[0] {
		t.Errorf("got %+v, the list has %+v", got, list)
	}
	if got.Meta.Title != "t" || got.Messages != 2 || got.Damaged != 1 || got.Torn != int64(len(`{"role":"us`)) {
		t.Errorf("%+v", got)
	}
	noErr(t, s.Close())
}

// TestNamedByFile distinguishes two files of one id.
func TestNamedByFile(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	put(t, m, "/s/crab_user_1.jsonl", metaLine)
	put(t, m, "/s/crab_user_1_other.jsonl", metaLine+`{"role":"user","content":"b"}`+"\n")
	if _, err := d.Read("crab_user_1"); err == nil {
		t.Error("an id of two files was read")
	}
	for file, want := range map[string]int{"crab_user_1.jsonl": 0, "crab_user_1_other.jsonl": 1} {
		s, err := d.Read(file)
		noErr(t, err)
		i, err := s.Info()
		noErr(t, err)
		if s.File != file || i.Messages != want {
			t.Errorf("%s is %s with %d messages", file, s.File, i.Messages)
		}
		noErr(t, s.Close())
	}
	if _, err := d.Read("../crab_user_1.jsonl"); err == nil {
		t.Error("a path was read")
	}
}

func TestDryImport(t *testing.T) {
	m, d, _ := onMem(t, sessionlog.Options{})
	meta := sessionlog.Meta{Agent: "codex", CreatedBy: "user", CreatedAt: "2026-04-14T12:00:00+00:00", Source: "codex:1"}
	one := []sessionlog.Item{{Message: user("a")}}
	would := func(items []sessionlog.Item, want sessionlog.ImportResult) {
		t.Helper()
		before := files(t, m, "/s")
		im, err := d.NewImporter(true)
		noErr(t, err)
		got, err := im.Import(meta, items)
		if got != want || err != nil {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		noErr(t, im.Close())
		if after := files(t, m, "/s"); !maps.Equal(before, after) {
			t.Errorf("it changed %q to %q", before, after)
		}
	}
	would(one, sessionlog.ImportResult{Created: true})
	id, _, err := d.Import(meta, one)
	noErr(t, err)
	would(one, sessionlog.ImportResult{ID: id})
	would(append(one, sessionlog.Item{Marker: true, Summary: "s"}), sessionlog.ImportResult{ID: id, Updated: true})
	would(nil, sessionlog.ImportResult{ID: id, Older: true})
}

// TestDryImportTwice imports a transcript and its continuations with one dry importer.
func TestDryImportTwice(t *testing.T) {
	_, d, _ := onMem(t, sessionlog.Options{})
	meta := sessionlog.Meta{Agent: "codex", CreatedBy: "user", CreatedAt: "2026-04-14T12:00:00+00:00", Source: "codex:1"}
	items := []sessionlog.Item{{Message: user("a")}, {Message: user("b")}, {Message: user("c")}}
	id, _, err := d.Import(meta, items[:1])
	noErr(t, err)
	im, err := d.NewImporter(true)
	noErr(t, err)
	for n, c := range []struct {
		items int
		want  sessionlog.ImportResult
	}{{2, sessionlog.ImportResult{ID: id, Updated: true}}, {2, sessionlog.ImportResult{ID: id}}, {1, sessionlog.ImportResult{ID: id, Older: true}}, {3, sessionlog.ImportResult{ID: id, Updated: true}}} {
		if got, err := im.Import(meta, items[:c.items]); got != c.want || err != nil {
			t.Errorf("import %d: %+v, %v, want %+v", n, got, err, c.want)
		}
	}
	noErr(t, im.Close())
}

// TestImportRenamed changes the title of a transcript, and fails each call of
// its import: at every moment exactly one file of it exists.
func TestImportRenamed(t *testing.T) {
	meta := sessionlog.Meta{Agent: "codex", CreatedBy: "user", CreatedAt: "2026-04-14T12:00:00+00:00", Title: "one", Source: "codex:1"}
	renamed := meta
	renamed.Title = "two"
	items := []sessionlog.Item{{Message: user("a")}}
	done := false
	for n := 1; !done; n++ {
		m, d, _ := onMem(t, sessionlog.Options{})
		id, _, err := d.Import(meta, items[:1])
		noErr(t, err)
		calls := 0
		m.Hook = func(c faultfs.Call) error {
			if calls++; calls == n && c.Op != "unlock" { // the failed call keeps the lock
				return syscall.EIO
			}
			return nil
		}
		_, _, _ = d.Import(renamed, items)
		m.Hook = nil
		done = calls < n
		for _, m := range []*faultfs.Mem{m, m.Crash()} {
			d, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: m})
			noErr(t, err)
			if list, err := d.List(); len(list) != 1 || list[0].ID != id || err != nil {
				t.Errorf("call %d failed: %+v %v", n, list, err)
			}
			again, _, err := d.Import(renamed, items)
			noErr(t, err)
			if all := files(t, m, "/s"); again != id || len(all) != 1 || all["codex_user_1_two.jsonl"] == "" {
				t.Errorf("call %d failed, and then: %s, %q", n, again, all)
			}
		}
	}
}

// files returns the contents of the files of a folder.
func files(t *testing.T, m *faultfs.Mem, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	list, _ := m.ReadDir(dir) // it may be missing
	for _, e := range list {
		if !e.IsDir() {
			all[e.Name()] = text(t, m, filepath.Join(dir, e.Name()))
		}
	}
	return all
}

// TestFailedReplace fails, one after the other, the calls that a delete, a
// restore, a repair and an import change the folder with: an error says whether
// it happened.
func TestFailedReplace(t *testing.T) {
	meta := sessionlog.Meta{Agent: "codex", CreatedBy: "user", CreatedAt: "2026-04-14T12:00:00+00:00", Source: "codex:1"}
	for name, do := range map[string]func(d *sessionlog.Dir) error{
		"delete":  func(d *sessionlog.Dir) error { return d.Delete("crab_user_1") },
		"restore": func(d *sessionlog.Dir) error { return d.Restore("crab_user_2") },
		"repair":  func(d *sessionlog.Dir) error { _, err := d.Repair("crab_user_1"); return err },
		"import": func(d *sessionlog.Dir) error {
			_, _, err := d.Import(meta, []sessionlog.Item{{Message: user("new")}})
			return err
		},
	} {
		unknown, n := 0, 0
		for ; ; n++ {
			m, d, _ := onMem(t, sessionlog.Options{})
			put(t, m, "/s/crab_user_1.jsonl", metaLine+"bad\n")
			put(t, m, "/s/.trash/crab_user_2.jsonl", metaLine)
			_, _, err := d.Import(meta, []sessionlog.Item{{Message: user("old")}})
			noErr(t, err)
			before, trash := files(t, m, "/s"), files(t, m, "/s/.trash")
			calls := 0
			m.Hook = func(c faultfs.Call) error {
				switch c.Op {
				case "pending", "write", "sync", "rename", "syncdir":
					if calls++; calls == n+1 {
						return syscall.EIO
					}
				}
				return nil
			}
			err = do(d)
			m.Hook = nil
			if err == nil {
				break
			}
			changed := !maps.Equal(before, files(t, m, "/s")) || !maps.Equal(trash, files(t, m, "/s/.trash"))
			if is := errors.Is(err, sessionlog.ErrUnknown); is != changed {
				t.Errorf("%s, call %d: the folder changed: %v, and the error is %v", name, n+1, changed, err)
			} else if is {
				unknown++
			}
		}
		// A failed move is taken back: the outcome is known.
		if moves := name == "delete" || name == "restore"; n < 3 || (unknown == 0) != moves {
			t.Errorf("%s: %d calls failed, %d of them with an unknown outcome", name, n, unknown)
		}
		t.Logf("%s: %d calls failed, %d with an unknown outcome", name, n, unknown)
	}
}
