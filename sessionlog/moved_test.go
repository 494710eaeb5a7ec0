package sessionlog_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// between calls a function before a file is opened for reading or a lock taken.
type between struct {
	vfs.FS
	open func()
}

func (b *between) Open(name string) (vfs.File, error) {
	b.open()
	return b.FS.Open(name)
}

func (b *between) Lock(name string) (vfs.Locked, error) {
	b.open()
	return b.FS.Lock(name)
}

// TestListOrderAfterMove gives the first session a title while the folder is
// listed.
func TestListOrderAfterMove(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		writeSession(t, dir, fmt.Sprintf("crab_user_%d.jsonl", i+1), `{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00"}`)
	}
	var once sync.Once
	d, err := sessionlog.OpenDir(dir, &sessionlog.Options{FS: &between{vfs.OS{}, func() {
		once.Do(func() {
			noErr(t, os.Rename(filepath.Join(dir, "crab_user_1.jsonl"), filepath.Join(dir, "crab_user_1_new-title.jsonl")))
		})
	}}})
	noErr(t, err)
	defer d.Close()
	list, err := d.List()
	noErr(t, err)
	var got []string
	for _, i := range list {
		noErr(t, i.Err)
		got = append(got, i.File)
	}
	if want := "[crab_user_1_new-title.jsonl crab_user_2.jsonl crab_user_3.jsonl]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// unopenable lists a file that it does not find, and counts how often it lists
// a folder.
type unopenable struct {
	between
	name  string
	reads int
}

func (u *unopenable) Open(name string) (vfs.File, error) {
	if filepath.Base(name) == u.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return u.between.Open(name)
}

func (u *unopenable) ReadDir(name string) ([]fs.DirEntry, error) {
	u.reads++
	return u.between.ReadDir(name)
}

// TestListOfMissingFile lists a folder with a file that always disappears
// before it is read. A session that is created concurrently is in the list.
// List reads the folder again only until it does not change.
func TestListOfMissingFile(t *testing.T) {
	const meta = `{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00"}`
	for _, c := range []struct {
		create bool
		want   string
		reads  int
	}{
		{false, "[crab_user_1.jsonl true crab_user_2.jsonl false]", 2},
		{true, "[crab_user_1.jsonl true crab_user_2.jsonl false crab_user_3.jsonl true]", 3},
	} {
		dir := t.TempDir()
		writeSession(t, dir, "crab_user_1.jsonl", meta)
		writeSession(t, dir, "crab_user_2.jsonl", meta)
		var once sync.Once
		u := &unopenable{name: "crab_user_2.jsonl", between: between{vfs.OS{}, func() {
			if c.create {
				once.Do(func() { writeSession(t, dir, "crab_user_3.jsonl", meta) })
			}
		}}}
		d, err := sessionlog.OpenDir(dir, &sessionlog.Options{FS: u})
		noErr(t, err)
		u.reads = 0
		list, err := d.List()
		noErr(t, err)
		var got []string
		for _, i := range list {
			got = append(got, fmt.Sprint(i.File, " ", i.Err == nil))
		}
		if fmt.Sprint(got) != c.want || u.reads != c.reads {
			t.Errorf("the list is %v after %d reads of the folder, want %s after %d", got, u.reads, c.want, c.reads)
		}
		noErr(t, d.Close())
	}
}

// TestOpenNamesCorruptFile opens a session whose meta line has no end and
// exceeds the limit of a line.
func TestOpenNamesCorruptFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "crab_user_1.jsonl")
	line := `{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00"}{"role":"user","content":"` + strings.Repeat("x", 8<<10)
	noErr(t, os.WriteFile(path, []byte(line), 0o600))
	d, err := sessionlog.OpenDir(dir, &sessionlog.Options{MaxLine: 4 << 10})
	noErr(t, err)
	defer d.Close()
	_, err = d.Open("crab_user_1")
	var corrupt *record.FormatError
	if !errors.As(err, &corrupt) || corrupt.Path != path || corrupt.Line != 1 {
		t.Errorf("the error is %v, want a FormatError of line 1 of %s", err, path)
	}
}

