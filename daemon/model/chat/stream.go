package chat

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/openai/openai-go/packages/ssestream"
)

// grace is how long usage is waited for after the answer's end.
const grace = 5 * time.Second

// chunks yields the chunks of a stream of events. A stream without a
// known finish_reason is incomplete; openai-go accepts it. The content decides
// whether the response is a stream, because some endpoints label it wrong.
func (a *attempt) chunks(res *http.Response, onProgress func(int), yield func(Chunk, error) bool) error {
	body := bufio.NewReader(res.Body)
	switch first, err := begins(body); {
	case err != nil && err != io.EOF:
		return err
	case first == '{', first == '[':
		return a.unstreamed(body, yield)
	case first == '<', strings.HasPrefix(res.Header.Get("Content-Type"), "text/html"):
		return permanent("the response is an HTML page, not an event stream: check base_url")
	}
	from := &lines{from: body}
	res.Body = io.NopCloser(from)
	events := ssestream.NewDecoder(res)
	var d deltas
	how := endClosed
	for how == endClosed && events.Next() {
		data := events.Event().Data
		switch {
		case len(bytes.TrimSpace(data)) == 0:
			continue // keeps the connection alive
		case bytes.HasPrefix(data, []byte("[DONE]")):
			how = endMark
			continue
		case events.Event().Type == "error":
			return inBandError(data)
		}
		ended := d.complete(endBroken)
		chunk, err := d.read(data)
		if d.percent > 0 && onProgress != nil {
			a.rest()
			onProgress(d.percent)
		}
		switch {
		case errors.Is(err, errMalformed) && (ended || from.cut):
			how = endBroken
			continue
		case err != nil:
			return err
		case chunk != nil:
			a.rest()
			if !yield(*chunk, nil) {
				return nil
			}
		}
		switch complete := d.complete(endBroken); {
		case complete && !ended:
			a.expect("the stream did not end", min(grace, a.c.e.Idle))
		case !complete && (ended || d.alive):
			a.expect("the stream stalled: no data", a.c.e.Quiet)
		}
		a.alive()
	}
	err := events.Err()
	if _, late := errors.AsType[*timeoutError](context.Cause(a.ctx)); late {
		how = endSilent
	} else if err != nil {
		how = endBroken
	}
	switch {
	case d.complete(how):
		a.rest()
		yield(d.end(), nil)
		return nil
	case err == nil:
		return transportError(errors.New("the stream ended without a finish_reason: the response is incomplete"))
	default:
		return err
	}
}

var errMalformed = errors.New("a chunk of the stream is malformed")

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
	yield(r.chunk(), nil)
	return nil
}

// chunk returns the response as the only chunk of a stream.
func (r *Response) chunk() Chunk {
	k := Chunk{Content: r.Message.Content, Reasoning: r.Message.ReasoningContent, Finish: cmp.Or(r.Finish, "stop"), Usage: r.Usage}
	for i, c := range r.Message.ToolCalls {
		k.Calls = append(k.Calls, CallDelta{i, c.ID, c.Type, c.Function.Name, c.Function.Arguments})
	}
	return k
}

// deltas is the state from a stream's earlier events.
type deltas struct {
	size    int  // bytes of text, reasoning and arguments
	alive   bool // the last event has a choice, which may be empty
	percent int  // of the prompt that is read, in the last event; 0: not reported
	ending
	assembler
	texts, reasoned, called bool // a delta has text, reasoning, or calls
	shown                   bool // the first call was sent
	thoughts
}

// read returns the chunk of an event, or nil if the event has no data. The
// arguments of calls and the finish reason are in the chunk of [deltas.end].
func (d *deltas) read(data []byte) (*Chunk, error) {
	if err := inBand(data); err != nil {
		return nil, err
	}
	w, err := decode(data)
	if err != nil {
		return nil, permanent("%w: %w", errMalformed, err)
	}
	return d.take(w)
}

// take is read for a decoded event.
func (d *deltas) take(w *wire) (*Chunk, error) {
	k := Chunk{Usage: w.usage()}
	if d.percent = 0; w.Progress.Total > 0 {
		d.percent = min(max(100*w.Progress.Processed/w.Progress.Total, 0), 100)
	}
	d.alive = len(w.Choices) > 0 || d.percent > 0
	d.event++
	reason, has := "", false
	for i := range w.Choices {
		c := &w.Choices[i]
		if c.Index.n != 0 {
			continue
		}
		if err := c.failed(); err != nil {
			return nil, err
		}
		text, reasoning, calls := d.parts(c)
		has = has || text != ""
		text, thoughts := d.split(text)
		k.Content += text
		k.Reasoning += reasoning + thoughts
		for j := range calls {
			grown, err := d.add(&calls[j])
			if err != nil {
				return nil, err
			}
			d.size += grown
		}
		has = has || len(calls) > 0
		replace(&reason, c.FinishReason)
	}
	d.size += len(k.Content) + len(k.Reasoning)
	if d.size > maxAnswer {
		return nil, permanent("the response has more than %d bytes; the call was canceled", maxAnswer)
	}
	d.note(reason, has || k.Content != "" || k.Reasoning != "")
	if !d.shown {
		k.Calls = d.announced()
		d.shown = k.Calls != nil
	}
	if k.Content == "" && k.Reasoning == "" && k.Calls == nil && k.Usage == nil {
		return nil, nil
	}
	return &k, nil
}

// parts returns the parts of a choice. Some endpoints send a message in place of
// a delta, others in addition to the deltas: a message counts for parts that no
// delta has.
func (d *deltas) parts(c *choice) (text, reasoning string, calls []toolCall) {
	text, reasoning, calls = c.Delta.text(), c.Delta.thoughts(), c.Delta.ToolCalls
	d.texts, d.reasoned, d.called = d.texts || text != "", d.reasoned || reasoning != "", d.called || len(calls) > 0
	if !d.texts {
		text = c.Message.text()
	}
	if !d.reasoned {
		reasoning = c.Message.thoughts()
	}
	if !d.called {
		calls = c.Message.ToolCalls
	}
	return text, reasoning, calls
}

// end returns the last chunk of a complete response.
func (d *deltas) end() Chunk {
	text, reasoning := d.thoughts.end()
	return Chunk{Content: text, Reasoning: reasoning, Finish: d.reason, Calls: d.assembled()}
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
