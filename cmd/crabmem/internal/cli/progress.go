package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress shows, on a terminal only, an operation that takes more than a second,
// and its state.
type Progress struct {
	w     io.Writer // nil: silent
	what  string
	after time.Duration // before the first word
	start time.Time

	mu    sync.Mutex // step may be called by several goroutines
	last  time.Time
	shown bool
}

// Progress returns a Progress of an operation, silent unless standard error is a
// terminal.
func (c *Streams) Progress(what string) *Progress {
	p := &Progress{what: what, after: time.Second, start: time.Now()}
	if c.IsTerminal(c.Stderr) && !c.Quiet && !c.JSON {
		p.w = c.Stderr
	}
	return p
}

// Busy runs f and shows the time since its start, because f has no known end.
func (c *Streams) Busy(what string, f func() error) error {
	return c.Progress(what).During(f)
}

// During runs f and shows the time since its start.
func (p *Progress) During(f func() error) error {
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
	p.End()
	return err
}

// Step displays that done of total steps are complete.
func (p *Progress) Step(done, total int) {
	if p.w != nil && total > 0 {
		p.show(fmt.Sprintf("%s: %d of %d (%d%%)", p.what, done, total, 100*done/total))
	}
}

func (p *Progress) show(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.start) < p.after || now.Sub(p.last) < p.after/10 {
		return
	}
	p.last, p.shown = now, true
	io.WriteString(p.w, "\r"+line+"\x1b[K")
}

// End removes the line.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		io.WriteString(p.w, "\r\x1b[K")
		p.shown = false
	}
}
