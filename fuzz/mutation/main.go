// Mutation changes one place of the program at a time and checks that a test fails.
// It lists the changes that no test detects. It is a nightly tool, not a gate: a seed
// chooses the mutants at random, and some mutants are equivalent.
//
//	go run ./fuzz/mutation
//	go run ./fuzz/mutation -own -short -packages ./bm25,./daemon/wire -n 30 -seed 1
//	go run ./fuzz/mutation -packages ./crmem -files crmem/purge.go,crmem/prune.go
//	go run ./fuzz/mutation -packages ./bm25 -only 0123456789
//
// Mutation compiles all chosen mutants together. An environment variable selects
// the active mutant of a test process. The tools gremlins, ooze, and go-mutesting
// compile the program once per mutant, which takes longer than the tests. They do
// not select tests by coverage.
//
// The seed orders all mutants, and the first n run. First, each top-level test runs
// alone without a mutant and records the mutants that it reaches. For each mutant,
// the tests that reach it then run, fast ones first, until one fails. These are the
// tests of the changed packages, and then, for each survivor, those of the packages
// that import its package. A mutant that no test reaches survives. A test that exceeds
// its timeout kills a mutant.
//
// The exit code is 1 if more mutants survive than -max allows, and 2 on an error.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"crabmem/fuzz/mutation/weave"
)

type config struct {
	root     string
	patterns []string // packages to change
	n        int
	seed     uint64
	files    []string // change only these files; empty: all
	only     []string
	skip     string        // regular expression of test names
	timeout  time.Duration // minimum timeout of a test process
	procs    int
	own      bool
	short    bool
	max      int // maximum percentage of survivors
	progress func(format string, args ...any)
}

func main() {
	c := config{progress: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}
	flag.IntVar(&c.n, "n", 300, "run this many `mutants`")
	flag.Uint64Var(&c.seed, "seed", 0, "choose the mutants with this `seed` (default random)")
	packages := flag.String("packages", "", "change only these comma-separated `packages`, such as ./bm25 (default all packages of the programs)")
	files := flag.String("files", "", "change only these comma-separated `files`, such as crmem/purge.go")
	only := flag.String("only", "", "run only the mutants with these comma-separated `IDs`")
	flag.DurationVar(&c.timeout, "timeout", 30*time.Second, "minimum `timeout` of a test; the timeout is 10 times the duration without a mutant")
	flag.IntVar(&c.procs, "procs", 2, "run this `number` of test processes concurrently")
	flag.BoolVar(&c.short, "short", false, "run the tests with -test.short")
	flag.IntVar(&c.max, "max", 6, "accept this `percentage` of survivors")
	// TestMutants checks the sources and not the program.
	flag.StringVar(&c.skip, "skip", "^TestMutants$", "do not run the tests that match this `regexp`")
	flag.BoolVar(&c.own, "own", false, "run only the tests of the changed packages")
	list := flag.Bool("list", false, "list the chosen mutants without running them")
	flag.Parse()
	if c.seed == 0 {
		c.seed = 1 + rand.Uint64N(1e9)
	}
	var err error
	if c.root, err = moduleRoot(); err != nil {
		fail(err)
	}
	if *files != "" {
		c.files = strings.Split(*files, ",")
	}
	if *only != "" {
		c.only = strings.Split(*only, ",")
	}
	if *packages != "" {
		c.patterns = strings.Split(*packages, ",")
	} else if c.patterns, err = programPackages(c.root); err != nil {
		fail(err)
	}
	p, err := newPlan(&c)
	if err != nil {
		fail(err)
	}
	if *list {
		p.list(os.Stdout)
		p.cleanUp()
		return
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-stop
		p.cleanUp()
		os.Exit(2)
	}()
	results, err := p.run()
	p.cleanUp()
	if err != nil {
		fail(err)
	}
	if !p.report(os.Stdout, results) {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "mutation:", err)
	os.Exit(2)
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// plan contains the chosen mutants with their ids.
type plan struct {
	config
	packages []*weave.Package
	all      int // number of mutants in the packages and files
	chosen   []*weave.Mutant
	ids      map[*weave.Mutant]int
	tmp      string
	started  atomic.Int64 // number of test processes
}

// newPlan finds the packages' mutants and chooses those to run.
func newPlan(c *config) (*plan, error) {
	p := &plan{config: *c, ids: map[*weave.Mutant]int{}}
	var err error
	if p.packages, err = weave.Load(c.root, c.patterns...); err != nil {
		return nil, err
	}
	var all []*weave.Mutant
	for _, pkg := range p.packages {
		found, err := pkg.Find()
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if all, err = inFiles(all, c.files); err != nil {
		return nil, err
	}
	p.all = len(all)
	p.choose(all)
	for _, id := range c.only {
		if !slices.ContainsFunc(p.chosen, func(m *weave.Mutant) bool { return m.ID() == id }) {
			return nil, fmt.Errorf("find mutant %s: no such mutant in the chosen packages", id)
		}
	}
	for i, m := range p.chosen {
		p.ids[m] = i + 1
	}
	if p.tmp, err = os.MkdirTemp("", "m"); err != nil {
		return nil, err
	}
	return p, os.Chmod(p.tmp, 0o755) // some tests run their binary as another user
}

// inFiles returns the mutants in the files, or all if files is empty.
func inFiles(all []*weave.Mutant, files []string) ([]*weave.Mutant, error) {
	for _, name := range files {
		if !slices.ContainsFunc(all, func(m *weave.Mutant) bool { return m.File == name }) {
			return nil, fmt.Errorf("find file %s: no mutant in the chosen packages", name)
		}
	}
	return slices.DeleteFunc(all, func(m *weave.Mutant) bool { return len(files) > 0 && !slices.Contains(files, m.File) }), nil
}

func (p *plan) choose(all []*weave.Mutant) {
	if len(p.only) > 0 {
		for _, m := range all {
			if slices.Contains(p.only, m.ID()) {
				p.chosen = append(p.chosen, m)
			}
		}
		return
	}
	rank := map[*weave.Mutant]string{}
	for _, m := range all {
		rank[m] = m.Rank(p.seed)
	}
	slices.SortFunc(all, func(a, b *weave.Mutant) int { return strings.Compare(rank[a], rank[b]) })
	p.chosen = all[:min(p.n, len(all))]
	slices.SortStableFunc(p.chosen, func(a, b *weave.Mutant) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line)
	})
}

