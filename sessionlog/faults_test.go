package sessionlog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/crmem/vfs/vfstest"
	"crabmem/fuzz/golden"
)

// faultUses are uses of a folder with the sessions of faultFolder.
var faultUses = []struct {
	name string
	use  func(d *Dir) string
}{
	{"list", func(d *Dir) string { return describeInfos(d.List()) }},
	{"list the trash", func(d *Dir) string { return describeInfos(d.Trashed()) }},
	{"latest", func(d *Dir) string { return fmt.Sprint(d.Latest("crab", "user")) }},
	{"read", func(d *Dir) string {
		return withSession(d, "crab_user_1", func(s *Session) string {
			c, err := s.LenientContext()
			i, ierr := s.Info()
			check, cerr := s.Check()
			moved, merr := s.Moved()
			at, ok, lerr := s.LastMarker()
			return fmt.Sprint(c != nil, err, i.Messages, ierr, check, cerr, moved, merr, at, ok, lerr)
		})
	}},
	{"repair", func(d *Dir) string { return fmt.Sprint(d.Repair("crab_user_3")) }},
	{"repair a valid session", func(d *Dir) string { return fmt.Sprint(d.Repair("crab_user_1")) }},
	{"delete", func(d *Dir) string { return fmt.Sprint(d.Delete("crab_user_1")) }},
	{"restore", func(d *Dir) string { return fmt.Sprint(d.Restore("crab_user_4")) }},
	{"restore an imported session", func(d *Dir) string { return fmt.Sprint(d.Restore("crab_user_5")) }},
	{"create", func(d *Dir) string {
		return withLog(d, func() (*Log, error) { return d.Create(Meta{Agent: "crab", CreatedBy: "user", Title: "New"}) }, nil)
	}},
	{"append", func(d *Dir) string {
		return withLog(d, func() (*Log, error) { return d.Open("crab_user_1") }, func(l *Log) error { return l.Append(Message{Role: "user", Content: "more"}) })
	}},
	{"compact", func(d *Dir) string {
		return withLog(d, func() (*Log, error) { return d.Open("crab_user_1") }, func(l *Log) error { return l.Compact("short") })
	}},
	{"title", func(d *Dir) string {
		return withLog(d, func() (*Log, error) { return d.Open("crab_user_1") }, func(l *Log) error { return l.SetTitle("New title") })
	}},
	{"open a torn session", func(d *Dir) string {
		return withLog(d, func() (*Log, error) { return d.Open("crab_user_6") }, func(l *Log) error { return errors.Join(l.AddUptime(5), l.Sync()) })
	}},
	{"import a new session", func(d *Dir) string { return importInto(d, "new", "a") }},
	{"import a longer session", func(d *Dir) string { return importInto(d, "s", "Title", "a", "b", "c") }},
	{"import a shorter session", func(d *Dir) string { return importInto(d, "s", "Title", "a") }},
	{"import the same session", func(d *Dir) string { return importInto(d, "s", "Title", "a", "b") }},
	{"import another title", func(d *Dir) string { return importInto(d, "s", "Other", "a", "b") }},
}

func describeInfos(infos []Info, err error) string {
	text := fmt.Sprint(err)
	for _, i := range infos {
		text += fmt.Sprintf("; %s %s %q %d %d %d %d %v", i.File, i.ID, i.Meta.Title, i.Messages, i.Damaged, i.Torn, i.Size, i.Err)
	}
	return text
}

func withSession(d *Dir, id string, use func(s *Session) string) string {
	s, err := d.Read(id)
	if err != nil {
		return err.Error()
	}
	text := use(s)
	return fmt.Sprint(s.ID, " ", s.File, " ", s.Size, " ", text, " ", s.Close())
}

func withLog(d *Dir, open func() (*Log, error), use func(l *Log) error) string {
	l, err := open()
	if err != nil {
		return fmt.Sprint(l != nil, " ", err)
	}
	if use != nil {
		err = use(l)
	}
	return fmt.Sprint(l.ID(), " ", filepath.Base(l.Path()), " ", err, "; close: ", l.Close(), "; again: ", l.Close())
}

// importInto imports twice, first without changes, and then once more.
func importInto(d *Dir, source, title string, texts ...string) string {
	m := Meta{Agent: "crab", CreatedBy: "user", CreatedAt: "2026-01-02T03:04:05+00:00", Title: title, Source: source}
	var items []Item
	for _, s := range texts {
		items = append(items, Item{Message: Message{Role: "user", Content: s}})
	}
	text := ""
	for _, dry := range []bool{true, false} {
		im, err := d.NewImporter(dry)
		if err != nil {
			text += fmt.Sprint(im != nil, " ", err, "; ")
			continue
		}
		for range 2 {
			r, err := im.Import(m, items)
			text += fmt.Sprintf("%+v %v; ", r, err)
		}
		text += fmt.Sprint(im.Close(), "; ")
	}
	id, changed, err := d.Import(m, append(items, Item{Marker: true, Summary: "sum"}))
	return text + fmt.Sprint(id, " ", changed, " ", err)
}

