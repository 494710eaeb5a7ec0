package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon"
	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/errtable"
)

// running is the row of an error that only this program returns.
var running = errtable.Row{Err: daemon.ErrRunning, Kind: "running", HTTP: http.StatusConflict, Exit: cli.ExitConflict,
	Fix: "run crabmem daemon stop, or crabmem daemon status for details"}

// classify returns an error as a failure with the exit code, the place and the
// fix of its row in errtable.
func classify(err error) *cli.Failure {
	if f, ok := errors.AsType[*cli.Failure](err); ok && f == err {
		return f
	}
	f := &cli.Failure{Code: cli.ExitFailure, Kind: errtable.Failed, Message: err.Error(), Err: err}
	if in, ok := errors.AsType[*cli.Failure](err); ok {
		f.Code, f.Kind, f.Path, f.Offset, f.Remedy, f.More = in.Code, in.Kind, in.Path, in.Offset, in.Remedy, in.More
		return f
	}
	if in, ok := errors.AsType[*interrupted](err); ok {
		f.Code, f.Kind, f.Message = in.Row().Exit, in.Row().Kind, in.Error()
		return f
	}
	row := errtable.Find(err, running)
	f.Code, f.Kind, f.Remedy = row.Exit, row.Kind, row.Fix
	f.Path, f.Offset = errtable.Locate(err)
	if e, ok := errors.AsType[*client.Error](err); ok {
		describe(f, e)
	} else if ps, ok := errors.AsType[config.Problems](err); ok && len(ps) > 0 {
		describeConfig(f, ps)
	}
	if f.Remedy == "" {
		f.Remedy = errtable.FixFor(f.Kind)
	}
	return f
}

// report writes err in the form that the flags select, and returns the exit
// code.
func (c *app) report(err error) int {
	c.EndProgress()
	if err == nil {
		for _, w := range c.TakeWarnings() {
			io.WriteString(c.Stderr, "warning: "+display.Printable(w)+"\n")
		}
		return 0
	}
	if code, ok := errors.AsType[cli.SilentError](err); ok {
		return int(code)
	}
	f := classify(err)
	if c.JSON {
		f.Warnings = c.TakeWarnings()
		line, err := display.JSON(failed{*f})
		if err != nil {
			line = []byte(`{"error":{"code":1,"kind":"failed","message":"the error cannot be encoded","path":"","offset":null,"remedy":""}}`)
		}
		c.Stderr.Write(append(line, '\n'))
		return f.Code
	}
	// A message lists problems on indented lines, one per line.
	lines := strings.Split(f.Message, "\n  ")
	for i, l := range lines {
		lines[i] = display.Printable(l)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "error: %s\n", strings.Join(lines, "\n  "))
	if f.Remedy != "" {
		fmt.Fprintf(&b, "try: %s\n", display.Printable(f.Remedy))
	}
	io.WriteString(c.Stderr, b.String())
	return f.Code
}

// failed is a line on standard error under --json.
type failed struct {
	Error cli.Failure `json:"error"`
}
