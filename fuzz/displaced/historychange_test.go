//go:build unix

package displaced_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"crabmem/crmem"
	"crabmem/fuzz/refdec"
)

// historyTarget is a part of a history that another program changes, and the files
// of the store that it changes with that part.
type historyTarget struct {
	name     string
	store    string   // the store's files that change, too: the name of a target
	suffixes []string // of that target
	files    func(m machine) []string
}

var historyTargets = []historyTarget{
	{"history", "", nil, historyDir},
	{"newest segment", "", nil, newestSegment},
	{"older segment", "", nil, olderSegment},
	{"compressed segment", "", nil, compressedSegment},
	{"base", "", nil, oldestBase},
	{"newest base", "", nil, newestBase},
	{"all segments", "", nil, segmentsOf},
	{"newest segment and log", "log", []string{"-wal"}, newestSegment},
	{"newest segment and snapshot", "snapshot", []string{""}, newestSegment},
	{"history, snapshot, log, and second link", "snapshot, log, and second link", []string{"", "-wal", "-wal.held"}, historyDir},
}

func historyOf(m machine) string { return m.store() + "-history" }

func historyDir(m machine) []string { return []string{historyOf(m)} }

// listHistory returns the files of the history with an extension, in name order.
func listHistory(m machine, ext string) (names []string) {
	list, err := m.ReadDir(historyOf(m))
	must(err)
	for _, e := range list {
		if filepath.Ext(e.Name()) == ext && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, filepath.Join(historyOf(m), e.Name()))
		}
	}
	return names
}

// segmentsOf returns the segments, compressed or not.
func segmentsOf(m machine) []string {
	list := append(listHistory(m, ".log"), compressedSegments(m)...)
	slices.Sort(list)
	return list
}

func compressedSegments(m machine) []string { return listHistory(m, ".zst") }

// compressedSegment returns the newest compressed segment.
func compressedSegment(m machine) []string {
	list := compressedSegments(m)
	return list[max(0, len(list)-1):]
}

