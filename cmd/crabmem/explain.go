package main

import (
	"fmt"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/recall"
)

func (c *app) explainText(x recall.Explanation) {
	rows := [][]string{{"    term", "tf", "df", "idf", "norm", "score"}}
	if x.Read {
		rows[0] = append(rows[0], "early", "exact", "first in")
	}
	for _, t := range x.Terms {
		row := []string{
			"    " + cli.Printable(t.Term), fmt.Sprint(t.TF), fmt.Sprint(t.DF),
			fmt.Sprintf("%.3f", t.IDF*t.Weight), fmt.Sprintf("%.3f", t.LengthNorm), fmt.Sprintf("%.3f", t.Contribution),
		}
		if x.Read {
			where := ""
			if t.Place > 0 {
				where = fmt.Sprintf("%s, word %d", t.Field, t.Place)
			}
			row = append(row, fmt.Sprintf("%.3f", t.Early), fmt.Sprintf("%.3f", t.Exact), where)
		}
		rows = append(rows, row)
	}
	c.Table(c.Out, rows, "1234567")
	for _, n := range x.Near {
		fmt.Fprintf(c.Out, "    near: %s, %s at distance %d: %.3f\n", cli.Printable(n.Terms[0]), cli.Printable(n.Terms[1]), n.Distance, n.Contribution)
	}
	if x.Named > 0 {
		fmt.Fprintf(c.Out, "    the query is its name: %.3f\n", x.Named)
	}
	fmt.Fprintf(c.Out, "    %s\n", c.Dim(fmt.Sprintf("score %.3f; %d terms here, %.1f on average in %s",
		x.Score, x.Len, x.AvgLen, cli.Plural(x.Docs, "entry", "entries"))))
}
