package sessionlog

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/sessionlog/internal/line"
)

// countingFS counts the bytes that are read through it.
type countingFS struct {
	vfs.FS
	bytes *atomic.Int64
}

func (c countingFS) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return countingFile{f, c.bytes}, nil
}

type countingFile struct {
	vfs.File
	bytes *atomic.Int64
}

func (f countingFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.bytes.Add(int64(n))
	return n, err
}

func (f countingFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.bytes.Add(int64(n))
	return n, err
}

// writeSparse writes a file of the given size: head at its start, tail at its
// end, and a hole between them.
func writeSparse(t *testing.T, name, head, tail string, size int64) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: a truncated file is not sparse on this system")
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Skip("SKIPPED: no sparse file of this size: ", err)
	}
	for off, text := range map[int64]string{0: head, size - int64(len(tail)): tail} {
		if _, err := f.WriteAt([]byte(text), off); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	largeSize = 20 << 30
	largeHead = `{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00","title":"first","uptime_secs":1}` + "\n" +
		`{"role":"user","content":"one"}` + "\n" + `{"role":"assistant","content":"two"}` + "\n"
	largeTail = "\n" + `{"role":"user","content":"three"}` + "\n" + `{"meta":{"title":"last","uptime_secs":9}}` + "\n"
)

// TestListReadsBoundedParts lists files of 20 GiB. List must read only the two
// parts of each one. The scanner reads a long line at most twice.
func TestListReadsBoundedParts(t *testing.T) {
	half := strings.Repeat("x", line.ListPart) // longer than a part with its ends
	for _, test := range []struct {
		name, head, tail string
		size             int64
		want             Info
	}{
		{"hole at the end", largeHead, "", largeSize,
			Info{Meta: Meta{Title: "first", UptimeSecs: 1}, Messages: 2, Torn: line.ListPart, Partial: true}},
		{"hole in the middle", largeHead, largeTail, largeSize,
			Info{Meta: Meta{Title: "last", UptimeSecs: 9}, Messages: 3, Partial: true}},
		{"hole at the start", "", largeTail, largeSize,
			Info{Meta: Meta{Title: "last", UptimeSecs: 9}, Messages: 1, Damaged: 1, Partial: true}},
		{"torn tail", largeHead, largeTail + `{"role":"us`, largeSize,
			Info{Meta: Meta{Title: "last", UptimeSecs: 9}, Messages: 3, Torn: 11, Partial: true}},
		{"a line across the end of the head", largeHead + `{"role":"user","content":"` + half + `"}` + "\n", largeTail, largeSize,
			Info{Meta: Meta{Title: "last", UptimeSecs: 9}, Messages: 3, Partial: true}},
		{"two parts exactly", largeHead, largeTail, 2 * line.ListPart,
			Info{Meta: Meta{Title: "last", UptimeSecs: 9}, Messages: 3, Damaged: 1}},
		{"two parts and a byte", largeHead, largeTail, 2*line.ListPart + 1,
			Info{Meta: Meta{Title: "last", UptimeSecs: 9}, Messages: 3, Partial: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "crab_user_1.jsonl")
			writeSparse(t, name, test.head, test.tail, test.size)
			var bytes atomic.Int64
			d, err := OpenDir(dir, &Options{FS: countingFS{vfs.OS{}, &bytes}})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			infos, err := d.List()
			if err != nil || len(infos) != 1 || infos[0].Err != nil {
				t.Fatalf("listed %+v, %v", infos, err)
			}
			got, want := infos[0], test.want
			if got.Meta.Title != want.Meta.Title || got.Meta.UptimeSecs != want.Meta.UptimeSecs || got.Messages != want.Messages ||
				got.Damaged != want.Damaged || got.Torn != want.Torn || got.Partial != want.Partial || got.Size != test.size {
				t.Errorf("listed %+v\nwant %+v", got, want)
			}
			if n, most := bytes.Load(), int64(4*line.ListPart); n > most {
				t.Errorf("read %d bytes, want at most %d", n, most)
			}
		})
	}
}
