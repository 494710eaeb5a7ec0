// Package cli contains the streams, flags, exit codes, errors, and text output
// that all commands share.
package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"crabmem/daemon/display"

	"golang.org/x/term"
)

// Fit cuts s to at most n columns, with a mark where it was cut.
func Fit(s string, n int) string {
	if n <= 0 || Columns(s) <= n {
		return s
	}
	w := 0
	for i, r := range s {
		if w += RuneColumns(r); w > n-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// FirstLine returns the first line of s that is not blank.
func FirstLine(s string) string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			return display.Printable(line)
		}
	}
	return ""
}

// PrintableLine is Printable for a line of a text, which keeps its tabs.
func PrintableLine(l string) string {
	parts := strings.Split(strings.TrimSuffix(l, "\r"), "\t")
	for k := range parts {
		parts[k] = display.Printable(parts[k])
	}
	return strings.Join(parts, "\t")
}

// Streams are the standard streams of a command, and the flags that select the
// output.
type Streams struct {
	Stdin  io.Reader
	Out    *bufio.Writer // to Stdout; flushed once, at the end of a command that worked
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string

	JSON    bool
	Quiet   bool
	NoColor bool

	WarnLog *slog.Logger // where warnings go while a server runs; nil: to standard error

	progress atomic.Pointer[Progress] // the latest one

	warnMu   sync.Mutex // a signal may read them while the command runs
	warnings []string

	// Waiting is true while the command only waits, for its input, a lock or
	// an editor: it can be ended at once.
	Waiting atomic.Bool
}

// NewStreams returns streams with the environment of the process.
func NewStreams(stdin io.Reader, stdout, stderr io.Writer) *Streams {
	return &Streams{
		Stdin: stdin, Stdout: stdout, Stderr: stderr,
		Out:    bufio.NewWriterSize(answers{stdout}, 1<<16),
		Getenv: os.Getenv,
	}
}

// answers writes to standard output. An error there does not affect the store:
// completed changes stay.
type answers struct{ w io.Writer }

func (a answers) Write(p []byte) (int, error) {
	n, err := a.w.Write(p)
	if err != nil {
		f := &Failure{Code: ExitFailure, Kind: "output", Message: err.Error(), Err: err,
			Remedy: "redirect standard output to a disk with free space; the command's changes remain in effect"}
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			f.Path = e.Path
		}
		err = f
	}
	return n, err
}

// Wait runs f, which only waits and may be abandoned when a signal comes.
func (c *Streams) Wait(ctx context.Context, f func() error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c.Waiting.Store(true)
	defer c.Waiting.Store(false)
	return f()
}

// ReadInput reads standard input to its end. More than max bytes is an error.
func (c *Streams) ReadInput(ctx context.Context, max int64) (string, error) {
	var b []byte
	err := c.Wait(ctx, func() error {
		c.Prompt()
		var err error
		b, err = io.ReadAll(io.LimitReader(c.Stdin, max+1))
		return err
	})
	if err == nil && int64(len(b)) > max {
		err = Usagef("standard input has more than %s", display.Size(max))
	}
	return string(b), err
}

// Prompt marks that the command waits for the user.
func (c *Streams) Prompt() {
	if c.IsTerminal(c.Stdin) {
		c.Note("reading from the terminal; press Ctrl+D to end the input")
	}
}

// IsTerminal reports whether a stream is a terminal.
func (c *Streams) IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Color reports whether human output may be coloured.
func (c *Streams) Color() bool {
	return !c.NoColor && c.Getenv("NO_COLOR") == "" && c.Getenv("TERM") != "dumb" && c.IsTerminal(c.Stdout)
}

// Bold returns s in bold where Color allows it.
func (c *Streams) Bold(s string) string { return c.SGR("1", s) }

// Dim returns s in faint where Color allows it.
func (c *Streams) Dim(s string) string { return c.SGR("2", s) }

// SGR returns s in the style of a code where Color allows it.
func (c *Streams) SGR(code, s string) string {
	if !c.Color() || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Width returns the columns of the terminal, or 0 if standard output is not a
// terminal.
func (c *Streams) Width() int {
	f, ok := c.Stdout.(*os.File)
	if !ok {
		return 0
	}
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return w
}

// Note writes one line of diagnostics unless --quiet is set.
func (c *Streams) Note(s string) {
	if !c.Quiet && !c.JSON {
		c.ClearProgress()
		io.WriteString(c.Stderr, strings.TrimRight(s, "\n")+"\n")
	}
}

// Warn writes one line even with --quiet: the command continued in spite of a
// problem. With --json an error is the only line on standard error, and
// contains the warnings before it.
func (c *Streams) Warn(s string) {
	s = strings.TrimRight(s, "\n")
	if c.WarnLog != nil {
		c.WarnLog.Warn(s)
		return
	}
	if c.JSON {
		c.warnMu.Lock()
		defer c.warnMu.Unlock()
		c.warnings = append(c.warnings, s)
		return
	}
	c.ClearProgress()
	io.WriteString(c.Stderr, "warning: "+display.Printable(s)+"\n")
}

// TakeWarnings returns the warnings that were held back.
func (c *Streams) TakeWarnings() []string {
	c.warnMu.Lock()
	defer c.warnMu.Unlock()
	w := c.warnings
	c.warnings = nil
	return w
}

// Text returns content for display. On a terminal it contains no control
// characters.
func (c *Streams) Text(s string) string {
	if !c.IsTerminal(c.Stdout) {
		return s
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = PrintableLine(l)
	}
	return strings.Join(lines, "\n")
}

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
