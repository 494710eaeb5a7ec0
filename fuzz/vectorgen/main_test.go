package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommittedVectors lays every vector in memory and compares it with the
// committed file: the same files, the same bytes.
func TestCommittedVectors(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "vectors")
	want := map[string]string{}
	for _, v := range vectors() {
		if _, ok := want[v.name]; ok {
			t.Errorf("%s: two vectors of one name", v.name)
		}
		want[v.name] = v.text()
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.ToSlash(rel), ".txt")
		text, ok := want[name]
		if !ok {
			t.Errorf("%s: no such vector; remove the file", path)
			return nil
		}
		delete(want, name)
		b, err := os.ReadFile(path)
		if err == nil && string(b) != text {
			t.Errorf("%s is not what vectorgen lays; run go run ./fuzz/vectorgen", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		t.Errorf("%s.txt is missing; run go run ./fuzz/vectorgen", name)
	}
}
