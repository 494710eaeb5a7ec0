// Store measures package crmem and the crabmem command against raw system
// calls, in one run, and prints a table:
//
//	go run ./bench/store [-n 100000] [-gate]
//
// Every figure is a ratio to something measured beside it, alternating, on the
// same file system: absolute times of a shared machine say little.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"crabmem/bench/corpus"
	"crabmem/bench/measure"
	"crabmem/crmem"
)

func main() {
	n := flag.Int("n", 100_000, "entries of the large store")
	dir := flag.String("dir", "", "where to write: a file system with a real sync; default: a temporary directory")
	gate := flag.Bool("gate", false, "exit 1 when a figure misses what is required")
	flag.Parse()
	if err := run(*n, *dir, *gate); err != nil {
		fmt.Fprintln(os.Stderr, "bench/store:", err)
		os.Exit(1)
	}
}

func run(n int, dir string, gate bool) error {
	dir, err := os.MkdirTemp(dir, "crabmem-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "large.db")
	size, err := writeStore(path, n)
	if err != nil {
		return err
	}
	fmt.Printf("store: %d entries, %.1f MB\n\n", n, float64(size)/1e6)
	t := &measure.Limits{}
	for _, f := range []func(*measure.Limits, string, int) error{parse, open, names, durable, command} {
		if err := f(t, path, n); err != nil {
			return err
		}
		fmt.Println()
	}
	return t.Verdict(gate)
}

func writeStore(path string, n int) (int, error) {
	z := corpus.NewZipf(1)
	entries := make([]crmem.Entry, n)
	for i := range entries {
		entries[i] = crmem.Entry{ID: uint64(i + 1), Name: name(i), CreatedAt: uint64(1_760_000_000 + i), Content: z.Doc(i)}
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
