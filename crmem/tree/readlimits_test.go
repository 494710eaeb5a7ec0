package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
)

// sparse makes a file of NUL bytes.
func sparse(t *testing.T, m *faultfs.Mem, name string, size int64) {
	t.Helper()
	f, err := m.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = errors.Join(f.Truncate(size), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// reads returns how many times f opens a file.
func reads(m *faultfs.Mem, name string, f func()) (n int) {
	m.Hook = func(c faultfs.Call) error {
		if c.Op == "open" && c.Name == name {
			n++
		}
		return nil
	}
	f()
	m.Hook = nil
	return n
}

// TestDumpReadsNoLargeFiles dumps over files around the limits of their lengths. A
// file above the limit counts as edited, and the dump does not read the file.
func TestDumpReadsNoLargeFiles(t *testing.T) {
	both := []crmem.Entry{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}}
	for _, c := range []struct {
		name    string
		size    int64
		entries []crmem.Entry // of the second dump
		reads   int
	}{
		{"notes/a.md", MaxPage, both, 1},
		{"notes/a.md", MaxPage + 1, both, 0},
		{"notes/a.md", MaxPage, both[1:], 1},
		{"notes/a.md", MaxPage + 1, both[1:], 0},
		{"SUMMARY.md", maxManifest + 1, both, 0},
		{"huge page", maxPage + 1, both, 0},
		{"huge page", maxPage + 1, both[1:], 0},
	} {
		m := faultfs.NewMem()
		dump := func(entries []crmem.Entry) error {
			sn, err := crmem.NewSnapshot(3, entries)
			if err == nil {
				_, err = DumpSnapshot(m, "/b", sn, DumpOptionsFor("/b"))
			}
			return err
		}
		if err := dump(both); err != nil {
			t.Fatal(err)
		}
		name := c.name
		if name == "huge page" { // the base has a greater length
			name = "notes/a.md"
			list, err := m.ReadDir(BasesFor("/b"))
			if err != nil {
				t.Fatal(err)
			}
			base := BasesFor("/b") + "/" + list[0].Name()
			b := readAll(t, m, base)
			size := len(readAll(t, m, "/b/"+name))
			m.WriteFile(base, []byte(strings.ReplaceAll(b, fmt.Sprintf(`"size":%d`, size), fmt.Sprintf(`"size":%d`, int64(1)<<40))), 0o600)
			if readAll(t, m, base) == b {
				t.Fatalf("no size %d in %s", size, b)
			}
		}
		sparse(t, m, "/b/"+name, c.size)
		n := reads(m, "/b/"+name, func() {
			err := dump(c.entries)
			if e, ok := errors.AsType[*EditedError](err); !ok || len(e.Edited) != 1 || e.Edited[0] != name {
				t.Errorf("%s of %d bytes: %v", c.name, c.size, err)
			}
		})
		if n != c.reads {
			t.Errorf("%s of %d bytes: read %d times, want %d", c.name, c.size, n, c.reads)
		}
	}
}

func readAll(t *testing.T, m *faultfs.Mem, name string) string {
	t.Helper()
	f, err := m.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1<<20)
	n, _ := f.ReadAt(b, 0)
	return string(b[:n])
}

// TestLoadLimitsFiles loads trees with files around the limits of their lengths.
func TestLoadLimitsFiles(t *testing.T) {
	for _, c := range []struct {
		name string
		size int64
		want string
	}{
		{"notes/b.md", MaxPage + 1, fmt.Sprintf("notes/b.md: %d bytes, at most %d", MaxPage+1, MaxPage)},
		{"notes/b.md", MaxPage, fmt.Sprintf("notes/b.md: invalid: \"b\": content of %d bytes", MaxPage)},
		{manifestFile, maxManifest + 1, fmt.Sprintf("%s: %d bytes, more than the limit of %d", manifestFile, maxManifest+1, maxManifest)},
	} {
		m := faultfs.NewMem()
		sn, err := crmem.NewSnapshot(2, []crmem.Entry{{ID: 1, Name: "a"}})
		if err == nil {
			_, err = DumpSnapshot(m, "/b", sn, DumpOptionsFor("/b"))
		}
		if err != nil {
			t.Fatal(err)
		}
		sparse(t, m, "/b/"+c.name, c.size)
		_, err = Load(crmem.New(&crmem.Options{FS: m}), "/b", LoadOptionsFor("/b"))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s of %d bytes: %v", c.name, c.size, err)
		}
	}
}

// TestFileTypes checks the names of file types in errors.
func TestFileTypes(t *testing.T) {
	for mode, want := range map[fs.FileMode]string{
		0o644: "a file", fs.ModeDir | 0o755: "a directory", fs.ModeSymlink | 0o777: "a symbolic link", fs.ModeNamedPipe: "a FIFO", fs.ModeSocket: "a socket",
		fs.ModeDevice: "a device", fs.ModeDevice | fs.ModeCharDevice: "a device", fs.ModeIrregular: "a special file",
	} {
		if got := fileType(mode); got != want {
			t.Errorf("%v: %s, want %s", mode, got, want)
		}
		if f := (treeFile{mode: mode}); f.what() != want {
			t.Errorf("%v: %s", mode, f.what())
		}
	}
}

// TestLineAt finds the lines of offsets.
func TestLineAt(t *testing.T) {
	for offset, want := range map[int]int{-1: 1, 0: 1, 1: 2, 2: 2, 3: 2, 4: 3, 5: 3, 100: 3} {
		if got := lineAt([]byte("\nab\nc"), offset); got != want {
			t.Errorf("offset %d: line %d, want %d", offset, got, want)
		}
	}
}

// TestTemporaryNames finds the files that temporary files replace.
func TestTemporaryNames(t *testing.T) {
	for name, want := range map[string]string{
		".a.md12": "a.md", "notes/.a.md1": "notes/a.md", "..crabmem.json3": ".crabmem.json", ".a9b7": "a9b",
		".a.md": "", "a.md1": "", ".12": "", ".": "", "": "", "notes/": "", "notes/.1": "", "a/.b/c1": "",
	} {
		if of, temp := temporaryOf(name); temp != (want != "") || temp && of != want {
			t.Errorf("%q: %q, %t, want %q", name, of, temp, want)
		}
	}
}
