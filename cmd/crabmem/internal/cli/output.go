package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// PrintJSON writes v as the answer of the command.
func (c *Streams) PrintJSON(v any) error {
	enc := json.NewEncoder(c.Out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Say writes a line unless --quiet or --json is set.
func (c *Streams) Say(format string, args ...any) {
	if !c.Quiet && !c.JSON {
		fmt.Fprintf(c.Out, format+"\n", args...)
	}
}

// Table writes rows in columns; the first row is the head. right selects the
// right-aligned columns.
func (c *Streams) Table(w io.Writer, rows [][]string, right string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Columns(cell))
		}
	}
	for n, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-Columns(cell))
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
			line = c.Dim(line)
		}
		io.WriteString(w, line+"\n")
	}
}
