// Peers measures package bm25 and other search engines on one corpus in one run
// and prints a table:
//
//	go run ./bench/peers [-n 100000] [-gate] [-require]
//
// bench index compares package bm25 with bleve. The engines of peers are optional
// programs. If one is missing, peers prints SKIPPED and the install command. With
// -require a missing engine is an error:
//
//	SQLite FTS5 in C   pip install apsw
//	tantivy            cargo, of Rust: https://rustup.rs; the first build takes minutes
//	Xapian             apt-get install python3-xapian
//	Lucene             a JDK, and mvn dependency:get -Dartifact=org.apache.lucene:lucene-core:9.12.3
//
// With -recall, peers measures nDCG@10 on the test sets in a directory instead, with
// bleve, SQLite FTS5, and, if they are installed, tantivy and bm25s:
//
//	pip install -r bench/peers/requirements.txt
//	go run ./bench/peers -recall -datasets DIR [-require]
//
// A prototype of the layout without the duties of a product runs in turn with crabmem.
//
// The words of the corpus are terms of the plain analyzer, separated by spaces. So all
// engines index the same terms. A query is an OR of distinct terms. BM25 uses
// k1 = 1.2 and b = 0.75.
//
// The time of a query is the least of several passes. For the other engines it is CPU
// time, including the Python binding, if any, and the results. For crabmem and the
// prototype it is wall time, with passes before and after each engine. The time of a query without a match shows
// the cost of a binding. Peers does not subtract it. The time of a build is the CPU
// time of the process.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"crabmem/bench/measure"
)

// leastOverlap is the minimum share of hits in common with crabmem. An engine with a
// smaller share does not run the same queries.
const leastOverlap = 0.9

// emptyQueries is the number of queries without a match at the end of the queries.
const emptyQueries = 20

// frequentQueries is the number of queries with the most frequent words, before those
// without a match.
const frequentQueries = 300

