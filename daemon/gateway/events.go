package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"crabmem/daemon/agent"
	"crabmem/daemon/session"
)

const (
	aliveEvery = 15 * time.Second // between comments of an idle stream
	eventTime  = 30 * time.Second // for a client to receive an event
)

// eventStream is a response of server-sent events. It is safe for concurrent use.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	stop    chan struct{}
	ended   chan struct{}

	mu   sync.Mutex
	id   int
	err  error // the client is gone
	open bool  // the header is sent
	late bool  // the first comment may send the header
}

// newEventStream returns a stream that sends a comment every 15 seconds. The
// first event sends the header of the response. The caller must close it.
func newEventStream(w http.ResponseWriter) *eventStream {
	s := &eventStream{w: w, control: http.NewResponseController(w), stop: make(chan struct{}), ended: make(chan struct{})}
	go s.keepAlive()
	return s
}

// keepAlive ends with close.
func (s *eventStream) keepAlive() {
	defer close(s.ended)
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			s.mu.Lock()
			if s.open || s.late {
				s.begin()
				s.send([]byte(": alive\n\n"))
			}
			s.mu.Unlock()
		}
	}
}

func (s *eventStream) close() {
	close(s.stop)
	<-s.ended
}

// event sends an event. An empty name is that of an unnamed event.
func (s *eventStream) event(name string, data any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id++
	b, err := encodeEvent(s.id, name, data)
	if err != nil {
		return err
	}
	s.begin()
	return s.send(b)
}

// await lets the first comment send the header, until which a refusal has a status.
func (s *eventStream) await() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = true
}

func (s *eventStream) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// begin sends the header of the response, once. The caller holds mu.
func (s *eventStream) begin() {
	if !s.open {
		s.open = true
		s.w.Header().Set("Content-Type", streamKind)
		s.w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
		s.w.WriteHeader(http.StatusOK)
	}
}

// copy sends events that are encoded. Without events, it sends the header.
func (s *eventStream) copy(events []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
	return s.send(events)
}

// encodeEvent returns an event as a stream contains it.
func encodeEvent(id int, name string, data any) ([]byte, error) {
	b, err := json.Marshal(data) // has no line ends
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if name != "" {
		fmt.Fprintf(&text, "event: %s\n", name)
	}
	fmt.Fprintf(&text, "id: %d\ndata: %s\n\n", id, b)
	return text.Bytes(), nil
}

// send writes to a client that reads. The caller holds mu.
func (s *eventStream) send(b []byte) error {
	if s.err != nil {
		return s.err
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(eventTime))
	if _, s.err = s.w.Write(b); s.err == nil {
		s.err = s.control.Flush()
	}
	return s.err
}

// A sink receives events, such as the response of a client.
type sink interface {
	event(name string, data any) error
}

// runWriter sends the events of a run.
type runWriter struct {
	g     *Gateway
	out   sink
	agent string
	texts session.TextJoiner
}

// streamNames are the names of events in the stream of a run, if not their kinds.
var streamNames = map[agent.Kind]string{agent.User: "appended", agent.ThinkingDelta: "thinking", agent.AskUser: "ask", agent.Compacted: "compacted"}

// streamName returns the name of an event in the stream of a run.
func streamName(k agent.Kind) string { return cmp.Or(streamNames[k], string(k)) }

// streamed returns the name and the data of an event in the stream of a run of an agent.
func (g *Gateway) streamed(e *agent.Event, agentName string) (name string, data any) {
	sent := *e
	sent.Kind = ""
	switch e.Kind {
	case agent.Start:
		sent.Agent = agentName
	case agent.User:
		sent.Content = "" // the client has sent it
	case agent.TextDelta:
		return "", chunk{Content: e.Content, Agent: agentName}
	case agent.Usage:
		return "usage", e.Usage
	case agent.Done:
		if e.Err != nil {
			p := g.problem(e.Err)
			return p.event(), p
		}
		return "", chunk{Agent: agentName, Done: true}
	}
	return streamName(e.Kind), &sent
}

// write sends an event of a run.
func (w *runWriter) write(e *agent.Event) error {
	if w.texts.Join(e); e.Kind == agent.ToolsComplete {
		return nil
	}
	if e.Kind == agent.Start {
		w.agent = cmp.Or(e.Agent, w.agent)
	}
	return w.out.event(w.g.streamed(e, w.agent))
}

// done ends the answer.
func (w *runWriter) done() error { return w.write(&agent.Event{Kind: agent.Done}) }

// failed ends the answer after an error. The status of the response is sent before.
func (w *runWriter) failed(err error) error {
	if err := w.write(&agent.Event{Kind: agent.Done, Err: err}); err != nil {
		return err
	}
	return w.done()
}
