package tree_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/tree"
)

// TestExchanged finds the merge bases that contain an entry, and reports a damaged
// base.
func TestExchanged(t *testing.T) {
	dir := t.TempDir()
	s, err := crmem.Open(filepath.Join(dir, "m.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var ids []uint64
	check := func(want int, damaged bool) {
		t.Helper()
		paths, err := tree.Exchanged(s, ids...)
		if len(paths) != want || (err != nil) != damaged {
			t.Errorf("%d entries: paths %v, %v; want %d", len(ids), paths, err, want)
		}
		for _, p := range paths {
			if !strings.HasPrefix(p, filepath.Join(dir, "m.db")+tree.BasesSuffix) {
				t.Errorf("path %s", p)
			}
		}
	}
	for i, name := range []string{"one", "two"} {
		e, err := s.Remember(name, "text", nil)
		if err != nil {
			t.Fatal(err)
		}
		if ids = []uint64{e.ID}; i == 0 {
			check(0, false)
		}
		if _, err := tree.Dump(s, filepath.Join(dir, name), nil); err != nil {
			t.Fatal(err)
		}
	}
	check(1, false) // the second tree
	ids = append(ids, 1)
	check(2, false)
	ids = []uint64{99}
	check(0, false)
	if err := os.WriteFile(filepath.Join(dir, "m.db"+tree.BasesSuffix, strings.Repeat("0f", 16)+".json"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	check(0, true)
	if paths, err := tree.Exchanged(crmem.New(nil), 1); paths != nil || err != nil {
		t.Errorf("a store in RAM: %v, %v", paths, err)
	}
}
