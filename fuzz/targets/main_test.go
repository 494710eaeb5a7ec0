package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFind(t *testing.T) {
	all, err := find("../..")
	if err != nil || len(all) < 30 {
		t.Fatalf("%d targets, want at least 30: %v", len(all), err)
	}
}

// TestOutcomes runs targets that pass, fail, hang, and lack seeds.
func TestOutcomes(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short: builds a module")
	}
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module m\ngo 1.26\n")
	// FUNC prevents find from listing these targets of this file.
	write("m_test.go", strings.ReplaceAll(`package m
import ("testing"; "time")
FUNC FuzzPass(f *testing.F) { f.Add("a"); f.Fuzz(func(t *testing.T, s string) {}) }
FUNC FuzzFail(f *testing.F) { f.Add("a"); f.Fuzz(func(t *testing.T, s string) { if s != "a" { t.Error("another") } }) }
FUNC FuzzHang(f *testing.F) { f.Add("a"); f.Fuzz(func(t *testing.T, s string) { if s != "a" { for { time.Sleep(time.Hour) } } }) }
FUNC FuzzSeed(f *testing.F) { f.Add("a"); f.Fuzz(func(t *testing.T, s string) { t.Error("always") }) }
FUNC FuzzNone(f *testing.F) { f.Fuzz(func(t *testing.T, s string) {}) }
`, "FUNC", "func"))
	all, err := find(".")
	if err != nil || len(all) != 5 {
		t.Fatalf("%v, %v", all, err)
	}
	cache := t.TempDir()
	binaries, err := build(t.Context(), t.TempDir(), 1, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		o := options{each: time.Second, hang: 5 * time.Minute, cache: cache, keep: 1000}
		if g.name == "FuzzHang" {
			o.each, o.hang = 8*time.Second, 12*time.Second
		}
		r := fuzz(t.Context(), o, g, binaries[g.dir])
		want := map[string]string{"FuzzFail": "Failing input written", "FuzzHang": "Failing input written", "FuzzSeed": "seed corpus entry", "FuzzNone": "no seeds"}[g.name]
		if (r.failure == "") != (want == "") || !strings.Contains(r.failure, want) {
			t.Errorf("%s: %v, want %q", g, r, want)
		}
		if want == "" && r.executions == 0 {
			t.Errorf("%s: no executions: %v", g, r)
		}
	}
	if found, _ := filepath.Glob("testdata/fuzz/FuzzHang/*"); len(found) != 1 {
		t.Errorf("%d saved inputs of FuzzHang, want 1", len(found))
	}
}

// TestTrimKeepsNewest trims five files to the newest two.
func TestTrimKeepsNewest(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(int64(1000+10*((i*3)%5)), 0) // a d b e c
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := trim(dir, 2); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2 || filepath.Base(left[0]) != "b" || filepath.Base(left[1]) != "d" {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := trim(filepath.Join(dir, "missing"), 2); err != nil {
		t.Error(err)
	}
}
