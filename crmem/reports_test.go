package crmem_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "crabmem/crmem"
	"crabmem/crmem/internal/format"
	. "crabmem/crmem/tree"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/golden"
)

// unstable matches text that differs between two runs of the same calls.
var unstable = regexp.MustCompile(`process \d+|[0-9a-f]{8,}|0x[0-9a-f]+|\.own-[0-9a-f]+|\.m\.db(-[a-z]+)?\d+`)

// reportScene returns a file system with the store /m.db, another store, and older
// copies of the files of the first in /old.
func reportScene(t *testing.T, version int) *faultfs.Mem {
	t.Helper()
	m := faultfs.NewMem()
	noErr(t, m.Mkdir("/old", 0o700))
	for _, path := range []string{"/other.db", "/m.db"} {
		s := opened(t, path, reportOptions(m, version), 0)
		noErr(t, s.Apply(Add{Name: "one", Content: "first"}, Add{Name: "two", Content: "of " + path}))
		noErr(t, s.Checkpoint())
		noErr(t, s.Apply(Add{Name: "three", Content: "third", Aliases: []string{"3"}}))
		copyFiles(t, m, path, "/old")
		noErr(t, s.Apply(Update{Name: "one", Content: "changed"}, Alias{Name: "two", Aliases: []string{"2"}}))
		noErr(t, s.Apply(Remove{Name: "three"}))
		noErr(t, s.Apply(Add{Name: "four", Content: "in the log of " + path}))
		noErr(t, s.Close())
	}
	return m
}

func reportOptions(m *faultfs.Mem, version int) *Options {
	return &Options{FS: m, CheckpointOnClose: CheckpointNever, LogVersion: version, Now: func() time.Time { return time.Unix(1_760_000_000, 0) }}
}

var storeSuffixes = []string{"", WALSuffix, WALSuffix + HeldSuffix, IDSuffix, LockSuffix}

