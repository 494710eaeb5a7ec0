package journal

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"crabmem/crmem/vfs"
)

// TestFile appends, tears, and replaces records.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "x.jsonl")
	reopen := func(want ...int) *File[int] {
		t.Helper()
		j, list, err := Open[int](vfs.OS{}, path)
		if err != nil || !slices.Equal(list, want) {
			t.Errorf("read %v, %v; want %v", list, err, want)
		}
		t.Cleanup(func() { _ = j.Close() })
		return j
	}
	add := func(j *File[int], n int) {
		t.Helper()
		if err := j.Append(&n); err != nil {
			t.Error(err)
		}
	}
	j := reopen()
	add(j, 1)
	add(j, 2)
	j = reopen(1, 2)
	add(j, 3)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)-1], 0o600); err != nil { // torn after its last digit
		t.Fatal(err)
	}
	j = reopen(1, 2)
	add(j, 4)
	j = reopen(1, 2, 3, 4)
	if err := j.Replace(slices.Values([]int{5, 6})); err != nil || j.Lines() != 2 {
		t.Errorf("%d lines, %v", j.Lines(), err)
	}
	add(j, 7)
	reopen(5, 6, 7)
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", fi.Mode(), err)
	}
}
