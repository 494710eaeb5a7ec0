package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/bench/corpus"
	"crabmem/bench/measure"
	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

// store compares package crmem and the crabmem command with raw system calls.
func store(f *flag.FlagSet) func(*measure.Limits) error {
	n := f.Int("n", 100_000, "number of entries of the large store")
	dir := f.String("dir", "", "write to a new directory in this `directory`, which should be on a disk (default: the temporary directory)")
	return func(t *measure.Limits) error {
		return inTemp(*dir, func(dir string) error {
			path := filepath.Join(dir, "large.db")
			size, err := writeStore(path, *n)
			if err != nil {
				return err
			}
			fmt.Printf("store: %d entries, %.1f MB\n\n", *n, float64(size)/1e6)
			for _, f := range []func(*measure.Limits, string, int) error{parse, open, names, durable, command, startUp} {
				if err := f(t, path, *n); err != nil {
					return err
				}
				fmt.Println()
			}
			return nil
		})
	}
}

func writeStore(path string, n int) (int, error) {
	z := corpus.NewZipf(1)
	entries := make([]crmem.Entry, n)
	for i := range entries {
		entries[i] = crmem.Entry{ID: uint64(i + 1), Name: name(i), CreatedAt: crmem.UnixTime(1_760_000_000 + i), Content: z.Doc(i)}
	}
	sn, err := crmem.NewSnapshot(uint64(n+1), entries)
	if err != nil {
		return 0, err
	}
	b, err := sn.AppendBinary(nil)
	if err != nil {
		return 0, err
	}
	return len(b), os.WriteFile(path, b, 0o600)
}

func name(i int) string { return fmt.Sprintf("note-%06d", i) }

// parse compares the reading and checking of a snapshot with only reading it.
func parse(t *measure.Limits, path string, _ int) error {
	reading := func(use func(b []byte) error) func() error {
		return func() error {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return use(b)
		}
	}
	best, err := measure.Fastest(9,
		reading(func(b []byte) error {
			runtime.KeepAlive(b)
			return nil
		}),
		reading(func(b []byte) error {
			sn, err := crmem.Decode(b)
			runtime.KeepAlive(sn)
			return err
		}))
	if err != nil {
		return err
	}
	fmt.Printf("os.ReadFile %v, with checks and the table of names %v\n", best[0], best[1])
	t.Most("read, check, and table of names, relative to os.ReadFile", measure.Ratio(best[1], best[0]), 3.5, "x")
	return nil
}

// open measures the time from a closed file to the first Get and the first search,
// with each analyzer.
func open(t *measure.Limits, path string, n int) error {
	for _, a := range []analysis.Analyzer{analysis.Plain, analysis.Standard} {
		var get, search, cpu time.Duration
		for range 5 {
			cpu0, start := measure.CPU(), time.Now()
			s, err := crmem.Open(path, &crmem.Options{ReadOnly: true})
			if err != nil {
				return err
			}
			if _, err := s.Get(name(n / 2)); err != nil {
				return err
			}
			g := time.Since(start)
			r, err := s.Search(context.Background(), crmem.Query{Text: "the first search of many", Limit: 5, Analyzer: a})
			if err != nil {
				return err
			}
			w, c := time.Since(start), measure.CPU()-cpu0
			runtime.KeepAlive(r)
			if err := s.Close(); err != nil {
				return err
			}
			get, search, cpu = measure.Least(get, g), measure.Least(search, w), measure.Least(cpu, c)
		}
		t.Most(fmt.Sprintf("open to the first Get (%v)", a), float64(get.Microseconds())/1000, 100, "ms")
		t.Most(fmt.Sprintf("open to the first search, wall (%v)", a), search.Seconds(), 0.7, "s")
		t.Most(fmt.Sprintf("open to the first search, CPU (%v)", a), cpu.Seconds(), 1.0, "s")
	}
	return nil
}

