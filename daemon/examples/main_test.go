package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	_ "time/tzdata"
)

var update = flag.Bool("update", false, "write the golden files")

// TestExamples runs each example and compares the output with a golden file.
func TestExamples(t *testing.T) {
	tmp, err := os.MkdirTemp("", "crab") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	t.Setenv("TMPDIR", tmp)
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			var out strings.Builder
			if err := e.start(t.Context(), &out); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", e.name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if out.String() != string(want) {
				t.Errorf("got\n%s\nwant\n%s", out.String(), want)
			}
		})
	}
}
