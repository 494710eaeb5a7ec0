package chat

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// grace is how long usage is waited for after the answer's end.
const grace = 5 * time.Second

// chunks yields the chunks of a stream of events. A stream without a
// finish_reason is incomplete; openai-go accepts it. The content decides
// whether the response is a stream, because some endpoints label it wrong.
func (a *attempt) chunks(res *http.Response, yield func(Chunk, error) bool) error {
	body := bufio.NewReader(res.Body)
	switch first, err := begins(body); {
	case err != nil && err != io.EOF:
		return err
	case first == '{', first == '[':
		return a.unstreamed(body, yield)
	case first == '<', strings.HasPrefix(res.Header.Get("Content-Type"), "text/html"):
		return permanent("the response is an HTML page, not an event stream: check base_url")
	}
	e := newEvents(body)
	var d deltas
	for e.next() {
		if bytes.HasPrefix(e.data, []byte("[DONE]")) {
			break
		}
		if e.failed {
			return inBandError(e.data)
		}
		chunk, err := d.read(e.data)
		switch {
		case err != nil:
			return err
		case chunk != nil:
			a.rest()
			if !yield(*chunk, nil) {
				return nil
			}
		case !d.alive || d.finished:
			continue
		}
		if d.finished {
			a.await("the stream did not end", min(grace, a.c.e.Idle))
		} else {
			a.await("the stream stalled: no chunk", a.c.e.Idle)
		}
	}
	switch err := e.err(); {
	case d.finished:
		return nil // the response is complete; only usage may be missing
	case err == nil:
		return transportError(errors.New("the stream ended without a finish_reason: the response is incomplete"))
	default:
		return err
	}
}

// begins skips white space and the mark of UTF-8 and returns the next byte.
func begins(r *bufio.Reader) (byte, error) {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if strings.IndexByte(" \t\r\n\xef\xbb\xbf", b) < 0 {
			return b, r.UnreadByte()
		}
	}
}

// unstreamed yields the response of an endpoint that does not stream.
func (a *attempt) unstreamed(from io.Reader, yield func(Chunk, error) bool) error {
	body, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	r, err := completion(bytes.TrimSpace(body))
	if err != nil {
		return err
	}
	a.rest()
	k := Chunk{Content: r.Message.Content, Reasoning: r.Message.ReasoningContent, Finish: cmp.Or(r.Finish, "stop"), Usage: r.Usage}
	for i, c := range r.Message.ToolCalls {
		k.Calls = append(k.Calls, CallDelta{i, c.ID, c.Type, c.Function.Name, c.Function.Arguments})
	}
	yield(k, nil)
	return nil
}

// deltas is the state from a stream's earlier events.
type deltas struct {
	size     int // bytes of text, reasoning and arguments
	finished bool
	alive    bool // the last event has a choice, which may be empty
	calls    []call
	current  map[int]int // index of the endpoint → of calls
}

type call struct {
	id, name  string // of the endpoint
	arguments []byte
}

// read returns the chunk of an event, or nil if the event has no data.
func (d *deltas) read(data []byte) (*Chunk, error) {
	if err := inBand(data); err != nil {
		return nil, err
	}
	w, err := decode(data)
	if err != nil {
		return nil, permanent("a chunk of the stream is malformed: %w", err)
	}
	k := Chunk{Usage: w.usage()}
	d.alive = len(w.Choices) > 0
	for i := range w.Choices {
		c := &w.Choices[i]
		if c.Index != 0 {
			continue
		}
		if err := c.failed(); err != nil {
			return nil, err
		}
		k.Content += c.Delta.text()
		k.Reasoning += c.Delta.thoughts()
		for j := range c.Delta.ToolCalls {
			delta, err := d.call(&c.Delta.ToolCalls[j])
			if err != nil {
				return nil, err
			}
			k.Calls = append(k.Calls, delta)
			d.size += len(delta.Arguments)
		}
		replace(&k.Finish, c.FinishReason)
	}
	d.size += len(k.Content) + len(k.Reasoning)
	if d.size > maxAnswer {
		return nil, permanent("the response has more than %d bytes; the call was canceled", maxAnswer)
	}
	d.finished = d.finished || k.Finish != ""
	if k.Content == "" && k.Reasoning == "" && k.Calls == nil && k.Finish == "" && k.Usage == nil {
		return nil, nil
	}
	return &k, nil
}

// call assigns an index to a part of a call.
func (d *deltas) call(t *toolCall) (CallDelta, error) {
	i, known := d.current[t.Index]
	if !known || d.calls[i].another(t) {
		i, known = len(d.calls), false
		if i == maxCalls {
			return CallDelta{}, permanent("the response has more than %d tool calls; the call was canceled", maxCalls)
		}
		d.calls = append(d.calls, call{id: t.ID})
		if d.current == nil {
			d.current = make(map[int]int)
		}
		d.current[t.Index] = i
	}
	c := &d.calls[i]
	arguments := string(t.Function.Arguments)
	if len(c.arguments)+len(arguments) > maxArguments {
		return CallDelta{}, permanent("the arguments of a tool call have more than %d bytes; the model call was canceled", maxArguments)
	}
	replace(&c.name, t.Function.Name)
	c.arguments = append(c.arguments, arguments...)
	id := t.ID
	if !known {
		id = callID(id)
	}
	return CallDelta{Index: i, ID: id, Type: t.Type, Name: t.Function.Name, Arguments: arguments}, nil
}

// another reports whether a part with the index of a call begins another call.
// Some endpoints number all calls 0 and distinguish them by ID. Some, such as
// Gemini's, also omit the IDs and send each call in one part.
func (c *call) another(t *toolCall) bool {
	switch {
	case t.Function.Name == "":
		return false
	case t.ID != "":
		return c.id != "" && t.ID != c.id
	case c.name != "" && c.name != t.Function.Name:
		return true
	}
	return t.Function.Arguments != "" && json.Valid(c.arguments)
}

// callID names a call that the endpoint did not, so that its result can.
func callID(id string) string {
	if id == "" {
		return "call_" + rand.Text()
	}
	return id
}

// inBand returns the error that an endpoint sent as if it were an answer.
func inBand(data []byte) error {
	if !bytes.Contains(data, []byte(`error"`)) {
		return nil
	}
	body := data
	var list []json.RawMessage // of Google
	if json.Unmarshal(data, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var head struct {
		Object string
		Error  json.RawMessage
	}
	if json.Unmarshal(body, &head) != nil || head.Object != "error" && isNull(head.Error) {
		return nil
	}
	return inBandError(body)
}

func inBandError(data []byte) error {
	e := payloadError(data)
	e.classify()
	return e
}

// failed returns the error that OpenRouter puts in a choice.
func (c *choice) failed() error {
	if isNull(c.Error) {
		return nil
	}
	return inBandError(c.Error)
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
