package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/recalleval"
	"crabmem/crmem/vfs"
	"crabmem/daemon/display"
)

// write writes the files that the flags name.
func (b *bench) write() error {
	if b.f.save != "" {
		err := vfs.Replace(b.c.fs, b.f.save, 0o644, func(w io.Writer) error { return recalleval.Save(w, b.results) })
		if err != nil {
			return err
		}
	}
	if b.f.perQuery == "" {
		return nil
	}
	return vfs.Replace(b.c.fs, b.f.perQuery, 0o644, func(w io.Writer) error {
		for _, r := range b.results {
			if err := recalleval.WriteAnswers(w, r); err != nil {
				return err
			}
		}
		return nil
	})
}

// benchAnswer is a line of bench recall --json.
type benchAnswer struct {
	recalleval.Result
	Compare *recalleval.Comparison `json:"compare,omitempty"`
	Fit     *recalleval.Fit        `json:"fit,omitempty"` // of bench recall --fit; compare has the effect
}

func (b *bench) printJSON() error {
	for _, r := range b.results {
		if err := b.c.PrintJSON(benchAnswer{*r, b.comparisons[r.Set], b.fit}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) text() {
	c := b.c
	quality := [][]string{append([]string{"SET", "DOCS", "QUERIES"}, upper(recalleval.Metrics[:])...)}
	cost := [][]string{{"SET", "MODE", "ANALYZER", "INDEX CPU", "WALL", "DOCS/CPU-S", "MB/CPU-S", "QUERY P50", "P99", "MAX", "INDEX", "MEMORY"}}
	for _, r := range b.results {
		means := []string{display.Printable(r.Set), fmt.Sprint(r.Docs), fmt.Sprint(r.Queries)}
		half := []string{"", "", "95%"}
		for i, v := range r.Values() {
			ci := r.Intervals[recalleval.Metrics[i]]
			means = append(means, fmt.Sprintf("%.3f", v))
			half = append(half, fmt.Sprintf("±%.3f", (ci[1]-ci[0])/2))
		}
		quality = append(quality, means, half)
		for _, k := range r.Categories {
			row := []string{"  " + display.Printable(cli.Fit(k.Category, 30)), "", fmt.Sprint(k.Queries)}
			for _, v := range k.Values() {
				row = append(row, fmt.Sprintf("%.3f", v))
			}
			quality = append(quality, row)
		}
		if k := r.Cost; k != nil {
			cost = append(cost, []string{display.Printable(r.Set), string(r.Mode), r.Analyzer, seconds(k.IndexCPU), seconds(k.IndexWall),
				rate(float64(r.Docs), k.IndexCPU), rate(float64(k.TextBytes)/1e6, k.IndexCPU), micros(k.QueryP50), micros(k.QueryP99), micros(k.QueryMax),
				display.Size(k.IndexBytes), display.Size(max(k.HeapBytes, 0))})
		}
	}
	c.Table(c.Out, quality, "123456789:")
	if len(cost) > 1 {
		c.Out.WriteString("\n")
		c.Table(c.Out, cost, "3456789:;")
	}
	for _, r := range b.results {
		b.oddities(r)
	}
	for _, r := range b.results {
		if k := b.comparisons[r.Set]; k != nil {
			b.comparison(k)
		}
	}
	if f := b.fit; f != nil {
		c.Say("embedder.weight is %g, was %g: selected by %d questions; the figures are of %d others", f.Weight, f.Old, f.Queries, b.results[0].Queries)
	}
}

// oddities prints the parts of a set that do not count or do not match.
func (b *bench) oddities(r *recalleval.Result) {
	say := func(n int, one, many, what string) {
		if n > 0 {
			fmt.Fprintf(b.c.Out, "%s: %s %s\n", display.Printable(r.Set), display.Plural(n, one, many), what)
		}
	}
	say(r.LeftOut, "query", "queries", "omitted: no relevant document")
	say(r.UnknownQueries, "query", "queries", "judged, but not in "+recalleval.Queries)
	say(r.UnknownDocs, "judgment", "judgments", "of missing documents")
	say(r.Ungrouped, "query", "queries", "without a group searched everything")
}

// mostMoved is the number of queries to print that lost most, and that gained
// most.
const mostMoved = 10

func (b *bench) comparison(k *recalleval.Comparison) {
	c := b.c
	fmt.Fprintf(c.Out, "\n%s: %s, %s against %s, %s; %s", display.Printable(k.Set), k.New.Analyzer, k.New.Mode, k.Old.Analyzer, k.Old.Mode,
		display.Plural(k.Queries, "query", "queries"))
	if k.OnlyOld+k.OnlyNew > 0 {
		fmt.Fprintf(c.Out, ", %d only in the old run, %d only in this run", k.OnlyOld, k.OnlyNew)
	}
	c.Out.WriteString("\n")
	if k.Queries == 0 {
		return
	}
	rows := [][]string{{"MEASURE", "OLD", "NEW", "DIFFERENCE", "95%", "P", "WON", "LOST"}}
	for _, m := range k.Changes {
		rows = append(rows, []string{m.Metric, fmt.Sprintf("%.3f", m.Old), fmt.Sprintf("%.3f", m.New), fmt.Sprintf("%+.4f", m.Difference),
			fmt.Sprintf("%+.4f to %+.4f", m.Interval[0], m.Interval[1]), fmt.Sprintf("%.4f", m.P), fmt.Sprint(m.Won), fmt.Sprint(m.Lost)})
	}
	c.Table(c.Out, rows, "1234567")
	var lost, gained []recalleval.Move
	for _, m := range k.Moved {
		if m.NewNDCG < m.OldNDCG {
			lost = append(lost, m)
		} else if m.NewNDCG > m.OldNDCG {
			gained = append(gained, m)
		}
	}
	slices.Reverse(gained) // the best first
	b.moves("lost", lost)
	b.moves("gained", gained)
}

// moves prints the queries that moved most, by nDCG@10.
func (b *bench) moves(what string, moves []recalleval.Move) {
	if len(moves) == 0 {
		return
	}
	fmt.Fprintf(b.c.Out, "%s %s nDCG@10", display.Plural(len(moves), "query", "queries"), what)
	if len(moves) > mostMoved {
		fmt.Fprintf(b.c.Out, ", the first %d of them", mostMoved)
		moves = moves[:mostMoved]
	}
	b.c.Out.WriteString("\n")
	rank := func(n int) string {
		if n == 0 {
			return "-"
		}
		return fmt.Sprint(n)
	}
	rows := [][]string{{"OLD", "NEW", "RANK", "NOW", "QUERY", "TEXT"}}
	for _, m := range moves {
		rows = append(rows, []string{fmt.Sprintf("%.3f", m.OldNDCG), fmt.Sprintf("%.3f", m.NewNDCG), rank(m.OldRank), rank(m.NewRank),
			display.Printable(cli.Fit(m.Query, 30)), cli.FirstLine(cli.Fit(m.Text, 80))})
	}
	b.c.Table(b.c.Out, rows, "0123")
}

func upper(names []string) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = strings.ToUpper(n)
	}
	return list
}

func seconds(s float64) string { return fmt.Sprintf("%.3f s", s) }

// rate is a number a second, with three figures or more.
func rate(n, secs float64) string {
	if secs <= 0 {
		return "-"
	}
	if n /= secs; n < 100 {
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

func micros(us float64) string {
	d := time.Duration(us * float64(time.Microsecond))
	if d >= 10*time.Millisecond {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}
