package agent

import (
	"strings"
	"sync"
	"time"

	"crabmem/daemon/secret/scan"
	"crabmem/sessionlog"
)

// streamEvery is the longest time between the arrival of text and its write.
const streamEvery = time.Second

// streaming writes the text of a response to the session's log while it arrives, so
// that a killed process loses at most the text of streamEvery. A timer starts the
// writes, so text is also written if the model stalls. streaming does not report
// errors of its writes: it keeps the text for the next write, and the write of the
// complete message reports its own error. A nil *streaming does nothing.
type streaming struct {
	log *sessionlog.Log

	mu      sync.Mutex
	pending strings.Builder
	timer   *time.Timer // nil: nothing is pending
	ended   bool
}

// pieces shows the text of a response while it arrives.
type pieces struct {
	*turn
	text, thinking *scan.Stream
}

// end shows what the redactions hold back.
func (p *pieces) end() { p.show(p.text.End(), p.thinking.End()) }

func (p *pieces) show(text, thinking string) {
	if text != "" {
		p.streaming.add(text)
		p.emit(Event{Kind: TextDelta, Content: text})
	}
	if thinking != "" {
		p.emit(Event{Kind: ThinkingDelta, Content: thinking})
	}
}

// newStreaming returns a streaming that writes to log, or nil if log is nil.
func newStreaming(log *sessionlog.Log) *streaming {
	if log == nil {
		return nil
	}
	return &streaming{log: log}
}

// add adds a piece of text.
func (s *streaming) add(text string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending.WriteString(text)
	if s.timer == nil {
		s.timer = time.AfterFunc(streamEvery, s.write) // end stops it
	}
}

func (s *streaming) write() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.flush()
	}
}

// flush writes the pending text. The caller holds mu.
func (s *streaming) flush() {
	s.timer = nil
	if s.pending.Len() > 0 && s.log.AppendStreamed(s.pending.String()) == nil {
		s.pending.Reset()
	}
}

// end stops the writes. If flush is set, it writes the pending text first.
func (s *streaming) end(flush bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
	if flush {
		s.flush()
	}
}
