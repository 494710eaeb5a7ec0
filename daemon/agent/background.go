package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	maxBackground     = 2   // summaries at a time
	maxComplete       = 100 // sessions with a summary that no run has committed
	backgroundTimeout = 5 * time.Minute

	maxFailures = 3 // in a row, of flushes and summaries, before a pause
	pause       = 30 * time.Minute
)

// Background runs the flushes and summaries of agents with a role, for all runners that share
// it. After maxFailures in a row, it begins none before the end of a pause. It is safe for
// concurrent use.
type Background struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	running sync.WaitGroup

	mu   sync.Mutex
	busy int
	of   map[string]*pending // by session

	failures int       // in a row
	until    time.Time // of the pause
}

// pending is a summary in the background, the newest of its session.
type pending struct {
	number int    // of the marker
	frozen int    // number of messages that it covers
	last   string // the last of them
	urgent bool
	cancel func() // from the beginning of the request

	committing sync.Mutex // of the flush

	done, reported bool
	stored         []string // names of the notes
	flushErr       error
	text           string
	err            error
}

// commit calls f, which writes the notes of the flush.
func (p *pending) commit(f func() error) error {
	p.committing.Lock()
	defer p.committing.Unlock()
	return f()
}

// NewBackground returns a Background without summaries.
func NewBackground() *Background {
	b := &Background{of: make(map[string]*pending)}
	b.ctx, b.cancel = context.WithCancelCause(context.Background())
	return b
}

// Stop cancels all summaries, waits until they have ended, and begins no more.
func (b *Background) Stop() {
	b.mu.Lock()
	b.cancel(errors.New("the daemon stops"))
	b.mu.Unlock()
	b.running.Wait()
}

func (s *Session) key() string {
	if s.Log == nil {
		return fmt.Sprintf("%p", s)
	}
	return s.Log.ID()
}

// lastOf identifies the last of n messages.
func (s *Session) lastOf(n int) string {
	if n == 0 || n > len(s.Messages) {
		return ""
	}
	m := &s.Messages[n-1]
	return fmt.Sprintf("%s\x00%s\x00%s\x00%d", m.Role, m.ToolCallID, m.Content, len(m.ToolCalls))
}

// covers reports whether the messages of s begin with those of the summary.
func (p *pending) covers(s *Session) bool {
	return p.number == s.Compactions+1 && p.frozen <= len(s.Messages) && p.last == s.lastOf(p.frozen)
}

// claim returns a summary to run. It returns nil if the session has one, the same or a
// later tier has failed, or too many run.
func (b *Background) claim(s *Session, urgent bool) *pending {
	b.mu.Lock()
	defer b.mu.Unlock()
	if was := b.of[s.key()]; was != nil && (!was.done || was.number == s.Compactions+1 && (was.urgent || !urgent)) {
		return nil
	}
	if b.busy == maxBackground || b.ctx.Err() != nil || time.Now().Before(b.until) {
		return nil
	}
	for key, p := range b.of {
		if len(b.of) >= maxComplete && p.done {
			delete(b.of, key)
		}
	}
	n := len(s.Messages)
	p := &pending{number: s.Compactions + 1, frozen: n, last: s.lastOf(n), urgent: urgent}
	b.busy++
	b.of[s.key()] = p
	return p
}

// run makes the flush, if any, and then the summary of a frozen session.
func (b *Background) run(ctx context.Context, p *pending, r *Runner, a *Agent, frozen *Session, f *Flush) {
	ctx, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), turnKey{}, (*Turn)(nil)))
	stop := context.AfterFunc(b.ctx, cancel)
	b.mu.Lock()
	p.cancel = cancel
	b.mu.Unlock()
	b.running.Go(func() { // until the summary is complete, the time is over, or Stop cancels it
		defer cancel()
		defer stop()
		var stored []string
		var flushErr error
		if f != nil {
			stored, flushErr = f.run(ctx, p.commit)
		}
		timed, end := context.WithTimeout(ctx, backgroundTimeout)
		defer end()
		text, err := r.Summarize(timed, a, frozen, CompactOptions{})
		if ctx.Err() == nil {
			b.count(flushErr, err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.busy--
		p.stored, p.flushErr, p.text, p.err, p.done = stored, flushErr, text, err, true
	})
}

// paused reports whether no flush may begin.
func (b *Background) paused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.until)
}

// count counts the errors of a flush and its summary. Without an error, the row ends.
func (b *Background) count(errs ...error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	had := b.failures
	for _, err := range errs {
		if err != nil {
			b.failures++
		}
	}
	if b.failures == had {
		b.failures = 0
	} else if b.failures >= maxFailures {
		b.failures, b.until = 0, time.Now().Add(pause)
	}
}

// take returns a session's complete summary, once. A failure stays, so that its tier is
// not repeated before the next marker.
func (b *Background) take(s *Session) *pending {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.of[s.key()]
	if p == nil || !p.done || p.reported {
		return nil
	}
	if p.reported = true; p.err == nil {
		delete(b.of, s.key())
	}
	return p
}

// Drop forgets a session's flush and summary, and cancels them if they are not complete: they
// may contain texts that are then removed from the session. It waits until a flush that is
// being committed has ended. The caller has closed the session's log, so no other one commits.
func (b *Background) Drop(session string) {
	b.mu.Lock()
	p := b.of[session]
	delete(b.of, session)
	b.mu.Unlock()
	if p == nil {
		return
	}
	if p.cancel != nil {
		p.cancel()
	}
	p.committing.Lock()
	defer p.committing.Unlock()
}
