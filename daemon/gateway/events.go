package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"time"

	"crabmem/daemon/client"
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
			if s.open {
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

// begin sends the header of the response, once. The caller holds mu.
func (s *eventStream) begin() {
	if !s.open {
		s.open = true
		s.w.Header().Set("Content-Type", streamKind)
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

// The data of named events.
type (
	startEvent struct {
		Session string `json:"session" jsonschema:"ID of the session"`
		Agent   string `json:"agent"`
		Model   string `json:"model"`
	}
	appendedEvent struct {
		Line     int64 `json:"line,omitempty" jsonschema:"of the message in the session; absent without an Idempotency-Key"`
		Repeated bool  `json:"repeated,omitempty"`
	}
	thinkingEvent struct {
		Content string `json:"content"`
	}
	toolStartEvent struct {
		Calls []toolCall `json:"calls"`
	}
	toolCall struct {
		ID        string `json:"id" jsonschema:"empty while the arguments are not known"`
		Name      string `json:"name"`
		Arguments string `json:"arguments" jsonschema:"JSON"`
	}
	toolResultEvent struct {
		ID     string `json:"id"`
		Output string `json:"output"`
		Failed bool   `json:"failed"`
		Millis int64  `json:"ms"`
	}
	askEvent struct {
		Questions []askQuestion `json:"questions"`
	}
	askQuestion struct {
		Question    string      `json:"question"`
		Header      string      `json:"header"`
		Options     []askOption `json:"options"`
		MultiSelect bool        `json:"multi_select"`
	}
	askOption struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	}
	compactedEvent struct {
		Summary string `json:"summary"`
		Archive string `json:"archive,omitempty" jsonschema:"the entry that contains the summary"`
	}
	noticeEvent struct {
		Text string `json:"text"`
	}
	gapEvent struct {
		Lost uint64 `json:"lost" jsonschema:"events that this stream does not contain"`
	}
)

// A sink receives events: the response of a client, or the events of a run that a
// client may read later.
type sink interface {
	event(name string, data any) error
}

// runWriter sends the events of a run.
type runWriter struct {
	g      *Gateway
	out    sink
	agent  string
	wrote  bool // text
	passed bool // a round of tools has ended since the last text
}

// write sends an event of a run. Between the texts before and after a round of tools, it
// sends a line end: the texts would be joined otherwise.
func (w *runWriter) write(e *client.Event) error {
	if e.Agent != "" {
		w.agent = e.Agent
	}
	switch e.Kind {
	case "start":
		return w.out.event("start", startEvent{e.StoredID, w.agent, e.Model})
	case "appended":
		return w.out.event("appended", appendedEvent{e.Line, e.Repeated})
	case "text_delta":
		text := e.Text
		if w.wrote && w.passed {
			text = "\n" + text
		}
		w.wrote, w.passed = true, false
		return w.out.event("", chunk{Content: text, Agent: w.agent})
	case "thinking_delta":
		return w.out.event("thinking", thinkingEvent{e.Text})
	case "tool_start":
		calls := []toolCall{}
		for _, call := range e.Calls {
			calls = append(calls, toolCall{call.ID, call.Function.Name, call.Function.Arguments})
		}
		return w.out.event("tool_start", toolStartEvent{calls})
	case "tool_result":
		return w.out.event("tool_result", toolResultEvent{e.CallID, e.Text, e.Failed, e.Took.Milliseconds()})
	case "tools_complete":
		w.passed = true
	case "ask_user":
		ask := askEvent{[]askQuestion{}}
		for _, q := range e.Questions {
			one := askQuestion{q.Question, q.Header, []askOption{}, q.MultiSelect}
			for _, o := range q.Options {
				one.Options = append(one.Options, askOption(o))
			}
			ask.Questions = append(ask.Questions, one)
		}
		return w.out.event("ask", ask)
	case "usage":
		return w.out.event("usage", usageOf(e.Usage))
	case "compact":
		return w.out.event("compacted", compactedEvent{e.Summary, e.Archive})
	case "notice":
		return w.out.event("notice", noticeEvent{e.Text})
	}
	return nil
}

// compactedNote is the text that the daemon sends after the event of a compaction, for
// clients that do not know the event.
const compactedNote = "\n[context compacted]\n"

// withoutNotes returns the events of a run without the texts that repeat an event.
func withoutNotes(events iter.Seq2[*client.Event, error]) iter.Seq2[*client.Event, error] {
	return func(yield func(*client.Event, error) bool) {
		compacted := false
		for e, err := range events {
			if err == nil && compacted && e.Kind == "text_delta" && e.Text == compactedNote {
				compacted = false
				continue
			}
			compacted = compacted || err == nil && e.Kind == "compact"
			if !yield(e, err) {
				return
			}
		}
	}
}

// done ends the answer.
func (w *runWriter) done() error { return w.out.event("", chunk{Agent: w.agent, Done: true}) }

// failed ends the answer after an error. The status of the response is sent before.
func (w *runWriter) failed(err error) error {
	if err := w.out.event("error", w.g.problem(err)); err != nil {
		return err
	}
	return w.done()
}
