package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommittedVectors renders every vector and compares it with the committed
// file. The files and their bytes must be equal.
func TestCommittedVectors(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "vectors")
	want := map[string]string{}
	for _, v := range vectors() {
		if _, ok := want[v.name]; ok {
			t.Errorf("%s: two vectors have this name", v.name)
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
			t.Errorf("%s: vectorgen does not write this file; remove it", path)
			return nil
		}
		delete(want, name)
		b, err := os.ReadFile(path)
		if err == nil && string(b) != text {
			t.Errorf("%s differs from vectorgen's output; run go run ./fuzz/vectorgen", path)
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
