package mcp

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"crabmem/bm25/clip"
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

// oneLine returns a server's text on one line, without invisible characters.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Cf, r), r == utf8.RuneError:
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// data returns a text of a server for a prompt or a list: one line that cannot
// begin or end a tag of the prompt.
func data(text string, max int) string {
	return strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(clipped(oneLine(text), max))
}

// clipped cuts a text to n bytes of valid UTF-8.
func clipped(text string, n int) string {
	return clip.Marked(strings.ToValidUTF8(text, "\uFFFD"), n)
}
