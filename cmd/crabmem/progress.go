package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress tells a person at a terminal what takes more than a second, and how
// far it is. Elsewhere it says nothing.
type progress struct {
	w     io.Writer // nil: silent
	what  string
	after time.Duration // before the first word
	start time.Time

	mu    sync.Mutex // step may be called by several goroutines
	last  time.Time
	shown bool
}

func (c *app) progress(what string) *progress {
	p := &progress{what: what, after: time.Second, start: time.Now()}
	if c.isTerminal(c.stderr) && !c.quiet && !c.json {
		p.w = c.stderr
	}
	return p
}

// busy runs f, of which nobody knows how long it takes.
func (c *app) busy(what string, f func() error) error {
	return c.progress(what).during(f)
}

func (p *progress) during(f func() error) error {
	if p.w == nil {
		return f()
	}
	var clock sync.WaitGroup
	done := make(chan struct{})
	clock.Go(func() {
		tick := time.NewTicker(p.after)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				p.show(fmt.Sprintf("%s: %v", p.what, time.Since(p.start).Round(time.Second)))
			}
		}
	})
	err := f()
	close(done)
	clock.Wait()
	p.end()
	return err
}

// step says that done of total are done.
func (p *progress) step(done, total int) {
	if p.w != nil && total > 0 {
		p.show(fmt.Sprintf("%s: %d of %d (%d %%)", p.what, done, total, 100*done/total))
	}
}

func (p *progress) show(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.start) < p.after || now.Sub(p.last) < p.after/10 {
		return
	}
	p.last, p.shown = now, true
	io.WriteString(p.w, "\r"+line+"\x1b[K")
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
