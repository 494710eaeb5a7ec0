package main

import (
	"debug/elf"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"crabmem/fuzz/race"
)

// tests runs the tests of this package. If it runs all, the commands in PATH are the
// programs as releases build them, which start in less time than this test program, for
// which testscript has made them.
type tests struct{ *testing.M }

// released is the path of the program as releases build it, if all tests run.
var released string

func (m tests) Run() int {
	flag.Parse()
	_, err := exec.LookPath("go")
	if f := flag.Lookup("test.run"); f.Value.String() == "" && err == nil && !race.Enabled && testing.CoverMode() == "" {
		dir := filepath.SplitList(os.Getenv("PATH"))[0]
		if out, err := buildStatic(dir+string(filepath.Separator), ".", "../crabmem-sqlite"); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
		released = filepath.Join(dir, "crabmem")
	}
	return m.M.Run()
}

// buildStatic builds programs without cgo, as releases do.
func buildStatic(to string, packages ...string) (output []byte, err error) {
	build := exec.Command("go", append([]string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", to}, packages...)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	return build.CombinedOutput()
}

// TestStaticBinary looks for anything that the program, as releases build it, would need
// of the system.
func TestStaticBinary(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("SKIPPED: no go command")
	}
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	file := released
	if file == "" {
		file = filepath.Join(t.TempDir(), "crabmem")
		if out, err := buildStatic(file, "."); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
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
