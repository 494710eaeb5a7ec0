// Sessions measures package sessionlog against what else one could do, in one
// run, and prints a table:
//
//	go run ./bench/sessions [-large] [-gate]
//
// Every figure is a ratio to something measured beside it, alternating, on the
// same file system, or CPU time. With -large it also makes a file of 1 GB and
// an index of a million messages.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"crabmem/bench/measure"
	"crabmem/sessionlog"
)

func main() {
	dir := flag.String("dir", "", "where to write: a file system with a real sync; default: a temporary directory")
	large := flag.Bool("large", false, "a file of 1 GB and a million messages, too")
	gate := flag.Bool("gate", false, "exit 1 when a figure misses what is required")
	flag.Parse()
	if err := run(*dir, *large, *gate); err != nil {
		fmt.Fprintln(os.Stderr, "bench/sessions:", err)
		os.Exit(1)
	}
}

func run(dir string, large, gate bool) error {
	dir, err := os.MkdirTemp(dir, "crabmem-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := &measure.Limits{}
	for i, f := range []func(*measure.Limits, string, bool) error{appends, contexts, searches, lists} {
		sub := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(sub, 0o700); err != nil {
			return err
		}
		if err := f(t, sub, large); err != nil {
			return err
		}
		if err := os.RemoveAll(sub); err != nil {
			return err
		}
		fmt.Println()
	}
	return t.Verdict(gate)
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// session creates a session.
func session(dir string, o *sessionlog.Options) (*sessionlog.Dir, *sessionlog.Log, error) {
	d, err := sessionlog.OpenDir(dir, o)
	if err != nil {
		return nil, nil, err
	}
	l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
	return d, l, err
}