// readSegment returns the bytes of a segment.
func readSegment(m machine, name string) []byte {
	b := read(m, name)
	if filepath.Ext(name) != ".zst" {
		return b
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	must(err)
	defer d.Close()
	b, err = d.DecodeAll(b, nil)
	must(err)
	return b
}

func newestSegment(m machine) []string {
	list := segmentsOf(m)
	return list[len(list)-1:]
}

// olderSegment returns the segment before the newest one.
func olderSegment(m machine) []string {
	list := segmentsOf(m)
	return list[max(0, len(list)-2):max(0, len(list)-1)]
}

// basesOf returns the bases in the order of the segments that they precede.
func basesOf(m machine) (names []string) {
	for _, segment := range segmentsOf(m) {
		l, err := refdec.ReadLog(readSegment(m, segment))
		must(err)
		for _, name := range listHistory(m, ".crmem") {
			d := refdec.DigestOf(read(m, name))
			if d == l.Base && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func oldestBase(m machine) []string { return basesOf(m)[:1] }

// newestBase returns the last base if it is not the first.
func newestBase(m machine) []string {
	list := basesOf(m)
	return list[max(1, len(list)-1):]
}

// historyChanges lists the changes of a file of a history.
var historyChanges = append([]change{
	{"overwrite a byte", func(m machine, name, _ string) {
		b := bytes.Clone(read(m, name))
		b[len(b)/2]++
		overwrite(m, name, b)
	}},
	{"append bytes", func(m machine, name, _ string) { overwrite(m, name, append(bytes.Clone(read(m, name)), "more"...)) }},
	{"replace, segment of another store", func(m machine, name, _ string) { create(m, name, read(m, otherSegment(m))) }},
}, slices.DeleteFunc(slices.Clone(changes), func(c change) bool { return c.name == anotherStore })...)

func otherSegment(m machine) string { return spare(m, historyOf(m), ".other.log") }

// directoryChanges lists the changes of the directory of a history.
var directoryChanges = []change{
	{"remove", func(m machine, name, _ string) { removeTree(m, name) }},
	{"remove its files", func(m machine, name, _ string) { removeTree(m, name); must(m.Mkdir(name, 0o700)) }},
	{"move", func(m machine, name, _ string) { must(m.Rename(name, moved(m, name))) }},
	{"replace, same bytes", func(m machine, name, _ string) {
		copyTree(m, name, moved(m, name))
		removeTree(m, name)
		must(m.Rename(moved(m, name), name))
	}},
	{"replace, older bytes", func(m machine, name, old string) {
		removeTree(m, name)
		copyTree(m, old, name)
	}},
	{"overwrite, older bytes", func(m machine, name, old string) {
		for _, e := range entriesOf(m, old) {
			if file := filepath.Join(name, e); exists(m, file) {
				overwrite(m, file, read(m, filepath.Join(old, e)))
			}
		}
	}},
	{"replace by a file", func(m machine, name, _ string) { removeTree(m, name); create(m, name, nil) }},
	{"replace by a fifo", func(m machine, name, _ string) { removeTree(m, name); m.mkfifo(name) }},
	{"replace by a link", func(m machine, name, _ string) {
		must(m.Rename(name, moved(m, name)))
		m.symlink(moved(m, name), name)
	}},
	{"chmod 000", func(m machine, name, _ string) { m.chmod(name, 0) }},
}

func entriesOf(m machine, dir string) (names []string) {
	list, err := m.ReadDir(dir)
	must(err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func removeTree(m machine, dir string) {
	for _, e := range entriesOf(m, dir) {
		must(m.Remove(filepath.Join(dir, e)))
	}
	must(m.Remove(dir))
}

func copyTree(m machine, from, to string) {
	must(m.Mkdir(to, 0o700))
	for _, e := range entriesOf(m, from) {
		create(m, filepath.Join(to, e), read(m, filepath.Join(from, e)))
	}
}

// keepOlderHistory saves a copy of the store and of its history, and files of
// another store.
func keepOlderHistory(m machine) {
	other := newActor(newMem())
	must(other.open(crmem.CheckpointNever))
	must(errors.Join(other.remember("theirs", "of another store"), other.s.Checkpoint()))
	create(m, otherSegment(m), read(other.m, segmentsOf(other.m)[0]))
	keepOlder(m)
	if exists(m, historyOf(m)) {
		copyTree(m, historyOf(m), older(m, historyOf(m)))
	}
}

// apply changes the files of a target. It returns false if a file that the change
// needs does not exist.
func (tg *historyTarget) apply(m machine, ch change) bool {
	files := tg.files(m)
	old := older(m, historyOf(m))
	if len(files) == 0 || ch.needsOlder() && !exists(m, old) {
		return false
	}
	if files[0] == historyOf(m) {
		ch.do(m, files[0], old)
	}
	for _, name := range files {
		if name == historyOf(m) {
			continue
		}
		copied := filepath.Join(old, filepath.Base(name))
		if ch.needsOlder() && !exists(m, copied) {
			return false
		}
		ch.do(m, name, copied)
	}
	for _, ch2 := range changes {
		if ch2.name == ch.name {
			ch2.apply(m, target{suffixes: tg.suffixes})
		}
	}
	return true
}

func (c change) needsOlder() bool { return strings.Contains(c.name, "older") }

// clearHistory makes the history writable after a change: it restores the
// permissions and moves whatever is not a directory.
func clearHistory(m machine) {
	dir := historyOf(m)
	fi, err := m.Lstat(dir)
	if err != nil {
		return
	}
	if !fi.IsDir() {
		must(m.Rename(dir, spare(m, dir, ".cleared")))
		return
	}
	m.chmod(dir, 0o700)
	for _, e := range entriesOf(m, dir) {
		name := filepath.Join(dir, e)
		if fi, err := m.Lstat(name); err == nil && fi.Mode().IsRegular() {
			m.chmod(name, 0o600)
		}
	}
}
