// Bench measures package bm25 against bleve in one process and prints a table:
//
//	go run ./bench [-n 100000] [-gate]
//	go run ./bench -standard [-gate]
//
// With -standard it is the default analysis, with the best matches read, against
// plain and against bleve with its English analyzer.
//
// The peers that need more modules are measured by the module in peers.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"crabmem/bench/corpus"
	"crabmem/bench/measure"
)

func main() {
	n := flag.Int("n", 100_000, "documents")
	queries := flag.Int("queries", 1000, "queries")
	seed := flag.Uint64("seed", 1, "of the corpus")
	grow := flag.Int("grow", 1_000_000, "documents to grow to, to see that changes cost the same; 0 for not")
	alone := flag.Bool("alone", false, "measure crabmem without the peer")
	standard := flag.Bool("standard", false, "measure the standard analysis")
	verbose := flag.Bool("v", false, "say what is being done")
	gate := flag.Bool("gate", false, "exit 1 when a figure misses what is required")
	flag.Parse()
	log := func(format string, args ...any) {
		if *verbose {
			fmt.Fprintf(os.Stderr, format+"\n", args...)
		}
	}
	z := corpus.NewZipf(*seed)
	r := zipf(z, *n, *queries, log)
	measured := func() ([]string, error) { return run(r, z, *grow, *alone) }
	if *standard {
		measured = func() ([]string, error) { return runStandard(r, *alone) }
	}
	missed, err := measured()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if len(missed) > 0 {
		fmt.Fprintf(os.Stderr, "\nmissed:\n  %s\n", strings.Join(missed, "\n  "))
		if *gate {
			os.Exit(1)
		}
	}
}

// zipf returns what to measure on a corpus of n documents.
func zipf(z *corpus.Zipf, n, queries int, log func(string, ...any)) measure.Run {
	all := z.Docs(n + 4000)
	r := measure.Run{
		Docs: all[:n], Extra: all[n:], Queries: z.Queries(queries), K: 10,
		Synthetic: make([]string, n), SynQuery: corpus.SyntheticQuery,
		Passes: map[string]int{"crabmem": 7, "standard": 7, "bleve": 5}, Changes: map[string]int{"bleve": 1000, "bleve-en": 1000}, Log: log,
	}
	size := 0
	for i, d := range r.Docs {
		size += len(d)
		r.Synthetic[i] = corpus.Synthetic(i)
	}
	fmt.Printf("zipf corpus: %d documents, %.1f MB; %d queries, top %d\n\n", n, float64(size)/1e6, queries, r.K)
	return r
}

// runStandard measures the standard analysis.
func runStandard(r measure.Run, alone bool) ([]string, error) {
	open := []func() (measure.Engine, error){measure.NewStandard, measure.NewIndex, newBleveEnglish}
	if alone {
		open = open[:2]
	}
	times, err := r.Do(open)
	if err != nil {
		return nil, err
	}
	return measure.Print(os.Stdout, times, map[string][]measure.Gate{
		"crabmem": {
			{What: "search p50", Of: measure.SearchP50, Least: 1 / 2.5},
			{What: "search p99", Of: measure.SearchP99, Least: 1 / 2.5},
			{What: "bulk build, CPU", Of: measure.BuildCPU, Least: 1 / 1.6},
		},
		"bleve-en": {
			{What: "search p50", Of: measure.SearchP50, Least: 20},
			{What: "search p99", Of: measure.SearchP99, Least: 20},
			{What: "bulk build, CPU", Of: measure.BuildCPU},
		},
	}), nil
}

func run(r measure.Run, z *corpus.Zipf, grow int, alone bool) ([]string, error) {
	open := []func() (measure.Engine, error){measure.NewIndex, newBleve}
	if alone {
		open = open[:1]
	}
	times, err := r.Do(open)
	if err != nil {
		return nil, err
	}
	missed := measure.Print(os.Stdout, times, map[string][]measure.Gate{"bleve": {
		{What: "search p50", Of: measure.SearchP50, Least: 40},
		{What: "search p99", Of: measure.SearchP99, Least: 40},
		{What: "synthetic top 5", Of: measure.Synthetic, Least: 47},
		{What: "insert", Of: measure.Insert, Least: 40},
		{What: "bulk build, CPU", Of: measure.BuildCPU, Least: 12},
		{What: "update", Of: measure.Update},
		{What: "remove", Of: measure.Remove},
	}})
	own, err := crabmem(r, z, times[0], grow)
	return append(missed, own...), err
}

