package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"crabmem/bench/measure"
	"crabmem/crmem/recalleval"
)

// queries compares the slowest query of each test set with the median query.
func queries(f *flag.FlagSet) func(*measure.Limits) error {
	root := f.String("datasets", os.Getenv("CRABMEM_DATASETS"), "measure the test sets in this `directory` (CRABMEM_DATASETS)")
	passes := f.Int("passes", 5, "time each query by the fastest of this many passes")
	return func(l *measure.Limits) error {
		if *root == "" {
			fmt.Fprintln(os.Stderr, "bench recall: SKIPPED: set -datasets or CRABMEM_DATASETS to a directory of test sets")
			return nil
		}
		corpora, err := filepath.Glob(filepath.Join(*root, "*", recalleval.Corpus))
		if err != nil {
			return err
		}
		if len(corpora) == 0 {
			return fmt.Errorf("find test sets in %s: no directory in it has a %s", *root, recalleval.Corpus)
		}
		for _, c := range corpora {
			set, err := recalleval.Load(func(name string) (io.ReadCloser, error) { return os.Open(name) }, filepath.Dir(c))
			if err != nil {
				return err
			}
			r, err := recalleval.Run(context.Background(), set, recalleval.Options{Passes: *passes})
			if err != nil {
				return errors.Join(fmt.Errorf("run %s", set.Name), err)
			}
			l.Most(fmt.Sprintf("%s: slowest query over p50 (%.0f µs)", r.Set, r.Cost.QueryP50), r.Cost.QueryMax/r.Cost.QueryP50, 20, "x")
		}
		return nil
	}
}