// cleanUp kills the processes of the run and removes its temporary files.
func (p *plan) cleanUp() {
	killMarked([]byte(envRun + "=" + p.tmp + string(filepath.Separator)))
	removeAll(p.tmp)
}

// list prints the chosen mutants.
func (p *plan) list(w io.Writer) {
	for _, m := range p.chosen {
		fmt.Fprintf(w, "%s %s:%d %s: %s\n    - %s\n    + %s\n", m.ID(), m.File, m.Line, m.Func, m.Kind, m.Old, m.New)
	}
}

// report prints the survivors and a table. It reports whether -max allows the
// survivors.
func (p *plan) report(w io.Writer, results []*result) bool {
	counts := map[string]map[status]int{"all": {}}
	order := []string{}
	for _, r := range results {
		name := strings.TrimPrefix(r.Package, "crabmem/")
		if counts[name] == nil {
			counts[name] = map[status]int{}
			order = append(order, name)
		}
		for _, n := range []string{name, "all"} {
			counts[n][r.status]++
			counts[n][""]++
		}
		if len(p.only) > 0 {
			fmt.Fprintf(w, "%s %s by %s, reached by %d tests\n%s\n", r.ID(), r.status, r.by, r.tests, r.out)
		}
		if r.status == survived || r.status == unreached {
			fmt.Fprintf(w, "%s %s:%d %s: %s, %s\n    - %s\n    + %s\n", r.ID(), r.File, r.Line, r.Func, r.Kind, r.status, r.Old, r.New)
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "mutants\tkilled\tsurvived\tnot reached\t  package\t")
	for _, name := range append(order, "all") {
		c := counts[name]
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t  %s\t\n", c[""], c[killed], c[survived], c[unreached], name)
	}
	t.Flush()
	c := counts["all"]
	lost := c[survived] + c[unreached]
	fmt.Fprintf(w, "seed %d: %d of %d mutants survive (%.1f %%), limit %d %%\n", p.seed, lost, c[""], 100*float64(lost)/float64(max(c[""], 1)), p.max)
	return lost*100 <= p.max*c[""]
}