func copyFiles(t *testing.T, m *faultfs.Mem, path, dir string) {
	for _, suffix := range storeSuffixes {
		if b, err := vfs.ReadFile(m, path+suffix, 1<<20); err == nil {
			m.WriteFile(dir+path+suffix, b, 0o600)
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// A fileChange is a change of a file by another program, a fault, or a crash.
type fileChange struct {
	name string
	do   func(t *testing.T, m *faultfs.Mem, file string)
}

// replaceBy gives a file new contents, as a new file.
func replaceBy(t *testing.T, m *faultfs.Mem, file string, b []byte) {
	noErr(t, m.Remove(file))
	m.WriteFile(file, b, 0o600)
}

var wholeChanges = []fileChange{
	{"removed", func(t *testing.T, m *faultfs.Mem, file string) { noErr(t, m.Remove(file)) }},
	{"emptied", func(t *testing.T, m *faultfs.Mem, file string) { m.WriteFile(file, nil, 0o600) }},
	{"replaced by an empty file", func(t *testing.T, m *faultfs.Mem, file string) { replaceBy(t, m, file, nil) }},
	{"replaced by text", func(t *testing.T, m *faultfs.Mem, file string) { replaceBy(t, m, file, []byte("some text\n")) }},
	{"replaced by an older copy", func(t *testing.T, m *faultfs.Mem, file string) { replaceBy(t, m, file, memBytes(t, m, "/old"+file)) }},
	{"replaced by another store's", func(t *testing.T, m *faultfs.Mem, file string) {
		replaceBy(t, m, file, memBytes(t, m, strings.Replace(file, "/m.db", "/other.db", 1)))
	}},
	{"replaced by a directory", func(t *testing.T, m *faultfs.Mem, file string) {
		noErr(t, m.Remove(file))
		noErr(t, m.Mkdir(file, 0o700))
	}},
	{"replaced by a link", func(t *testing.T, m *faultfs.Mem, file string) {
		noErr(t, m.Rename(file, file+".moved"))
		m.Symlink(file+".moved", file)
	}},
	{"with text appended", func(t *testing.T, m *faultfs.Mem, file string) {
		m.WriteFile(file, append(memBytes(t, m, file), "some text"...), 0o600)
	}},
	{"with zeros appended", func(t *testing.T, m *faultfs.Mem, file string) {
		m.WriteFile(file, append(memBytes(t, m, file), make([]byte, 100)...), 0o600)
	}},
}

func cutAt(n int) fileChange {
	return fileChange{fmt.Sprintf("cut to %d bytes", n), func(t *testing.T, m *faultfs.Mem, file string) {
		m.WriteFile(file, memBytes(t, m, file)[:n], 0o600)
	}}
}

func flipAt(n int) fileChange {
	return fileChange{fmt.Sprintf("with a bit flipped at %d", n), func(t *testing.T, m *faultfs.Mem, file string) {
		b := memBytes(t, m, file)
		b[n] ^= 1
		m.WriteFile(file, b, 0o600)
	}}
}

// A call is one use of a store. It returns the output that a user sees.
type call struct {
	name string
	do   func(m *faultfs.Mem, version int) (any, error)
}

var calls = []call{
	{"check", func(m *faultfs.Mem, _ int) (any, error) { return Check(m, "/m.db", 0) }},
	{"repair", func(m *faultfs.Mem, _ int) (any, error) { return Repair("/m.db", &RepairOptions{FS: m}) }},
	{"read", func(m *faultfs.Mem, version int) (any, error) {
		return use(m, version, true, nil)
	}},
	{"write", func(m *faultfs.Mem, version int) (any, error) {
		return use(m, version, false, func(s *Store) error { return s.Apply(Add{Name: "new"}) })
	}},
	{"checkpoint", func(m *faultfs.Mem, version int) (any, error) {
		return use(m, version, false, (*Store).Checkpoint)
	}},
	{"repair, keep the snapshot", func(m *faultfs.Mem, _ int) (any, error) { return Repair("/m.db", &RepairOptions{FS: m, KeepDB: true}) }},
	{"repair, keep the log", func(m *faultfs.Mem, _ int) (any, error) {
		return Repair("/m.db", &RepairOptions{FS: m, KeepLog: "/old/m.db"})
	}},
	{"repair, rejoin", func(m *faultfs.Mem, _ int) (any, error) { return Repair("/m.db", &RepairOptions{FS: m, Rejoin: true}) }},
}

// treeCalls come after a dump, an edit of a page and a change of the store.
var treeCalls = []call{
	{"dump", func(m *faultfs.Mem, version int) (any, error) {
		return useTree(m, version, func(s *Store) (any, error) { return Dump(s, "/tree", nil) })
	}},
	{"dump, force", func(m *faultfs.Mem, version int) (any, error) {
		return useTree(m, version, func(s *Store) (any, error) { return Dump(s, "/tree", &DumpOptions{Force: true}) })
	}},
	{"load", func(m *faultfs.Mem, version int) (any, error) {
		return useTree(m, version, func(s *Store) (any, error) { return Load(s, "/tree", &LoadOptions{Guard: true}) })
	}},
	{"load, replace", func(m *faultfs.Mem, version int) (any, error) {
		return useTree(m, version, func(s *Store) (any, error) { return Load(s, "/tree", nil) })
	}},
	{"load, merge", func(m *faultfs.Mem, version int) (any, error) {
		return useTree(m, version, func(s *Store) (any, error) { return Load(s, "/tree", &LoadOptions{Merge: true}) })
	}},
}

func useTree(m *faultfs.Mem, version int, f func(*Store) (any, error)) (any, error) {
	s, err := Open("/m.db", reportOptions(m, version))
	if err != nil {
		return nil, err
	}
	report, err := f(s)
	return report, errors.Join(err, s.Close())
}

// use opens the store, calls f and closes it. It returns the warnings and the
// number of entries.
func use(m *faultfs.Mem, version int, readOnly bool, f func(*Store) error) (any, error) {
	var seen struct {
		Warnings []string
		Entries  int
	}
	o := reportOptions(m, version)
	o.ReadOnly, o.MustExist = readOnly, true
	o.Warn = func(line string) { seen.Warnings = append(seen.Warnings, line) }
	s, err := Open("/m.db", o)
	if err != nil {
		return seen, err
	}
	if f != nil {
		err = f(s)
	}
	err = errors.Join(err, s.Close())
	seen.Entries = s.Len()
	return seen, err
}

// outcome is a call as text: its result, its error, the store that it leaves,
// and the files.
func outcome(t *testing.T, m *faultfs.Mem, version int, c call) string {
	result, err := c.do(m, version)
	m.Hook = nil
	var b strings.Builder
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", strings.ReplaceAll(err.Error(), "\n", "\n\t"))
	}
	text, jerr := json.Marshal(result)
	noErr(t, jerr)
	fmt.Fprintf(&b, "%s\n", text)
	after, err := use(m, version, true, nil)
	fmt.Fprintf(&b, "after: %v %v\n", after, err)
	list, err := m.ReadDir("/")
	noErr(t, err)
	b.WriteString("files:")
	for _, e := range list {
		fi, err := e.Info()
		noErr(t, err)
		switch {
		case e.IsDir():
			fmt.Fprintf(&b, " %s/", e.Name())
		case strings.Contains(e.Name(), LockSuffix): // it has the process ID
			fmt.Fprintf(&b, " %s", e.Name())
		default:
			fmt.Fprintf(&b, " %s:%d", e.Name(), fi.Size())
		}
	}
	b.WriteString("\n")
	return unstable.ReplaceAllString(b.String(), "*")
}

// TestReportsOfChangedFiles changes each file of a store, and compares the
// reports and the files of each later use of the store.
func TestReportsOfChangedFiles(t *testing.T) { synctest.Test(t, reportChangedFiles) }

func reportChangedFiles(t *testing.T) {
	for _, version := range []int{format.LogVersion1, format.LogVersion} {
		var r golden.Reports
		probe := reportScene(t, version)
		for _, suffix := range storeSuffixes {
			file := "/m.db" + suffix
			if _, err := probe.Lstat(file); err != nil {
				continue
			}
			size := len(memBytes(t, probe, file))
			for _, c := range changesOf(file, size) {
				uses := calls
				if strings.HasPrefix(c.name, "with a bit flipped") {
					uses = calls[:len(calls)/2]
				}
				for _, use := range uses {
					m := reportScene(t, version)
					c.do(t, m, file)
					r.Add(fmt.Sprintf("%s %s: %s", file, c.name, use.name), outcome(t, m, version, use))
				}
			}
		}
		r.Compare(t, fmt.Sprintf("testdata/reports/changed-%d.txt.gz", version))
	}
}

func changesOf(file string, size int) []fileChange {
	list := slices.Clone(wholeChanges)
	at := []int{1, 8, 27, 28, 47, 48, 60, 111, 112, 113, 150, 152, 153, size - 30, size - 1}
	if strings.HasSuffix(file, LockSuffix) || strings.HasSuffix(file, HeldSuffix) {
		at = []int{1, 20}
	}
	for _, n := range at {
		if 0 < n && n < size {
			list = append(list, cutAt(n))
		}
	}
	if file != "/m.db" && !strings.HasSuffix(file, WALSuffix) {
		return list
	}
	for n := 0; n < size; n++ {
		if n < 48 || n >= 104 && n < 160 && n%2 == 0 || n > size-40 && n%3 == 0 {
			list = append(list, flipAt(n))
		}
	}
	return list
}

// TestReportsOfFailedCalls fails each call of the file system once, and
// compares the reports and the files of each use of the store.
func TestReportsOfFailedCalls(t *testing.T) { synctest.Test(t, reportFailedCalls) }

func reportFailedCalls(t *testing.T) {
	var r golden.Reports
	torn := func(t *testing.T, m *faultfs.Mem) {
		b := memBytes(t, m, "/m.db-wal")
		m.WriteFile("/m.db-wal", b[:len(b)-1], 0o600)
	}
	held := func(t *testing.T, m *faultfs.Mem) { noErr(t, m.Remove("/m.db-wal")) }
	older := func(t *testing.T, m *faultfs.Mem) { replaceBy(t, m, "/m.db-wal", memBytes(t, m, "/old/m.db-wal")) }
	edited := func(t *testing.T, m *faultfs.Mem) {
		s := opened(t, "/m.db", reportOptions(m, format.LogVersion), 3)
		_, err := Dump(s, "/tree", nil)
		noErr(t, err)
		noErr(t, s.Apply(Update{Name: "two", Content: "changed in the store"}, Remove{Name: "one"}))
		noErr(t, s.Close())
		for _, name := range []string{"two.md", "four.md"} {
			path := "/tree/notes/" + name
			m.WriteFile(path, append(memBytes(t, m, path), "and in the tree\n"...), 0o600)
		}
	}
	missing := func(t *testing.T, m *faultfs.Mem) { noErr(t, m.Remove("/m.db")) }
	for _, s := range []struct {
		name  string
		do    func(*testing.T, *faultfs.Mem)
		calls []call
	}{
		{"whole", func(*testing.T, *faultfs.Mem) {}, calls},
		{"torn", torn, calls},
		{"log removed", held, calls},
		{"log replaced by an older copy", older, calls},
		{"tree", edited, treeCalls},
		{"snapshot removed", missing, calls[6:7]},
		{"two logs", divergedLogs, []call{calls[1], calls[5], calls[7]}},
		{"snapshot corrupt", flipIn("/m.db", format.OffFlags), []call{calls[1], calls[7]}},
		{"snapshot replaced, log without operations", replacedUnderEmptyLog, calls[2:5]},
	} {
		for _, c := range s.calls {
			for n := 1; ; n++ {
				m := reportScene(t, format.LogVersion)
				s.do(t, m)
				seen, which := 0, ""
				m.Hook = func(call faultfs.Call) error {
					if seen++; seen == n {
						which = call.Op + " " + call.Name
						return syscall.EIO
					}
					return nil
				}
				got := outcome(t, m, format.LogVersion, c)
				if which == "" {
					r.Add(fmt.Sprintf("%s: %s: no error", s.name, c.name), got)
					break
				}
				r.Add(unstable.ReplaceAllString(fmt.Sprintf("%s: %s: %s", s.name, c.name, which), "*"), got)
			}
		}
	}
	r.Compare(t, "testdata/reports/failed.txt.gz")
}

// divergedLogs has another process continue an older copy of the log.
func divergedLogs(t *testing.T, m *faultfs.Mem) {
	noErr(t, m.Rename("/m.db"+WALSuffix, "/held"))
	noErr(t, m.Remove("/m.db"+WALSuffix+HeldSuffix))
	m.WriteFile("/m.db"+WALSuffix, memBytes(t, m, "/old/m.db"+WALSuffix), 0o600)
	noErr(t, m.Remove("/m.db"+LockSuffix))
	s := opened(t, "/m.db", reportOptions(m, format.LogVersion), 3)
	noErr(t, s.Apply(Update{Name: "one", Content: "by the other process"}, Add{Name: "five"}))
	noErr(t, s.Close())
	noErr(t, m.Remove("/m.db"+WALSuffix+HeldSuffix))
	noErr(t, m.Rename("/held", "/m.db"+WALSuffix+HeldSuffix))
}

func flipIn(file string, at int) func(*testing.T, *faultfs.Mem) {
	return func(t *testing.T, m *faultfs.Mem) { flipAt(at).do(t, m, file) }
}

// replacedUnderEmptyLog replaces the snapshot of a store whose log is empty, and
// whose writer was killed.
func replacedUnderEmptyLog(t *testing.T, m *faultfs.Mem) {
	s := opened(t, "/m.db", reportOptions(m, format.LogVersion), 3)
	noErr(t, s.Checkpoint())
	noErr(t, s.Close())
	replaceBy(t, m, "/m.db", memBytes(t, m, "/other.db"))
	h := vfs.ParseLockHolder(string(memBytes(t, m, "/m.db"+LockSuffix)))
	h.Clean = -1
	m.WriteFile("/m.db"+LockSuffix, []byte(h.Text()), 0o600)
}

var (
	noErr    = NoErr
	opened   = Opened
	memBytes = MemBytes
)
