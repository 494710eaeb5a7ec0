package guard

import (
	"log/slog"
	"sync"
	"time"
)

// The limits of a RefusalLog.
const (
	window      = time.Minute
	windowLines = 10 // in each window
)

// RefusalLog logs the first refusals of each window. It counts the others and
// all evictions, and logs the counts in one line when the window ends.
type RefusalLog struct {
	Log *slog.Logger

	mu      sync.Mutex
	end     time.Time // of the window
	lines   int       // logged in the window
	refused int       // not logged
	evicted int
	summary *time.Timer // nil unless a summary is due
}

// Refuse logs or counts the refusal of a request.
func (r *RefusalLog) Refuse(status int, why, from string) {
	r.mu.Lock()
	r.advance()
	logged := r.lines < windowLines
	if logged {
		r.lines++
	} else {
		r.refused++
		r.schedule()
	}
	r.mu.Unlock()
	if logged {
		r.Log.Warn("refused a request", "status", status, "why", why, "from", from)
	}
}

// Evict counts an evicted connection. It never waits for the log.
func (r *RefusalLog) Evict() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance()
	r.evicted++
	r.schedule()
}

// advance begins a window if the last one has ended. The caller holds mu.
func (r *RefusalLog) advance() {
	if now := time.Now(); !now.Before(r.end) {
		r.end, r.lines = now.Add(window), 0
	}
}

// schedule calls Flush at the end of the window. The caller holds mu.
func (r *RefusalLog) schedule() {
	if r.summary == nil {
		r.summary = time.AfterFunc(time.Until(r.end), r.Flush)
	}
}

// Flush logs the counts now.
func (r *RefusalLog) Flush() {
	r.mu.Lock()
	refused, evicted := r.refused, r.evicted
	r.refused, r.evicted = 0, 0
	if r.summary != nil {
		r.summary.Stop()
		r.summary = nil
	}
	r.mu.Unlock()
	if refused+evicted > 0 {
		r.Log.Warn("refused more requests and connections", "requests", refused, "connections", evicted, "within", window)
	}
}
