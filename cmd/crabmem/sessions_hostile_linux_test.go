package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/fuzz/race"
)

// runMeasured in the environment makes the test binary run as the program,
// which writes its peak memory to the named file. The peak that wait reports
// for a child includes the parent's.
const runMeasured = "CRABMEM_TEST_MEASURED"

func init() {
	name := os.Getenv(runMeasured)
	if name == "" {
		return
	}
	code := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		err = os.WriteFile(name, status, 0o600)
	}
	if err != nil {
		code = -1
	}
	os.Exit(code)
}

// peak returns the peak memory of a measured program, in KiB.
func peak(t *testing.T, name string) int {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	words := strings.Fields(rest)
	if len(words) < 2 || words[1] != "kB" {
		t.Fatalf("no VmHWM in %q", b)
	}
	n, err := strconv.Atoi(words[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestHostileSessions runs every reading command on a folder with a FIFO, a
// link, a directory, a line of 256 MiB, files without a meta line, and 2.5 million
// empty lines, next to the files of the reference: each command ends, in
// bounded memory.
func TestHostileSessions(t *testing.T) {
	race.Skip(t) // it takes four times the memory
	t.Parallel()
	// In KiB, in addition to the memory of a command without work. A session's
	// line over the limit is not stored. A transcript's line, which may come
	// from a pipe, may take 64 MiB, and is copied as it grows.
	const memory, imports = 64 << 10, 192 << 10
	home := t.TempDir()
	folder := filepath.Join(home, "sessions")
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(top, "testdata/sessions/reference"))); err != nil {
		t.Fatal(err)
	}
	if err := makeHostile(folder, 256<<20); err != nil {
		t.Fatal(err)
	}
	meta := `{"agent":"crab","created_by":"user","created_at":"2026-04-14T10:23:45+00:00"}`
	if err := os.WriteFile(filepath.Join(folder, "crab_user_99.jsonl"), append([]byte(meta), bytes.Repeat([]byte{'\n'}, 2_500_000)...), 0o600); err != nil {
		t.Fatal(err)
	}
	file, env := program(t)
	measured := filepath.Join(t.TempDir(), "status")
	ran, most := 0, 0
	idle := func() int {
		cmd := exec.Command(file, "version")
		cmd.Env = append(slices.Clone(env), runMain+"=", runMeasured+"="+measured)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		defer os.Remove(measured)
		return peak(t, measured)
	}()
	for line, want := range map[string]int{
		"list --json": 0, "verify": cli.ExitCorrupt, "search port": 0, "show long": 0, "show crab_user_99": 0, "show crab_user_99 --from-marker --json": 0,
		"tail long": 0, "tail crab_user_99 --json": 0, "export long": 0, "export crab_user_99 --format jsonl": 0,
		"compactions list long": 0, "verify crab_user_99": 0, "repair long --dry-run": cli.ExitCorrupt, "repair crab_user_99 --dry-run": 0,
		"show fifo": cli.ExitCorrupt, "tail fifo -f": cli.ExitCorrupt, "export link": cli.ExitCorrupt, "verify dir": cli.ExitCorrupt,
		"delete fifo": cli.ExitCorrupt, "repair link": cli.ExitCorrupt, "title dir x": cli.ExitCorrupt, "import " + folder: 0,
	} {
		cmd := exec.Command(file, append([]string{"--home", home, "sessions"}, strings.Fields(line)...)...)
		cmd.Env = append(slices.Clone(env), runMain+"=", runMeasured+"="+measured)
		var diag bytes.Buffer
		cmd.Stdout, cmd.Stderr = io.Discard, &diag
		start := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		hung := time.AfterFunc(gate.Hang, func() { cmd.Process.Kill() })
		err := cmd.Wait()
		hung.Stop()
		if got := exitCode(err); got != want {
			t.Errorf("%s: exit code %d after %v, want %d: %s", line, got, time.Since(start), want, diag.String())
		}
		used, allowed := peak(t, measured)-idle, memory
		if strings.HasPrefix(line, "import ") {
			allowed = imports
		}
		// The collector's pace, and with it the peak, depends on the load.
		if used > 2*allowed {
			t.Errorf("%s: %d MiB", line, used>>10)
		}
		gate.Most(t, line+": KiB", int64(used), int64(allowed))
		most = max(most, used)
		ran++
		if err := os.Remove(measured); err != nil {
			t.Fatal(err)
		}
	}
	if ran < 20 {
		t.Errorf("%d commands", ran)
	}
	t.Logf("commands: %d, at most %d MiB over %d", ran, most>>10, idle>>10)
}