func main() {
	gate := flag.Bool("gate", false, "exit with 1 if a ratio misses its limit")
	p := peers{engines: engines}
	flag.BoolVar(&p.require, "require", false, "exit with 1 if an engine is missing")
	flag.IntVar(&p.passes, "passes", 10, "make this many `passes` over the queries")
	recall := flag.Bool("recall", false, "compare recall on test sets instead of speed")
	root := flag.String("datasets", os.Getenv("CRABMEM_DATASETS"), "with -recall, use the test sets in this `directory` (CRABMEM_DATASETS)")
	zipf := measure.ZipfFlags(flag.CommandLine)
	flag.Parse()
	if *recall {
		if err := compareRecall(*root, p.require, rankers); err != nil {
			fmt.Fprintln(os.Stderr, "peers:", err)
			os.Exit(1)
		}
		return
	}
	r, z := zipf()
	r.Queries = append(r.Queries, z.FrequentQueries(frequentQueries)...)
	l := &measure.Limits{}
	err := p.run(l, r)
	if err == nil {
		err = l.Verdict(*gate)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// peers configures a run with optional engines.
type peers struct {
	engines []engine
	passes  int
	require bool // a missing engine is an error
}

// run measures all engines. It prints the table, the gates, and the missing engines.
func (p peers) run(l *measure.Limits, r measure.Run) error {
	for i, q := range r.Queries {
		r.Queries[i] = distinct(q)
	}
	for i := range emptyQueries {
		r.Queries = append(r.Queries, strings.Repeat(string(rune('a'+i)), 30)) // longer than every word
	}
	dir, err := os.MkdirTemp("", "crabmem-peers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := writeFiles(dir, r); err != nil {
		return err
	}
	x, err := buildCrabmem(r)
	if err != nil {
		return err
	}
	turn := (p.passes + len(p.engines)) / (len(p.engines) + 1) // crabmem's passes before and after each engine
	proto := newPrototype(r.Docs)
	both := func() {
		for range turn {
			x.search(r)
			proto.run(r)
		}
	}
	both()
	var results []result
	var missing []string
	for _, e := range p.engines {
		res, err := e.measure(dir, p.passes)
		if errors.Is(err, errMissing) {
			missing = append(missing, fmt.Sprintf("SKIPPED %s: %s", e.name, e.install))
			continue
		}
		if err != nil {
			return fmt.Errorf("measure %s: %w", e.name, err)
		}
		both()
		res.name, res.least = e.name, e.least(len(r.Docs))
		if res.overlap, err = x.overlap(r, res.Hits); err != nil {
			return fmt.Errorf("compare %s: %w", e.name, err)
		}
		r.Log("%s: measured", e.name)
		results = append(results, res)
	}
	hits := make([][]uint64, len(r.Queries))
	for i, q := range r.Queries {
		hits[i] = proto.search(q, r.K)
	}
	share, err := x.overlap(r, hits)
	if err != nil {
		return fmt.Errorf("compare the prototype: %w", err)
	}
	prototype := result{name: "prototype", Version: "this", Best: proto.best, overlap: share}
	table(l, append([]result{x.result(), prototype}, results...))
	if len(missing) == 0 {
		return nil
	}
	fmt.Printf("\n%s\n", strings.Join(missing, "\n"))
	if p.require {
		return fmt.Errorf("find engines: %d missing", len(missing))
	}
	return nil
}

// writeFiles writes the corpus, the queries, and the programs to dir.
func writeFiles(dir string, r measure.Run) error {
	for name, content := range map[string]string{
		"docs":        strings.Join(r.Docs, "\n") + "\n",
		"queries":     strings.Join(r.Queries, "\n") + "\n",
		"engines.py":  enginesPy,
		"Lucene.java": luceneJava,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// distinct returns the distinct words of a query, in order.
func distinct(query string) string {
	var words []string
	seen := map[string]bool{}
	for _, w := range strings.Fields(query) {
		if !seen[w] {
			seen[w] = true
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}

// result contains the figures of one engine.
type result struct {
	name, Version string
	Build         time.Duration
	Best          []time.Duration // least time by query
	Hits          [][]uint64      // IDs by query, the best first
	overlap       float64
	least         ratios
}

// ratios are minimum ratios of search times to the search times of crabmem.
type ratios struct {
	p50, p99    float64
	frequentP50 float64 // of queries with the most frequent words; 0: no minimum
}

// times are the search times of one engine.
type times struct{ p50, p99, frequentP50, frequentP99, empty time.Duration }

func timesOf(best []time.Duration) times {
	n := len(best) - emptyQueries
	m := max(n-frequentQueries, 1)
	usual, frequent := best[:m], best[m:n]
	if len(frequent) == 0 {
		frequent = usual // only tests
	}
	return times{measure.Percentile(usual, 50), measure.Percentile(usual, 99),
		measure.Percentile(frequent, 50), measure.Percentile(frequent, 99), measure.Percentile(best[n:], 0)}
}

// table prints the figures of all engines, crabmem and the prototype first, and the
// gates.
func table(l *measure.Limits, results []result) {
	tw := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "engine\tversion\tsearch p50\tratio\tsearch p99\tratio\tfrequent p50\tratio\tfrequent p99\tratio\tempty query\tbuild CPU\tratio\toverlap@10\t")
	all := make([]times, len(results))
	for i, r := range results {
		t := timesOf(r.Best)
		all[i] = t
		us := func(d time.Duration) string { return fmt.Sprintf("%.1f µs", measure.Micros(d)) }
		fmt.Fprintf(tw, "%s\t%s\t%s\t%.2f\t%s\t%.2f\t%s\t%.2f\t%s\t%.2f\t%s\t%.2f s\t%.2f\t%.3f\t\n", r.name, r.Version,
			us(t.p50), measure.Ratio(t.p50, all[0].p50), us(t.p99), measure.Ratio(t.p99, all[0].p99),
			us(t.frequentP50), measure.Ratio(t.frequentP50, all[0].frequentP50), us(t.frequentP99), measure.Ratio(t.frequentP99, all[0].frequentP99),
			us(t.empty), r.Build.Seconds(), measure.Ratio(r.Build, results[0].Build), r.overlap)
	}
	tw.Flush()
	fmt.Println()
	l.Most("search p50 relative to the prototype", measure.Ratio(all[0].p50, all[1].p50), 1.15, "")
	for i, r := range results[2:] {
		t := all[i+2]
		l.Least("search p50 against "+r.name, measure.Ratio(t.p50, all[0].p50), r.least.p50, "")
		l.Least("search p99 against "+r.name, measure.Ratio(t.p99, all[0].p99), r.least.p99, "")
		if r.least.frequentP50 > 0 {
			l.Least("search of frequent words p50 against "+r.name, measure.Ratio(t.frequentP50, all[0].frequentP50), r.least.frequentP50, "")
		}
		if strings.HasPrefix(r.name, "tantivy") {
			l.Most("search p50 of the prototype relative to "+r.name, measure.Ratio(all[1].p50, t.p50), 0.30, "")
		}
	}
}
