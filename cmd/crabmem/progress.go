package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress tells a person at a terminal how far something is that takes more
// than a second. Elsewhere it says nothing.
type progress struct {
	w     io.Writer // nil: silent
	what  string
	start time.Time

	mu    sync.Mutex // step may be called by several goroutines
	last  time.Time
	shown bool
}

func (c *cli) progress(what string) *progress {
	p := &progress{what: what, start: c.now(), last: c.now()}
	if c.isTerminal(c.stderr) && !c.quiet && !c.json {
		p.w = c.stderr
	}
	return p
}

// step says that done of total are done.
func (p *progress) step(done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.w == nil || total == 0 || now.Sub(p.start) < time.Second || now.Sub(p.last) < 100*time.Millisecond {
		return
	}
	p.last, p.shown = now, true
	fmt.Fprintf(p.w, "\r%s: %d of %d (%d %%)\x1b[K", p.what, done, total, 100*done/total)
}

// end takes the line away.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		io.WriteString(p.w, "\r\x1b[K")
		p.shown = false
	}
}
