// Peers measures package bm25 against SQLite's FTS5 and bluge in one process
// and prints a table:
//
//	cd bench/peers && go run . [-n 100000] [-gate]
//
// It is a module of its own, so that these stay out of the product's.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"crabmem/bench/corpus"
	"crabmem/bench/measure"
)

func main() {
	n := flag.Int("n", 100_000, "documents")
	queries := flag.Int("queries", 1000, "queries")
	seed := flag.Uint64("seed", 1, "of the corpus")
	verbose := flag.Bool("v", false, "say what is being done")
	gate := flag.Bool("gate", false, "exit 1 when a ratio misses what is required")
	flag.Parse()
	log := func(format string, args ...any) {
		if *verbose {
			fmt.Fprintf(os.Stderr, format+"\n", args...)
		}
	}
	missed, err := run(*n, *queries, *seed, log)
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
	if len(missed) > 0 {
		fmt.Fprintf(os.Stderr, "\nmissed:\n  %s\n", strings.Join(missed, "\n  "))
		if *gate {
			os.Exit(1)
		}
	}
}

func run(n, queries int, seed uint64, log func(string, ...any)) ([]string, error) {
	z := corpus.NewZipf(seed)
	all := z.Docs(n + 4000)
	r := measure.Run{
		Docs: all[:n], Extra: all[n:], Queries: z.Queries(queries), K: 10,
		Synthetic: make([]string, n), SynQuery: corpus.SyntheticQuery,
		Passes:  map[string]int{"crabmem": 7, "fts5": 2, "bluge": 3},
		Changes: map[string]int{"fts5": 1000, "bluge": 500}, Log: log,
	}
	size := 0
	for i, d := range r.Docs {
		size += len(d)
		r.Synthetic[i] = corpus.Synthetic(i)
	}
	fmt.Printf("zipf corpus: %d documents, %.1f MB, seed %d; %d queries, top %d\n\n", n, float64(size)/1e6, seed, queries, r.K)
	times, err := r.Do([]func() (measure.Engine, error){measure.NewIndex, newFTS5, newBluge})
	if err != nil {
		return nil, err
	}
	shown := []measure.Gate{
		{What: "synthetic top 5", Of: measure.Synthetic},
		{What: "insert", Of: measure.Insert},
		{What: "bulk build, CPU", Of: measure.BuildCPU},
		{What: "update", Of: measure.Update},
		{What: "remove", Of: measure.Remove},
	}
	return measure.Print(os.Stdout, times, map[string][]measure.Gate{
		"fts5": append([]measure.Gate{
			{What: "search p50", Of: measure.SearchP50, Least: 300},
			{What: "search p99", Of: measure.SearchP99, Least: 300},
		}, shown...),
		"bluge": append([]measure.Gate{
			{What: "search p50", Of: measure.SearchP50},
			{What: "search p99", Of: measure.SearchP99},
		}, shown...),
	}), nil
}
