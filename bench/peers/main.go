// Peers measures package bm25 against SQLite's FTS5 and bluge in one process
// and prints a table:
//
//	cd bench/peers && go run . [-n 100000] [-gate]
//
// It is a nested module: the product's module does not require these.
package main

import (
	"flag"
	"fmt"
	"os"

	"crabmem/bench/measure"
)

func main() {
	zipf := measure.ZipfFlags(flag.CommandLine)
	gate := flag.Bool("gate", false, "exit with 1 if a ratio misses its limit")
	flag.Parse()
	r, _ := zipf()
	r.Passes = map[string]int{"crabmem": 7, "fts5": 2, "bluge": 3}
	r.Changes = map[string]int{"fts5": 1000, "bluge": 500}
	times, err := r.Do([]func() (measure.Engine, error){measure.NewIndex, newFTS5, newBluge})
	if err == nil {
		l := &measure.Limits{}
		l.Compare(os.Stdout, times, gates())
		err = l.Verdict(*gate)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func gates() map[string][]measure.Gate {
	search := func(least float64) []measure.Gate {
		return []measure.Gate{
			{What: "search p50", Of: measure.SearchP50, Least: least},
			{What: "search p99", Of: measure.SearchP99, Least: least},
			{What: "synthetic top 5", Of: measure.Synthetic},
			{What: "insert", Of: measure.Insert},
			{What: "bulk build, CPU", Of: measure.BuildCPU},
			{What: "update", Of: measure.Update},
			{What: "remove", Of: measure.Remove},
		}
	}
	return map[string][]measure.Gate{"fts5": search(300), "bluge": search(0)}
}
