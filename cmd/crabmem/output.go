package main

import (
	"fmt"
	"io"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
)

// printJSON writes v as the answer of the command.
func (c *app) printJSON(v any) error {
	b, err := cli.EncodeJSON(v)
	if err != nil {
		return err
	}
	_, err = c.out.Write(b)
	return err
}

// say writes a line for a person that --quiet and --json leave out.
func (c *app) say(format string, args ...any) {
	if !c.quiet && !c.json {
		fmt.Fprintf(c.out, format+"\n", args...)
	}
}

// table writes rows in columns; the first row is the head. right says which
// columns hold numbers.
func (c *app) table(w io.Writer, rows [][]string, right string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], cli.Columns(cell))
		}
	}
	for n, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-cli.Columns(cell))
			switch {
			case strings.ContainsRune(right, rune('0'+i)):
				b.WriteString(pad + cell)
			case i == len(row)-1:
				b.WriteString(cell)
			default:
				b.WriteString(cell + pad)
			}
			if i < len(row)-1 {
				b.WriteString("  ")
			}
		}
		line := b.String()
		if n == 0 {
			line = c.dim(line)
		}
		io.WriteString(w, line+"\n")
	}
}
