package mcp

import (
	"fmt"
	"time"
)

// Limits of a server's messages and of work for it.
const (
	maxFrame  = 8 << 20 // bytes of a message
	maxValues = 1 << 18 // in a message: an empty one is two bytes there, and a hundred in memory
	maxBusy   = 100     // messages being written to a server
)

// shape counts the values of a message before it is decoded: the opening
// brackets and the commas outside of strings.
type shape struct {
	events       bool // a stream: an empty line ends a message
	values       int
	text, escape bool
	line         bool // this line contains a byte
}

func (s *shape) add(b []byte) error {
	for _, c := range b {
		switch {
		case c == '\n': // never in a text
			if s.events && !s.line {
				s.values = 0
			}
			s.text, s.escape, s.line = false, false, false
			continue
		case s.escape:
			s.escape = false
		case s.text:
			s.text, s.escape = c != '"', c == '\\'
		case c == '"':
			s.text = true
		case c == '{', c == '[', c == ',':
			if s.values++; s.values > maxValues {
				return fmt.Errorf("message has more than %d values", maxValues)
			}
		}
		s.line = s.line || c != '\r'
	}
	return nil
}

// pace slows down a server that sends too much. Each message costs work, and
// memory until the work is done.
type pace struct{ at time.Time }

const (
	perMessage = 500 * time.Microsecond
	perMiB     = time.Second / 16
	ahead      = 2 * time.Second // a server may be
)

// wait waits for a time in proportion to the messages and bytes read. It
// returns false if done is closed first.
func (p *pace) wait(messages, bytes int, done <-chan struct{}) bool {
	now := time.Now()
	if first := now.Add(-ahead); p.at.Before(first) {
		p.at = first
	}
	p.at = p.at.Add(time.Duration(messages)*perMessage + time.Duration(bytes)*perMiB>>20)
	late := p.at.Sub(now)
	if late <= 0 {
		return true
	}
	select {
	case <-done:
		return false
	case <-time.After(late):
		return true
	}
}
