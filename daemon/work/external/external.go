// Package external runs workers of the configuration: programs that do the tasks of
// agents. A worker speaks the Agent Client Protocol (ACP), or it reads the task from
// standard input and writes the result to standard output. All that it writes is bounded.
package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"crabmem/bm25/clip"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/process"
	"crabmem/daemon/tool"
	"crabmem/daemon/work"
	"crabmem/sessionlog/record"

	"golang.org/x/time/rate"
)

const (
	maxStatus   = 256             // bytes
	maxError    = 1 << 10         // bytes of the text of an error
	maxTail     = 2 << 10         // bytes of standard error in an outcome
	maxLine     = 4 << 10         // bytes of a line of standard error; the rest is dropped
	maxOutput   = 64 << 20        // bytes of standard output, with the protocol exec
	grace       = 2 * time.Second // to exit after the task, and again after SIGTERM
	cancelGrace = 5 * time.Second // to end after a cancel
)

// Input is a task.
type Input struct {
	Task    string
	Dir     string // absolute; "" = the directory of the worker
	Session string // of an earlier run, to continue it; "" = a new session
	Version string // of crabmem
}

// Callbacks receive what a worker reports. Each may be nil. They are not called
// concurrently, and not after [Run] returns.
type Callbacks struct {
	Status  func(text string) // one line of at most 256 bytes; 10 lines, and then one a second
	Session func(id string)   // before the task is sent, if a later run can continue the session
}

// Outcome is the end of a run: a status that running work can change to, and a text of at
// most record.MaxResult bytes of valid UTF-8, which is partial after a failure.
type Outcome struct {
	work.Status
	Text string
}

// failure is an error with the reason of a failed state.
type failure struct{ reason, text string }

func (f *failure) Error() string { return f.text }

var (
	errTimeout = &failure{work.Timeout, "its time limit is exceeded"}
	errIdle    = &failure{work.Stalled, "no output until its idle time limit"}

	done = work.Status{State: record.Done, Reason: work.Signaled}
)

// run is the state of a [Run].
type run struct {
	*config.ExternalWorker
	in   Input
	on   Callbacks
	rate *rate.Limiter // of statuses
	idle *time.Timer   // nil = no limit
	text *tool.Capture // of the result
	size int           // of the text before it was cut
	tail string        // of standard error
}

// Run runs a worker until it has done the task, fails, or ctx ends. When ctx ends, Run
// cancels the task, and kills the worker's process group 5 s later; the reason is then
// [work.Cancelled]. When Run returns, the group has ended.
func Run(ctx context.Context, w *config.ExternalWorker, in Input, on Callbacks) Outcome {
	r := newRun(w, in, on)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if w.Timeout > 0 {
		defer time.AfterFunc(w.Timeout, func() { cancel(errTimeout) }).Stop()
	}
	if w.IdleTimeout > 0 {
		r.idle = time.AfterFunc(w.IdleTimeout, func() { cancel(errIdle) })
		defer r.idle.Stop()
	}
	status, err := r.start(ctx, cancel)
	if err != nil {
		return r.failed(err)
	}
	return Outcome{status, r.text.Text(record.MaxResult)}
}

func newRun(w *config.ExternalWorker, in Input, on Callbacks) *run {
	in.Dir = cmp.Or(in.Dir, w.Dir)
	return &run{ExternalWorker: w, in: in, on: on, rate: rate.NewLimiter(1, 10), text: tool.NewCapture(record.MaxResult)}
}

// start starts the worker, and ends it after the task.
func (r *run) start(ctx context.Context, cancel context.CancelCauseFunc) (work.Status, error) {
	if !filepath.IsAbs(r.in.Dir) || r.in.Session != "" && r.Protocol != config.ACP {
		return done, errors.New("a worker requires an absolute directory, and the protocol acp to continue a session")
	}
	var args []string
	for _, a := range r.Args {
		args = append(args, string(a))
	}
	p, err := process.Start(r.in.Dir, r.Variables(), r.Command, args...)
	if err != nil {
		return done, err
	}
	go func() { // ends with the process
		<-p.Exited
		time.AfterFunc(cancelGrace, p.Close) // another program may have its output open
	}()
	var pipes sync.WaitGroup
	pipes.Go(func() { r.diagnose(p.Err) })
	serve, wait := r.exec, grace
	if r.Protocol == config.ACP {
		serve = r.acp
	}
	status, err := serve(ctx, p, &pipes, cancel)
	switch err {
	case nil:
	case io.EOF:
		wait = grace / 10 // its output may end a little earlier
	default:
		wait = 0
	}
	p.In.Close()
	p.Stop(wait, wait)
	pipes.Wait()
	p.Close()
	if err == io.EOF {
		err = fmt.Errorf("it ended before its response: %w", cmp.Or(p.Status, errors.New("exit status 0")))
	}
	return status, err
}

// exec is the protocol exec.
func (r *run) exec(ctx context.Context, p *process.Process, pipes *sync.WaitGroup, cancel context.CancelCauseFunc) (work.Status, error) {
	pipes.Go(func() {
		io.WriteString(p.In, r.in.Task) //nolint:errcheck // a program need not read the task
		p.In.Close()
	})
	pipes.Go(func() {
		if _, err := io.CopyN(r, p.Out, maxOutput); err == nil {
			cancel(&failure{work.Errored, fmt.Sprintf("it wrote %d MiB", maxOutput>>20)})
		}
	})
	select {
	case <-p.Exited:
		return done, p.Status
	case <-ctx.Done():
		p.Stop(0, cancelGrace)
		return done, stopped(ctx)
	}
}

// Write adds a part of the result.
func (r *run) Write(b []byte) (int, error) {
	r.progress()
	r.size += len(b)
	return r.text.Write(b)
}

// diagnose reads standard error, whose lines are statuses with the protocol exec.
func (r *run) diagnose(diag io.Reader) {
	process.Lines(diag, maxLine, func(text string) {
		r.progress()
		r.tail += "\n" + strings.ToValidUTF8(text, "\uFFFD")
		r.tail = r.tail[max(0, len(r.tail)-maxTail):]
		if r.Protocol == config.Exec {
			r.status(text)
		}
	})
}

// progress restarts the idle time.
func (r *run) progress() {
	if r.idle != nil {
		r.idle.Reset(r.IdleTimeout)
	}
}

// status passes a status on.
func (r *run) status(text string) {
	if text = display.Short(display.OneLine(text), maxStatus); text != "" && r.on.Status != nil && r.rate.Allow() {
		r.on.Status(text)
	}
}

// stopped returns why ctx has ended.
func stopped(ctx context.Context) error {
	if f, ok := errors.AsType[*failure](context.Cause(ctx)); ok {
		return f
	}
	return &failure{work.Cancelled, "cancelled"}
}

// failed returns the outcome of an error: its text, the end of standard error after an
// error of the worker, and the text of the worker until then.
func (r *run) failed(err error) Outcome {
	f, ok := errors.AsType[*failure](err)
	if !ok {
		f = &failure{work.Errored, err.Error()}
	}
	text := display.Short(r.Name+": "+display.OneLine(f.text), maxError)
	if f.reason == work.Errored && r.tail != "" {
		text += "\n\nThe end of its standard error:\n" + strings.TrimSpace(strings.ToValidUTF8(r.tail, ""))
	}
	if r.size > 0 {
		text += "\n\nIts text until then:\n" + r.text.Text(record.MaxResult-maxError-maxTail-100)
	}
	return Outcome{work.Status{State: record.Failed, Reason: f.reason}, clip.Bytes(text, record.MaxResult)}
}
