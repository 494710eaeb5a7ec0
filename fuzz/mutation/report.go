package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// list prints the chosen mutants.
func (p *plan) list(w io.Writer) {
	for _, m := range p.chosen {
		fmt.Fprintf(w, "%s %s:%d %s: %s\n    - %s\n    + %s\n", m.ID(), m.File, m.Line, m.Func, m.Kind, m.Old, m.New)
	}
	p.cleanUp()
}

// report prints the survivors and a table, and reports whether the limits hold.
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
			counts[n][r.Status]++
			counts[n][""]++
		}
		if len(p.only) > 0 {
			fmt.Fprintf(w, "%s %s by %s, reached by %d tests\n%s\n", r.ID, r.Status, r.By, r.Tests, r.out)
		}
		if r.Status == survived || r.Status == unreached {
			fmt.Fprintf(w, "%s %s:%d %s: %s, %s\n    - %s\n    + %s\n", r.ID, r.File, r.Line, r.Func, r.Kind, r.Status, r.Old, r.New)
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "mutants\tkilled\tsurvived\tnot reached\tequivalent\t  package\t")
	for _, name := range append(order, "all") {
		c := counts[name]
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%d\t  %s\t\n", c[""], c[killed], c[survived], c[unreached], c[listed], name)
	}
	t.Flush()
	for _, e := range p.stale {
		fmt.Fprintf(w, "equivalents.json: no such mutant: %s %s\n    - %s\n    + %s\n", e.File, e.Func, e.Old, e.New)
	}
	unreviewed := 0
	for _, e := range p.equivalents {
		if !e.Reviewed {
			unreviewed++
		}
	}
	if unreviewed > 0 {
		fmt.Fprintf(w, "equivalents.json: %d of %d entries are not reviewed\n", unreviewed, len(p.equivalents))
	}
	c := counts["all"]
	lost := c[survived] + c[unreached]
	fmt.Fprintf(w, "%.1f %% survive, at most %d %%; %.1f %% are listed as equivalent, at most %d %%\n",
		percent(lost, c[""]), p.max, percent(c[listed], c[""]), maxEquivalents)
	few := c[""] < enoughMutants || c[listed]*100 <= maxEquivalents*c[""]
	return lost*100 <= p.max*c[""] && few && len(p.stale) == 0
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }
