package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// TestStaticBinary builds the program without cgo, as releases do, and looks
// for anything that it would need of the system.
func TestStaticBinary(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("SKIPPED: no go command")
	}
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	file := filepath.Join(t.TempDir(), "crabmem")
	build := exec.Command("go", "build", "-o", file, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command(file, "version").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if runtime.GOOS != "linux" {
		return // elsewhere every program needs the system's libraries
	}
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it wants a dynamic linker")
		}
	}
	if libs, err := f.ImportedLibraries(); err != nil || len(libs) > 0 {
		t.Errorf("it wants %v, %v", libs, err)
	}
}
