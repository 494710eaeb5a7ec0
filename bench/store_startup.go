package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"crabmem/bench/measure"
)

// bareProgram is the least that a Go program with output takes.
const bareProgram = `package main

import "fmt"

func main() { fmt.Println("crabmem") }
`

// startUp measures the release binary: its size, and the CPU time of crabmem
// version next to that of bareProgram, the least of 100 alternating runs each.
func startUp(t *measure.Limits, path string, _ int) error {
	dir := filepath.Dir(path)
	source := filepath.Join(dir, "bare.go")
	if err := os.WriteFile(source, []byte(bareProgram), 0o600); err != nil {
		return err
	}
	release, err := buildRelease(filepath.Join(dir, "release"), "crabmem/cmd/crabmem")
	if err != nil {
		return err
	}
	bare, err := buildRelease(filepath.Join(dir, "bare"), source)
	if err != nil {
		return err
	}
	fi, err := os.Stat(release)
	if err != nil {
		return err
	}
	var version, base time.Duration
	for range 100 {
		a, err := cpuOf(release, "version")
		if err != nil {
			return err
		}
		b, err := cpuOf(bare)
		if err != nil {
			return err
		}
		version, base = measure.Least(version, a), measure.Least(base, b)
	}
	fmt.Printf("CPU of a process: version %v, a bare Go program %v\n", version, base)
	t.Most("release binary", float64(fi.Size())/1e6, 36, "MB")
	t.Most("crabmem version, CPU", float64(version.Microseconds())/1000, 4, "ms")
	t.Most("crabmem version, CPU, in a bare Go program", measure.Ratio(version, base), 4, "x")
	return nil
}

// buildRelease builds a program as a release does. It returns the path of a
// copy: what a linker has mapped and written starts more slowly.
func buildRelease(out, pkg string) (string, error) {
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, text)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		return "", err
	}
	return out + "-copy", os.WriteFile(out+"-copy", b, 0o700)
}

// cpuOf returns the CPU time of one run of a program.
func cpuOf(name string, args ...string) (time.Duration, error) {
	cmd := exec.Command(name, args...)
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s %v: %w", name, args, err)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}
