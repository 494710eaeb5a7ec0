// Package work keeps the work that sessions give to other sessions: spawn, outcome,
// message, delivery, and recovery. All of it is in the lines of two session files
// (sessionlog/FORMAT.md, "Work"), so that each start has one outcome and each outcome is
// delivered once, also after a crash. The package starts no goroutine and runs no agent.
package work

import (
	"errors"
	"fmt"
	"slices"

	"crabmem/sessionlog/record"
)

// The reasons of a state.
const (
	Spawned     = "spawned"
	Resumed     = "resumed" // after a restart
	Routed      = "routed"  // a message continues the work
	Signaled    = "outcome"
	Closed      = "closed"
	Errored     = "error"
	Reported    = "reported" // the work itself states that it failed
	NoOutcome   = "no_outcome"
	Exhausted   = "exhausted"
	Timeout     = "timeout"
	Stalled     = "stalled"
	Cancelled   = "cancelled"
	Interrupted = "interrupted"
	Lost        = "lost"
)

// Status is a state of work with its reason.
type Status struct{ State, Reason string }

func (s Status) String() string { return s.State + " (" + s.Reason + ")" }

// ErrTransition is returned for a change of state that is not permitted.
var ErrTransition = errors.New("state of work cannot change so")

// ErrPending is returned for an outcome of work that has accepted a message and has not
// taken it in.
var ErrPending = errors.New("work has a message to take in")

// resumable are the reasons of a failure that a message continues.
var resumable = []string{Exhausted, Timeout, Stalled, Interrupted, NoOutcome}

// permitted contains the permitted reasons, by the state before and the state after.
var permitted = map[[2]string][]string{
	{record.Running, record.Running}: {Resumed},
	{record.Running, record.Waiting}: {Signaled},
	{record.Running, record.Done}:    {Signaled},
	{record.Running, record.Failed}:  {Errored, Reported, NoOutcome, Exhausted, Timeout, Stalled, Cancelled, Interrupted},
	{record.Waiting, record.Running}: {Routed},
	{record.Waiting, record.Done}:    {Closed},
	{record.Waiting, record.Failed}:  {Lost},
	{record.Failed, record.Running}:  {Routed},
}

// Transition returns an [ErrTransition] unless work may change from one status to the
// other.
func Transition(from, to Status) error {
	if slices.Contains(permitted[[2]string{from.State, to.State}], to.Reason) &&
		(from.State != record.Failed || slices.Contains(resumable, from.Reason)) {
		return nil
	}
	return fmt.Errorf("%w: from %s to %s", ErrTransition, from, to)
}

// progress is what the lines of a child state.
type progress struct {
	Status
	attempt int           // from 1
	ends    int           // number of outcomes
	routes  int           // number of accepted messages
	pending []record.Work // accepted messages that no user message contains
	begun   bool          // the child has a message
	last    record.Work   // the last outcome
	unsure  string        // the last call that used an answer, without a result; or ""
}

func spawned() progress {
	return progress{Status: Status{record.Running, Spawned}, attempt: 1}
}

// after returns the progress after a record of the child. The error is an
// [ErrTransition]: the first terminal record counts.
func (p progress) after(w record.Work) (progress, error) {
	to := Status{w.State, w.Reason}
	switch {
	case w.Op == record.WorkState && w.Attempt == p.attempt+1:
		to.Reason = Resumed
		p.attempt++
	case w.Op == record.WorkEnd && w.N == p.ends+1:
		p.ends++
		p.last = w
	case w.Op == record.WorkRoute && w.N == p.routes+1:
		p.routes++
		p.pending = append(slices.Clip(p.pending), w)
		if p.State == record.Running {
			return p, nil
		}
		if to = (Status{record.Running, Routed}); p.State == record.Failed {
			p.attempt++
		}
	default:
		return p, fmt.Errorf("%w: record %q is out of order", ErrTransition, w.Op)
	}
	err := Transition(p.Status, to)
	p.Status = to
	return p, err
}

// take returns the progress after a user message with keys.
func (p progress) take(keys []string) progress {
	p.begun = true
	p.pending = slices.DeleteFunc(slices.Clone(p.pending), func(w record.Work) bool { return slices.Contains(keys, routeKey(w.N)) })
	return p
}

func routeKey(n int) string { return fmt.Sprint("r", n) }
