package process

import (
	"bufio"
	"errors"
	"fmt"
	"time"
)

// MaxValues is the limit of values in a message: an empty one is two bytes there, and a
// hundred in memory.
const MaxValues = 1 << 18

// Shape counts the values of a message before it is decoded: the opening
// brackets and the commas outside of strings.
type Shape struct {
	Events       bool // a stream: an empty line ends a message
	values       int
	text, escape bool
	line         bool // this line contains a byte
}

// Add counts the values of b. The error states the limit.
func (s *Shape) Add(b []byte) error {
	for _, c := range b {
		switch {
		case c == '\n': // never in a text
			if s.Events && !s.line {
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
			if s.values++; s.values > MaxValues {
				return fmt.Errorf("message has more than %d values", MaxValues)
			}
		}
		s.line = s.line || c != '\r'
	}
	return nil
}

// Pace slows down a program or server that sends too much. Each message costs work, and
// memory until the work is done.
type Pace struct{ at time.Time }

const (
	perMessage = 500 * time.Microsecond
	perMiB     = time.Second / 16
	ahead      = 2 * time.Second // a server may be
)

// Wait waits for a time in proportion to the messages and bytes read. It
// returns false if done is closed first.
func (p *Pace) Wait(messages, bytes int, done <-chan struct{}) bool {
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

// ReadLine reads a line of at most max bytes.
func ReadLine(r *bufio.Reader, max int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > max {
			return nil, fmt.Errorf("message exceeds %d MiB", max>>20)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