// durable compares acknowledged writes with the necessary system calls. It also
// compares the throughput of 64 writers with one writer.
func durable(t *measure.Limits, path string, _ int) error {
	dir := filepath.Dir(path)
	s, err := crmem.Open(filepath.Join(dir, "durable.db"), nil)
	if err != nil {
		return err
	}
	defer s.Close()
	text := strings.Repeat("word ", 46)
	if _, err := s.Remember("first", text, nil); err != nil {
		return err
	}
	frame := make([]byte, 32+32+11+len(text)) // the size of one entry in the log
	if err := inRawAppends(t, dir, "remember", frame, func(i int) error {
		_, err := s.Remember(name(i), text, nil)
		return err
	}); err != nil {
		return err
	}

	// Alternate and take the best of each, because other processes use the disk.
	var one, many float64
	for range 5 {
		a, err := writers(s, 1)
		if err != nil {
			return err
		}
		b, err := writers(s, 64)
		if err != nil {
			return err
		}
		one, many = max(one, a), max(many, b)
	}
	fmt.Printf("durable operations per second: %.0f with 1 writer, %.0f with 64\n", one, many)
	t.Least("throughput of 64 writers, relative to one writer", many/one, 12, "x")
	return nil
}

// inRawAppends compares the median time of a durable write with raw system calls. These
// append bytes to a file in dir and call fdatasync.
func inRawAppends(t *measure.Limits, dir, what string, bytes []byte, write func(i int) error) error {
	raw, err := vfs.OS{}.OpenFile(filepath.Join(dir, "raw"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer raw.Close()
	took, err := measure.Turns(2000, 1, func(int) error {
		if _, err := raw.Write(bytes); err != nil {
			return err
		}
		return raw.Datasync()
	}, write)
	if err != nil {
		return err
	}
	raws, writes := measure.Percentile(took[0], 50), measure.Percentile(took[1], 50)
	fmt.Printf("durable %s p50 %v, raw append and fdatasync %v\n", what, writes, raws)
	t.Most("durable "+what+", relative to append and fdatasync", measure.Ratio(writes, raws), 1.2, "x")
	return nil
}

// writers returns the number of durable operations per second of n writers.
func writers(s *crmem.Store, n int) (float64, error) {
	var wg sync.WaitGroup
	var ops atomic.Int64
	var failed atomic.Pointer[error]
	start := time.Now()
	for w := range n {
		wg.Go(func() {
			for i := 0; time.Since(start) < time.Second; i++ {
				if _, err := s.Remember(fmt.Sprintf("w%d-%d", w, i%50), "a short text to remember", nil); err != nil {
					failed.Store(&err)
					return
				}
				ops.Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(ops.Load()) / time.Since(start).Seconds(), nil
}

// command compares the process crabmem remember on the large store with crabmem show,
// which only reads.
func command(t *measure.Limits, path string, n int) error {
	bin := filepath.Join(filepath.Dir(path), "crabmem")
	build := exec.Command("go", "build", "-o", bin, "crabmem/cmd/crabmem")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	crabmem := func(args ...string) func() error {
		return func() error {
			out, err := exec.Command(bin, append([]string{"--db", path}, args...)...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("crabmem %v: %w\n%s", args, err, out)
			}
			return nil
		}
	}
	// The first write creates the log, so it is not measured.
	if err := crabmem("remember", "one-shot", "warm")(); err != nil {
		return err
	}
	best, err := measure.Fastest(25,
		crabmem("show", name(n/2)),
		crabmem("remember", "one-shot", "a text of some words to remember"),
		crabmem("version"),
	)
	if err != nil {
		return err
	}
	fmt.Printf("complete process: show %v, remember %v, version %v\n", best[0], best[1], best[2])
	t.Most("crabmem remember, above crabmem show", float64((best[1]-best[0]).Microseconds())/1000, 3, "ms")
	return nil
}

// startUp measures the size of the release binary and the CPU time of crabmem
// version. It compares that with bareProgram, the least of 100 alternating runs each.
func startUp(t *measure.Limits, path string, _ int) error {
	dir := filepath.Dir(path)
	release, err := buildRelease(filepath.Join(dir, "release"), "crabmem/cmd/crabmem")
	if err != nil {
		return err
	}
	bare, err := buildBare(dir)
	if err != nil {
		return err
	}
	fi, err := os.Stat(release)
	if err != nil {
		return err
	}
	version, base := &process{args: []string{release, "version"}}, &process{args: []string{bare}}
	launch, err := buildLaunch(dir)
	if err != nil {
		return err
	}
	if err := runTurns(launch, 100, version, base); err != nil {
		return err
	}
	fmt.Printf("CPU of a process: version %v, a bare Go program %v\n", version.cpu, base.cpu)
	t.Most("release binary", float64(fi.Size())/1e6, 36, "MB")
	t.Most("crabmem version, CPU", measure.Millis(version.cpu), 4, "ms")
	t.Most("crabmem version, CPU, relative to a bare Go program", measure.Ratio(version.cpu, base.cpu), 4, "x")
	return nil
}
