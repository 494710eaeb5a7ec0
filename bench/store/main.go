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
	"strings"
	"time"

	"crabmem/bench/corpus"
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

// table prints rows and collects those that miss their limit.
type table struct{ missed []string }

func (t *table) most(what string, got, limit float64, unit string) {
	t.row(what, got, "at most", limit, unit, got <= limit)
}

func (t *table) least(what string, got, limit float64, unit string) {
	t.row(what, got, "at least", limit, unit, got >= limit)
}

func (t *table) row(what string, got float64, word string, limit float64, unit string, ok bool) {
	verdict := "ok"
	if !ok {
		verdict = "MISSED"
		t.missed = append(t.missed, fmt.Sprintf("%s: %.2f%s, %s %.2f", what, got, unit, word, limit))
	}
	fmt.Printf("%-52s %8.2f%-3s %s %.2f  %s\n", what, got, unit, word, limit, verdict)
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
	t := &table{}
	for _, f := range []func(*table, string, int) error{parse, open, durable, command} {
		if err := f(t, path, n); err != nil {
			return err
		}
		fmt.Println()
	}
	if len(t.missed) == 0 {
		return nil
	}
	fmt.Fprintf(os.Stderr, "missed:\n  %s\n", strings.Join(t.missed, "\n  "))
	if gate {
		return fmt.Errorf("%d figures missed", len(t.missed))
	}
	return nil
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

// fastest runs the functions in turn and returns the shortest time of each:
// what is left when nobody else had the machine.
func fastest(passes int, fs ...func() error) ([]time.Duration, error) {
	best := make([]time.Duration, len(fs))
	for range passes {
		for i, f := range fs {
			start := time.Now()
			if err := f(); err != nil {
				return nil, err
			}
			if d := time.Since(start); best[i] == 0 || d < best[i] {
				best[i] = d
			}
		}
	}
	return best, nil
}
