package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"crabmem/daemon/display"
)

// Progress shows, on a terminal only, an operation that takes more than a second,
// and its state. The state never goes back.
type Progress struct {
	w     io.Writer // nil: silent
	what  string
	after time.Duration // before the first word
	start time.Time

	mu          sync.Mutex // step may be called by several goroutines
	last        time.Time
	shown       bool
	ended       bool
	done, total int64
	counted     string // done of total, for people
}

// Progress returns a Progress of an operation. It is silent unless standard error is
// a terminal. Other output on standard error clears the line of the Progress first.
func (c *Streams) Progress(what string) *Progress {
	p := &Progress{what: what, after: time.Second, start: time.Now()}
	if c.IsTerminal(c.Stderr) && !c.Quiet && !c.JSON {
		p.w = c.Stderr
	}
	c.progress.Store(p)
	return p
}

// Step displays a step of the latest Progress, if it is active.
func (c *Streams) Step(done, total int) {
	if p := c.progress.Load(); p != nil {
		p.Step(done, total)
	}
}

// Busy runs f and shows the time since its start, or the steps that f reports.
func (c *Streams) Busy(what string, f func() error) error {
	return c.Progress(what).During(f)
}

// During runs f and shows the time since its start until a step is displayed.
func (p *Progress) During(f func() error) error {
	defer p.End()
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
				p.mu.Lock()
				p.show()
				p.mu.Unlock()
			}
		}
	})
	err := f()
	close(done)
	clock.Wait()
	return err
}

// Step displays that done of total steps are complete.
func (p *Progress) Step(done, total int) {
	p.step(int64(done), int64(total), func() string { return fmt.Sprintf("%d of %d", done, total) })
}

// Bytes displays that done of total bytes are read.
func (p *Progress) Bytes(done, total int64) {
	p.step(done, total, func() string { return display.Size(done) + " of " + display.Size(total) })
}

// step displays a step. It ignores a smaller step than the last one: goroutines may
// report steps out of order, and a repeated operation begins again.
func (p *Progress) step(done, total int64, counted func() string) {
	if p.w == nil || total <= 0 || done < 0 || done > total {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total > 0 && float64(done)/float64(total) < float64(p.done)/float64(p.total) {
		return
	}
	p.done, p.total, p.counted = done, total, counted()
	p.show()
}

// Says displays a text at once, until Clear or another text.
func (p *Progress) Says(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w != nil && !p.ended {
		p.shown = true
		io.WriteString(p.w, "\r"+text+"\x1b[K")
	}
}

// show displays the state. The caller holds mu.
func (p *Progress) show() {
	now := time.Now()
	if p.ended || now.Sub(p.start) < p.after || now.Sub(p.last) < p.after/10 {
		return
	}
	state := now.Sub(p.start).Round(time.Second).String()
	if p.total > 0 {
		state = fmt.Sprintf("%s (%d%%)", p.counted, int64(100*float64(p.done)/float64(p.total)))
	}
	p.last, p.shown = now, true
	io.WriteString(p.w, "\r"+p.what+": "+state+"\x1b[K")
}

// Clear removes the line until the next step.
func (p *Progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		io.WriteString(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// End removes the line; later steps display nothing.
func (p *Progress) End() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.Clear()
}

// ClearProgress removes the line of the latest Progress, before other output.
func (c *Streams) ClearProgress() {
	if p := c.progress.Load(); p != nil {
		p.Clear()
	}
}

// EndProgress ends the latest Progress, before an error is printed.
func (c *Streams) EndProgress() {
	if p := c.progress.Load(); p != nil {
		p.End()
	}
}
