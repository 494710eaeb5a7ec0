// Command crabmem stores, searches, and checks the memory of AI agents: notes
// and archives in one crash-safe file.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
	_ "time/tzdata" // time zones for schedules, on machines without a database

	"crabmem/daemon/errtable"
	"crabmem/daemon/sandbox"
)

func main() {
	sandbox.Main()
	delayCollection()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Targets of the garbage collector: until its first collection, but no longer than
// firstTime, and later. With the first, that collection begins at 64 MiB, and most commands
// end before. A process that runs permanently uses less memory with the second.
const (
	firstPercent = 1600
	firstTime    = time.Second
	usualPercent = 100
)

// delayCollection delays the first collection of the process, unless GOGC sets its target.
func delayCollection() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(firstPercent)
		runtime.AddCleanup(new([64]byte), endDelay, usualPercent)
		time.AfterFunc(firstTime, func() { endDelay(usualPercent) })
	}
}

// endDelay sets the target percent, unless the process has chosen one meanwhile, as the
// daemon does.
func endDelay(percent int) {
	if p := debug.SetGCPercent(percent); p != firstPercent {
		debug.SetGCPercent(p)
	}
}

// grace limits the wait for a writing command to end after a signal. A shorter
// wait loses no acknowledged write, but leaves a temporary file that the next
// writer removes.
const grace = 2 * time.Second

// run executes one command line and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)

	c := newApp(stdin, stdout, stderr)
	done := make(chan error, 1)
	// The goroutine ends with the command, or with the process when a signal
	// comes while the command waits for something.
	go func() { done <- c.execute(ctx, args) }()
	for {
		select {
		case err := <-done:
			return c.report(err)
		case sig := <-signals:
			if sig == os.Interrupt && c.editing.Load() {
				continue // it was typed into the editor
			}
			stop := &interrupted{sig}
			cancel(stop)
			if err, ended := c.awaitShutdown(done, signals); ended && c.serving.Load() {
				return c.report(err) // this is how a daemon is ended
			}
			if t := c.terminal.Load(); t != nil {
				t.Restore()
			}
			if restore := c.hiddenInput.Load(); restore != nil {
				(*restore)()
			}
			return c.report(stop)
		}
	}
}

// awaitShutdown returns when the command has ended, when it only waits, at a
// second signal, or after the grace period, which a serving command sets
// itself.
func (c *app) awaitShutdown(done <-chan error, signals <-chan os.Signal) (err error, ended bool) {
	end := time.After(grace)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err, true
		case <-signals:
			return nil, false
		case <-end:
			if !c.serving.Load() {
				return nil, false
			}
		case <-tick.C:
			if c.Waiting.Load() {
				return nil, false
			}
		}
	}
}

// interrupted is the end by a signal.
type interrupted struct{ sig os.Signal }

func (e *interrupted) Error() string { return fmt.Sprintf("stopped by signal: %s", e.sig) }

// Is makes an interrupted a context.Canceled: it is the cause of that.
func (e *interrupted) Is(target error) bool { return target == context.Canceled }

// Row returns the row of the error for errtable.
func (e *interrupted) Row() errtable.Row {
	if e.sig == syscall.SIGTERM {
		return errtable.Row{Kind: "interrupted", Exit: 143}
	}
	return errtable.Row{Kind: "interrupted", Exit: 130}
}