// faultFolder writes sessions, of which one is damaged, one is torn, two are
// imported, and two are in the trash.
func faultFolder(t *testing.T, m *faultfs.Mem) {
	meta := func(title, source string) string {
		return fmt.Sprintf(`{"agent":"crab","created_by":"user","created_at":"2026-01-02T03:04:05+00:00","title":%q,"uptime_secs":0%s}`, title, source) + "\n"
	}
	user := func(s string) string { return fmt.Sprintf(`{"role":"user","content":%q}`, s) + "\n" }
	must(t, vfs.MkdirAll(m, "/s/.trash", 0o700))
	files := map[string]string{
		"crab_user_1.jsonl":        meta("", "") + user("one") + `{"compact":"sum"}` + "\n" + `{"meta":{"title":"","uptime_secs":1}}` + "\n" + user("two"),
		"crab_user_2_title.jsonl":  meta("Title", `,"source":"s"`) + user("a") + user("b"),
		"crab_user_3.jsonl":        meta("", "") + user("one") + "bad\n" + `{"r` + user("joined") + `{"role":"us`,
		".trash/crab_user_4.jsonl": meta("", "") + user("four"),
		".trash/crab_user_5.jsonl": meta("", `,"source":"five"`) + user("five"),
		"crab_user_6.jsonl":        meta("", "") + user("six") + `{"role":"us`,
	}
	for _, name := range slices.Sorted(maps.Keys(files)) { // in order: locks contain inodes
		m.WriteFile("/s/"+name, []byte(files[name]), 0o600)
	}
}

// TestReportsOfFaults fails each call of each use, and lists the results, warnings,
// open files, and files of the folder.
func TestReportsOfFaults(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // List reads files concurrently
	var rep golden.Reports
	for _, u := range faultUses {
		for at, failed := 0, true; failed; at++ {
			m := faultfs.NewMem()
			m.Now = func() time.Time { return time.Unix(1_760_000_000, 0) }
			faultFolder(t, m)
			h := &vfstest.Handles{FS: m}
			var notes []string
			d, err := OpenDir("/s", &Options{FS: h, Now: m.Now, Warn: func(s string) { notes = append(notes, "warning: "+s) }})
			must(t, err)
			n, op := 0, ""
			m.Hook = func(c faultfs.Call) error {
				if n++; n == at {
					op = strings.TrimRight(c.Op+" "+c.Name, "0123456789") // temporary names have numbers
					return syscall.EIO
				}
				return nil
			}
			text := u.use(d)
			m.Hook = nil
			text += fmt.Sprintf("\n%s\n%d files are open, close: %v\n%s", strings.Join(notes, "\n"), h.Count(), d.Close(), describeFiles(t, m, "/s"))
			failed = op != "" || at == 0
			text = strings.ReplaceAll(text, fmt.Sprintf("process %d ", os.Getpid()), "this process ")
			rep.Add(fmt.Sprintf("%s: call %d, %s", u.name, at, op), text)
			if h.Count() != 0 {
				t.Errorf("%s: call %d, %s: %d files are open", u.name, at, op, h.Count())
			}
		}
	}
	rep.Compare(t, "testdata/reports/faults.txt.gz")
}

// describeFiles lists the files under a directory with their checksums. Locks
// contain the number of the process: only their names are listed.
func describeFiles(t *testing.T, m *faultfs.Mem, dir string) string {
	t.Helper()
	list, err := m.ReadDir(dir)
	must(t, err)
	var text []string
	for _, e := range list {
		path := dir + "/" + e.Name()
		if e.IsDir() {
			text = append(text, e.Name()+"("+describeFiles(t, m, path)+")")
			continue
		}
		b, err := vfs.ReadFile(m, path, 1<<20)
		must(t, err)
		name := strings.TrimRight(e.Name(), "0123456789")
		if strings.HasSuffix(name, ".lock") {
			lines := slices.DeleteFunc(strings.Split(string(b), "\n"), func(s string) bool { return !strings.HasPrefix(s, "state") && !strings.HasPrefix(s, "inode") })
			text = append(text, name+" "+strings.Join(lines, " "))
			continue
		}
		text = append(text, fmt.Sprintf("%s %d %08x", name, len(b), crc32.ChecksumIEEE(b)))
	}
	return strings.Join(text, ", ")
}
