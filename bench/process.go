package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"crabmem/bench/measure"
)

// bareProgram is a minimal Go program with output.
const bareProgram = `package main

import "fmt"

func main() { fmt.Println("crabmem") }
`

// buildBare builds bareProgram in dir.
func buildBare(dir string) (string, error) {
	source := filepath.Join(dir, "bare.go")
	if err := os.WriteFile(source, []byte(bareProgram), 0o600); err != nil {
		return "", err
	}
	return buildRelease(filepath.Join(dir, "bare"), source)
}

// buildLaunch builds the program launch in dir.
func buildLaunch(dir string) (string, error) {
	return buildRelease(filepath.Join(dir, "launch"), "crabmem/bench/launch")
}

// buildRelease builds a program with the options of a release. It returns the path of
// a copy, because a file that the linker mapped and wrote starts more slowly.
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

// A process is a program with arguments, and the least that its runs took.
type process struct {
	args   []string
	before func() error // before each run, if set

	cpu, wall time.Duration
	peak      int64 // resident memory, in bytes
}

// run runs the process once. launch is the program of that name.
func (p *process) run(launch string) error {
	if p.before != nil {
		if err := p.before(); err != nil {
			return err
		}
	}
	cmd := exec.Command(launch, p.args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%v: %w", p.args, err)
	}
	var cpu, wall time.Duration
	var peak int64
	if _, err := fmt.Sscan(string(out), (*int64)(&cpu), (*int64)(&wall), &peak); err != nil {
		return fmt.Errorf("output of launch: %w", err)
	}
	p.wall, p.cpu = measure.Least(p.wall, wall), measure.Least(p.cpu, cpu)
	if p.peak == 0 || peak < p.peak {
		p.peak = peak
	}
	return nil
}

// runTurns runs all processes in each turn. launch is the program of that name.
func runTurns(launch string, turns int, processes ...*process) error {
	for range turns {
		for _, p := range processes {
			if err := p.run(launch); err != nil {
				return err
			}
		}
	}
	return nil
}
