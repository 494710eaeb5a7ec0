//go:build unix

package displaced_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"sync"

	"crabmem/crmem"
	"crabmem/fuzz/refdec"
)

// target is a set of files that another program changes together.
type target struct {
	name     string
	suffixes []string
}

var targets = []target{
	{"snapshot", []string{""}},
	{"log", []string{"-wal"}},
	{"second link", []string{"-wal.held"}},
	{"lock", []string{"-lock"}},
	{"reserve", []string{"-reserve"}},
	{"identity", []string{"-id"}},
	{"log and second link", []string{"-wal", "-wal.held"}},
	{"snapshot and log", []string{"", "-wal"}},
	{"snapshot, log, and second link", []string{"", "-wal", "-wal.held"}},
	{"log and lock", []string{"-wal", "-lock"}},
	{"log, second link, and lock", []string{"-wal", "-wal.held", "-lock"}},
	{"all but lock", []string{"", "-wal", "-wal.held", "-reserve", "-id"}},
	{"all", []string{"", "-wal", "-wal.held", "-lock", "-reserve", "-id"}},
}

// change is a change of one file by another program.
type change struct {
	name string
	// do changes the file name. old is the path of an earlier copy.
	do func(m machine, name, old string)
}

var changes = []change{
	{"remove", func(m machine, name, _ string) { must(m.Remove(name)) }},
	{"move", func(m machine, name, _ string) { must(m.Rename(name, moved(m, name))) }},
	{"overwrite, same bytes", func(m machine, name, _ string) { overwrite(m, name, bytes.Clone(read(m, name))) }},
	{"overwrite, older bytes", func(m machine, name, old string) { overwrite(m, name, read(m, old)) }},
	{"replace, same bytes", func(m machine, name, _ string) { create(m, name, read(m, name)) }},
	{"replace, older bytes", func(m machine, name, old string) { create(m, name, read(m, old)) }},
	{anotherStore, func(m machine, name, _ string) { create(m, name, read(m, spare(m, name, ".other"))) }},
	{"truncate to 0", func(m machine, name, _ string) { truncate(m, name, 0) }},
	{"truncate to a boundary", func(m machine, name, _ string) { truncate(m, name, boundary(m, name)) }},
	{"truncate by 1 byte", func(m machine, name, _ string) { truncate(m, name, max(0, int64(len(read(m, name)))-1)) }},
	{"chmod 000", func(m machine, name, _ string) { m.chmod(name, 0) }},
	{"replace by a directory", func(m machine, name, _ string) { must(m.Remove(name)); must(m.Mkdir(name, 0o700)) }},
	{"replace by a link", func(m machine, name, _ string) {
		must(m.Rename(name, moved(m, name)))
		m.symlink(moved(m, name), name)
	}},
	{"replace by a fifo", func(m machine, name, _ string) { must(m.Remove(name)); m.mkfifo(name) }},
}

// anotherStore is the change that installs files of another store. The log of that
// store has operations, and the snapshot is empty.
const anotherStore = "replace, another store"

// keepOther writes the files of another store next to the older copies.
func keepOther(m machine) {
	for _, suffix := range targets[len(targets)-1].suffixes {
		create(m, spare(m, m.store()+suffix, ".other"), read(other(), other().store()+suffix))
	}
}

// other returns the machine of that store after a kill.
var other = sync.OnceValue(func() machine {
	a := newActor(newMem())
	must(a.open(crmem.CheckpointNever))
	must(a.remember("theirs", "of another store"))
	return a.m.copied(nil)
})

// spare returns a path in a directory that the store does not use.
func spare(m machine, name, ext string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(m.store())), "aside", filepath.Base(name)+ext)
}

func moved(m machine, name string) string { return spare(m, name, ".moved") }

func older(m machine, name string) string { return spare(m, name, ".older") }

// keepOlder saves a copy of every file of the store, and the files of another
// store.
func keepOlder(m machine) {
	keepOther(m)
	for _, suffix := range targets[len(targets)-1].suffixes {
		if name := m.store() + suffix; exists(m, name) {
			create(m, older(m, name), read(m, name))
		}
	}
}

// apply changes the files of a target. If two names are links to one file, only
// a change in place preserves this.
func (c change) apply(m machine, tg target) {
	for _, suffix := range tg.suffixes {
		if name := m.store() + suffix; exists(m, name) {
			c.do(m, name, older(m, name))
		}
	}
}

// boundary returns the offset of the last frame, entry, or line of a file.
func boundary(m machine, name string) int64 {
	b := read(m, name)
	if strings.Contains(name, "-wal") {
		l, err := refdec.ReadLog(b)
		if err != nil { // already truncated through the other link
			return int64(len(b))
		}
		if n := len(l.Frames); n > 0 {
			return l.Frames[n-1].Offset
		}
		return l.Good
	}
	if i := bytes.LastIndexByte(bytes.TrimSuffix(b, []byte("\n")), '\n'); i >= 0 && !strings.HasSuffix(name, ".db") {
		return int64(i + 1)
	}
	if s, err := refdec.Snapshot(b); err == nil && strings.HasSuffix(name, ".db") && len(s.Entries) > 0 {
		s.Entries = s.Entries[:len(s.Entries)-1]
		return int64(len(s.Bytes()))
	}
	return int64(len(b) / 2)
}
