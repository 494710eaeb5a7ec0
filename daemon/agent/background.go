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
)

// Background runs the summaries of agents with a role, for all runners that share it. It
// is safe for concurrent use.
type Background struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	running sync.WaitGroup

	mu   sync.Mutex
	busy int
	of   map[string]*pending // by session
}

// pending is a summary in the background, the newest of its session.
type pending struct {
	number int    // of the marker
	frozen int    // number of messages that it covers
	last   string // the last of them
	urgent bool
	cancel func() // from the beginning of the request

	done, reported bool
	text           string
	err            error
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
	if b.busy == maxBackground || b.ctx.Err() != nil {
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

// run makes the summary of a frozen session.
func (b *Background) run(ctx context.Context, p *pending, r *Runner, a *Agent, frozen *Session) {
	ctx, cancel := context.WithTimeout(context.WithValue(context.WithoutCancel(ctx), turnKey{}, (*Turn)(nil)), backgroundTimeout)
	stop := context.AfterFunc(b.ctx, cancel)
	b.mu.Lock()
	p.cancel = cancel
	b.mu.Unlock()
	b.running.Go(func() { // until the summary is complete, the time is over, or Stop cancels it
		defer cancel()
		defer stop()
		text, err := r.Summarize(ctx, a, frozen, CompactOptions{})
		b.mu.Lock()
		defer b.mu.Unlock()
		b.busy--
		p.text, p.err, p.done = text, err, true
	})
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

// Drop forgets a session's summary, and cancels it if it is not complete: it may contain
// texts that are then removed from the session.
func (b *Background) Drop(session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.of[session]; p != nil {
		if p.cancel != nil {
			p.cancel()
		}
		delete(b.of, session)
	}
}
