package chat

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/packages/ssestream"
)

// grace is how long usage is waited for after the answer's end.
const grace = 5 * time.Second

// chunks yields what the events of a stream say. A stream has ended well when
// a finish_reason came: the SDK takes one that was cut for complete.
func (a *attempt) chunks(res *http.Response, yield func(Chunk, error) bool) error {
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind == "application/json" {
		return a.whole(res, yield)
	} else if strings.HasPrefix(kind, "text/html") {
		return permanent("the answer is a page, not a stream of events: check base_url")
	}
	events := ssestream.NewDecoder(res)
	var d deltas
	for events.Next() {
		data := events.Event().Data
		if bytes.HasPrefix(data, []byte("[DONE]")) {
			break
		}
		chunk, err := d.read(data)
		if err != nil {
			return err
		}
		if chunk == nil {
			continue
		}
		a.rest()
		if !yield(*chunk, nil) {
			return nil
		}
		if d.finished {
			a.await("the stream did not end", min(grace, a.c.e.Idle))
		} else {
			a.await("the stream stalled: no chunk", a.c.e.Idle)
		}
	}
	switch err := events.Err(); {
	case d.finished:
		return nil // the answer is whole; only usage may be missing
	case err == nil:
		return transportError(errors.New("the stream ended without a finish_reason: the answer is not whole"))
	default:
		return err
	}
}

// whole is the answer of an endpoint that does not stream.
func (a *attempt) whole(res *http.Response, yield func(Chunk, error) bool) error {
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	r, err := completion(bytes.TrimSpace(body))
	if err != nil {
		return err
	}
	a.rest()
	k := Chunk{Content: r.Message.Content, Reasoning: r.Message.ReasoningContent, Finish: r.Finish, Usage: r.Usage}
	for i, c := range r.Message.ToolCalls {
		k.Calls = append(k.Calls, CallDelta{i, c.ID, c.Type, c.Function.Name, c.Function.Arguments})
	}
	yield(k, nil)
	return nil
}

// deltas is what has to be known of a stream's earlier events.
type deltas struct {
	size     int // bytes of text, reasoning and arguments
	finished bool
	calls    []call
	current  map[int]int // index of the endpoint → of calls
}

type call struct {
	id        string // of the endpoint
	arguments int    // bytes
}

// read returns what an event says, nil when that is nothing.
func (d *deltas) read(data []byte) (*Chunk, error) {
	if err := inBand(data); err != nil {
		return nil, err
	}
	w, err := decode(data)
	if err != nil {
		return nil, permanent("a chunk of the stream is malformed: %w", err)
	}
	k := Chunk{Usage: w.usage()}
	for i := range w.Choices {
		c := &w.Choices[i]
		if c.Index != 0 {
			continue
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
		return nil, permanent("the answer has more than %d bytes; the call was given up", maxAnswer)
	}
	d.finished = d.finished || k.Finish != ""
	if k.Content == "" && k.Reasoning == "" && k.Calls == nil && k.Finish == "" && k.Usage == nil {
		return nil, nil
	}
	return &k, nil
}

// call gives a piece of a call its index. Some endpoints number all calls 0
// and tell them apart by their ids; some leave the ids out.
func (d *deltas) call(t *toolCall) (CallDelta, error) {
	i, known := d.current[t.Index]
	if !known || t.ID != "" && t.Function.Name != "" && d.calls[i].id != "" && t.ID != d.calls[i].id {
		i, known = len(d.calls), false
		if i == maxCalls {
			return CallDelta{}, permanent("the answer has more than %d tool calls; it was given up", maxCalls)
		}
		d.calls = append(d.calls, call{id: t.ID})
		if d.current == nil {
			d.current = make(map[int]int)
		}
		d.current[t.Index] = i
	}
	c := &d.calls[i]
	if c.arguments += len(t.Function.Arguments); c.arguments > maxArguments {
		return CallDelta{}, permanent("a tool call's arguments have more than %d bytes; the call was given up", maxArguments)
	}
	id := t.ID
	if !known {
		id = callID(id)
	}
	return CallDelta{Index: i, ID: id, Type: t.Type, Name: t.Function.Name, Arguments: t.Function.Arguments}, nil
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
	var head struct {
		Object string
		Error  json.RawMessage
	}
	if !bytes.Contains(data, []byte(`error"`)) || json.Unmarshal(data, &head) != nil || head.Object != "error" && (len(head.Error) == 0 || string(head.Error) == "null") {
		return nil
	}
	e := payloadError(data)
	e.classify()
	return e
}
