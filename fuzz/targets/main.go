// Targets runs the fuzz targets of the module, each with a corpus that persists
// between runs.
//
//	go run ./fuzz/targets -list
//	go run ./fuzz/targets [-each 60s] [-jobs 2] [-cache DIR]
//
// A target fails if an input fails, if it has no seeds, or if it executes no input
// for five minutes. The target writes a failing input, or an input that hangs,
// to testdata/fuzz. At the end of the time, targets interrupts a target, which is
// not a failure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// options contains the values of the flags.
type options struct {
	each, hang time.Duration
	jobs       int
	cache      string
	keep       int
}

func main() {
	var o options
	list := flag.Bool("list", false, "list the targets")
	flag.DurationVar(&o.each, "each", time.Minute, "fuzz each target for this `duration`, after it read the corpus")
	flag.DurationVar(&o.hang, "hang", 5*time.Minute, "fail a target that executes no input for this `duration`")
	flag.IntVar(&o.jobs, "jobs", 2, "run this many targets concurrently")
	flag.StringVar(&o.cache, "cache", defaultCache(), "`directory` of the corpora")
	flag.IntVar(&o.keep, "keep", 1000, "keep at most this many inputs of a target in the cache; remove the oldest")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	all, err := find(".")
	if err == nil && len(all) == 0 {
		err = errors.New("no fuzz targets in this directory")
	}
	switch {
	case err != nil:
	case *list:
		for _, t := range all {
			fmt.Println(t)
		}
	default:
		fmt.Printf("fuzzing %d targets for %v each; corpora in %s\n", len(all), o.each, o.cache)
		err = run(ctx, o, all)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz/targets:", err)
		os.Exit(1)
	}
}

// defaultCache returns CRABMEM_FUZZ_CACHE or, if that is unset, the directory fuzz in
// the tool directory of .ci/run.
func defaultCache() string {
	if dir := os.Getenv("CRABMEM_FUZZ_CACHE"); dir != "" {
		return dir
	}
	tools := os.Getenv("CRABMEM_TOOLS")
	if tools == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			home = os.TempDir()
		}
		tools = filepath.Join(home, ".cache", "crabmem-tools")
	}
	return filepath.Join(tools, "fuzz")
}

// target is a fuzz function and the directory of its package.
type target struct{ dir, name string }

func (t target) String() string { return t.dir + " " + t.name }

var declaration = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(\w+ \*testing\.F\)`)

// find returns the targets under a directory, ordered by directory and name.
func find(root string) ([]target, error) {
	var list []target
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		b, err := os.ReadFile(path)
		for _, m := range declaration.FindAllSubmatch(b, -1) {
			list = append(list, target{filepath.ToSlash(filepath.Dir(path)), string(m[1])})
		}
		return err
	})
	slices.SortFunc(list, func(a, b target) int { return strings.Compare(a.String(), b.String()) })
	return list, err
}

// run builds and fuzzes targets and prints a line per target. It returns an error if
// one fails.
func run(ctx context.Context, o options, list []target) error {
	dir, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binaries, err := build(ctx, dir, o.jobs, list)
	if err != nil {
		return err
	}
	began := time.Now()
	var mu sync.Mutex // guards failed, executions, and the output
	failed, executions := 0, 0
	parallel(o.jobs, list, func(t target) {
		r := fuzz(ctx, o, t, binaries[t.dir])
		mu.Lock()
		defer mu.Unlock()
		executions += r.executions
		if fmt.Printf("%-28s %v\n", t, r); r.failure != "" {
			failed++
		}
	})
	fmt.Printf("fuzzed %d targets, %d executions, %d failed, %.0f s\n", len(list), executions, failed, time.Since(began).Seconds())
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case failed > 0:
		return fmt.Errorf("%d of %d targets failed", failed, len(list))
	}
	return nil
}

// build compiles the test binary of each package with coverage instrumentation. It
// returns the paths by package.
func build(ctx context.Context, dir string, jobs int, list []target) (map[string]string, error) {
	binaries := make(map[string]string)
	var packages []string
	for _, t := range list {
		if binaries[t.dir] == "" {
			binaries[t.dir] = filepath.Join(dir, fmt.Sprint(len(packages)))
			packages = append(packages, t.dir)
		}
	}
	var mu sync.Mutex
	var errs []error
	parallel(jobs, packages, func(p string) {
		out, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-fuzz=.", "-o", binaries[p], "./"+p).CombinedOutput()
		if err != nil {
			mu.Lock()
			errs = append(errs, fmt.Errorf("build %s: %w: %s", p, err, out))
			mu.Unlock()
		}
	})
	return binaries, errors.Join(errs...)
}

// parallel calls f for each element of a list, with n calls at a time.
func parallel[T any](n int, list []T, f func(T)) {
	next := make(chan T)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for v := range next {
				f(v)
			}
		})
	}
	for _, v := range list {
		next <- v
	}
	close(next)
	wg.Wait()
}
