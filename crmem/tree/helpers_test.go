package tree_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func memFile(t testing.TB, m *faultfs.Mem, name string) []byte {
	t.Helper()
	return must(vfs.ReadFile(m, name, 1<<30))
}

// open opens a store, which the end of the test closes.
func open(t *testing.T, path string, o *crmem.Options) *crmem.Store {
	t.Helper()
	s := must(crmem.Open(path, o))
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
			t.Errorf("close: %v", err)
		}
		if _, err := os.Stat(path); err != nil {
			return // never written
		}
		if r := must(crmem.Check(vfs.OS{}, path, 0)); len(r.Problems) > 0 {
			t.Errorf("after the test: %+v", r.Problems)
		}
	})
	return s
}

// opened opens a store and checks the number of entries.
func opened(t *testing.T, path string, o *crmem.Options, want int) *crmem.Store {
	t.Helper()
	s := must(crmem.Open(path, o))
	if s.Len() != want {
		t.Fatalf("%d entries, want %d", s.Len(), want)
	}
	return s
}

// writeText replaces the text of a page after the metadata block, or creates a page
// without a block.
func writeText(t testing.TB, m *faultfs.Mem, name, text string) {
	t.Helper()
	if _, err := m.Lstat(name); err == nil {
		if block, _, ok := strings.Cut(string(memFile(t, m, name)), "</div>\n\n"); ok {
			text = block + "</div>\n\n" + text
		}
	}
	m.WriteFile(name, []byte(text), 0o600)
}