// crabmem prints what is required of crabmem alone.
func crabmem(r measure.Run, z *corpus.Zipf, t measure.Times, grow int) (missed []string, err error) {
	fmt.Println()
	limit := func(what string, got, most float64, unit string) {
		verdict := "ok"
		if got > most {
			verdict = "MISSED"
			missed = append(missed, fmt.Sprintf("%s: %.2f%s, at most %.2f", what, got, unit, most))
		}
		fmt.Printf("%-48s %8.2f%s  at most %.2f  %s\n", what, got, unit, most, verdict)
	}
	limit("update, in inserts", float64(t.Update)/float64(t.Insert), 3, "")
	limit("remove, in inserts", float64(t.Remove)/float64(t.Insert), 3, "")
	n := float64(len(r.Docs))
	var x *measure.Index
	cpu, wall := t.BuildCPU, t.BuildWall
	for range 4 {
		e, err := measure.NewIndex()
		if err != nil {
			return nil, err
		}
		c, w := measure.CPU(), time.Now()
		if err := e.Build(r.Docs); err != nil {
			return nil, err
		}
		cpu, wall = min(cpu, measure.CPU()-c), min(wall, time.Since(w))
		x = e.(*measure.Index)
	}
	limit("bulk build, CPU, best of 5", cpu.Seconds(), 1.0, " s")
	// Not gated: on a shared machine it says more about the neighbours.
	fmt.Printf("%-48s %8.2f s  aim 0.65\n", "bulk build, wall, best of 5", wall.Seconds())

	if err := measure.Check(x.Index, r.Docs, r.Queries, r.K); err != nil {
		return nil, err
	}
	fmt.Printf("%d result lists equal to a float64 brute force, scores to the bit\n", len(r.Queries))
	limit("memory after a bulk build, bytes a document", float64(x.Stats().Bytes)/n, 400, " B")

	single, err := measure.NewIndex()
	if err != nil {
		return nil, err
	}
	for i, d := range r.Docs {
		if err := single.Put(i, d); err != nil {
			return nil, err
		}
	}
	limit("memory after single inserts, bytes a document", float64(single.(*measure.Index).Stats().Bytes)/n, 500, " B")
	if grow == 0 {
		return missed, nil
	}
	small, large, err := growth(r, z, grow)
	if err != nil {
		return nil, err
	}
	fmt.Println()
	for _, t := range []measure.Times{small, large} {
		fmt.Printf("%8d documents: insert %v, update %v, remove %v\n", t.Docs, t.Insert, t.Update, t.Remove)
	}
	limit("insert, growth", float64(large.Insert)/float64(small.Insert), 2, "")
	limit("update, growth", float64(large.Update)/float64(small.Update), 2, "")
	limit("remove, growth", float64(large.Remove)/float64(small.Remove), 2, "")
	return missed, nil
}

// growth measures changes of an index of a tenth of the documents, and of one of
// so many.
func growth(r measure.Run, z *corpus.Zipf, docs int) (small, large measure.Times, err error) {
	r.Synthetic = r.Synthetic[:1]
	r.Queries = r.Queries[:1]
	measureAt := func(n int) (measure.Times, error) {
		r.Docs = z.Docs(n)
		r.Extra = make([]string, 4000)
		for i := range r.Extra {
			r.Extra[i] = z.Doc(n + i)
		}
		t, err := r.Do([]func() (measure.Engine, error){measure.NewIndex})
		if err != nil {
			return measure.Times{}, err
		}
		return t[0], nil
	}
	if small, err = measureAt(10_000); err != nil {
		return small, large, err
	}
	large, err = measureAt(docs)
	return small, large, err
}