// TestTornTails tears the end of a session off three times, twice in the same
// place, and once with the same bytes.
func TestTornTails(t *testing.T) {
	dir := t.TempDir()
	d, err := sessionlog.OpenDir(dir, nil)
	noErr(t, err)
	defer d.Close()
	const file = "crab_user_1.jsonl"
	writeSession(t, dir, file, `{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00"}`)
	whole, err := os.ReadFile(filepath.Join(dir, file))
	noErr(t, err)
	for i, tail := range []string{`{"role":"us`, `{"role":"user","con`, `{"role":"us`, `{"r`} {
		noErr(t, os.WriteFile(filepath.Join(dir, file), append(whole[:len(whole):len(whole)], tail...), 0o600))
		l, err := d.Open("crab_user_1")
		noErr(t, err)
		noErr(t, l.Append(sessionlog.Message{Role: record.RoleUser, Content: "a"}))
		noErr(t, l.Close())
		found, err := filepath.Glob(filepath.Join(dir, ".torn", "*"))
		noErr(t, err)
		name := fmt.Sprintf("crab_user_1-%d", len(whole))
		want := []string{name + ".1.jsonl", name + ".2.jsonl", name + ".jsonl"}
		for j := range found {
			found[j] = filepath.Base(found[j])
		}
		switch i {
		case 0:
			want = want[2:]
		case 1, 2:
			want = []string{want[0], want[2]}
		}
		if fmt.Sprint(found) != fmt.Sprint(want) {
			t.Errorf("after tail %d there are %v, want %v", i, found, want)
		}
	}
}

// TestMovedConcurrently gives a session a title between any two steps of another
// process that looks for it, deletes it, repairs it or lists it.
func TestMovedConcurrently(t *testing.T) {
	const id = "crab_user_2"
	for name, do := range map[string]func(d *sessionlog.Dir) error{
		"latest": func(d *sessionlog.Dir) error {
			if got, err := d.Latest("crab", "user", ""); got != id {
				return fmt.Errorf("the latest is %q, %w", got, err)
			}
			return nil
		},
		"delete": func(d *sessionlog.Dir) error { return d.Delete(id) },
		"repair": func(d *sessionlog.Dir) error {
			did, err := d.Repair(id)
			if err == nil && did.Dropped != 1 {
				err = fmt.Errorf("%+v", did)
			}
			return err
		},
		"list": func(d *sessionlog.Dir) error {
			list, err := d.List()
			if err == nil && (len(list) != 2 || list[1].ID != id || list[1].Err != nil) {
				err = fmt.Errorf("%+v", list)
			}
			return err
		},
	} {
		at, moves := 1, 0
		for moved := true; moved; at++ {
			moved = false
			m, d, _ := onMem(t, sessionlog.Options{})
			for range 2 {
				noErr(t, begin(t, d).Close())
			}
			put(t, m, "/s/"+id+".jsonl", metaLine+"bad\n")
			var mu sync.Mutex // a list looks at several files at once
			opens := 0
			seen := &between{FS: m, open: func() {
				mu.Lock()
				defer mu.Unlock()
				if opens++; opens == at {
					if l, err := d.Open(id); err == nil { // else the session moved or is locked
						noErr(t, l.SetTitle("two"))
						noErr(t, l.Close())
						moves++
					}
					moved = true
				}
			}}
			other, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: seen})
			noErr(t, err)
			if err := do(other); err != nil {
				t.Errorf("%s, moved before call %d: %v", name, at, err)
			}
		}
		if at < 3 || moves == 0 {
			t.Errorf("%s: moved %d times, before %d calls", name, moves, at)
		}
	}
}

// TestMovedWhileOpened gives a session a title, and its file so another name,
// between any two steps of another process that opens it.
func TestMovedWhileOpened(t *testing.T) {
	for _, title := range []string{"", "one"} {
		for _, write := range []bool{true, false} {
			for at, moved := 1, true; moved; at++ {
				moved = false
				t.Run(fmt.Sprintf("title %q, for writing %t, before open %d", title, write, at), func(t *testing.T) {
					m, d, _ := onMem(t, sessionlog.Options{})
					l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user", Title: title})
					noErr(t, err)
					noErr(t, l.Close())
					opens := 0
					seen := &between{FS: m, open: func() {
						if opens++; opens == at {
							moved = true
							l := reopen(t, d, "crab_user_1")
							noErr(t, l.SetTitle("two"))
							noErr(t, l.Close())
						}
					}}
					other, err := sessionlog.OpenDir("/s", &sessionlog.Options{FS: seen})
					noErr(t, err)
					var got sessionlog.Meta
					if write {
						l := reopen(t, other, "crab_user_1")
						got = l.Meta()
						noErr(t, l.Close())
					} else {
						s, err := other.Read("crab_user_1")
						noErr(t, err)
						c, err := s.Context()
						noErr(t, err)
						got = c.Meta
						noErr(t, s.Close())
					}
					if want := map[bool]string{true: "two", false: title}[moved]; got.Title != want {
						t.Errorf("title %q, want %q", got.Title, want)
					}
				})
			}
		}
	}
}
