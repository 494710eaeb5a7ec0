package chat

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/openai/openai-go/option"

	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// Endpoint is the address of a model, with its peculiarities.
type Endpoint struct {
	Provider string     // named in errors
	URL      string     // prefix of "chat/completions"; ends in /
	Query    url.Values // of every request
	Header   http.Header
	// Sign is called last for each request; it may be nil.
	Sign    func(r *http.Request, body []byte) error
	Secrets []string // that no error may show

	CallIDs          *regexp.Regexp // valid IDs of calls; nil: any
	CompletionTokens bool           // takes max_completion_tokens and refuses max_tokens
	KeepReasoning    bool           // requires the reasoning of messages with tool calls
	Unsigned         bool           // requires a mark of tool calls without signatures
	Alternate        bool           // may refuse successive messages of the user or of the assistant
	Progress         bool           // reports how much of the prompt it has read

	Timeout   time.Duration // to the first byte
	Idle      time.Duration // between bytes
	Quiet     time.Duration // without data, while other bytes arrive
	Transport http.RoundTripper
}

// Client calls one endpoint. It may be used by several goroutines.
type Client struct {
	e          Endpoint
	options    []option.RequestOption
	unstreamed atomic.Bool // the endpoint refused to stream
}

// NewClient returns a client of an endpoint. It does not read the environment.
func NewClient(e Endpoint) *Client { return &Client{e: e, options: e.options()} }

// Send makes one attempt for a complete response. Its error is that of ctx if
// ctx ended, else an *Error.
func (c *Client) Send(ctx context.Context, r Request) (*Response, error) {
	a := c.begin(ctx, r, false)
	defer a.end()
	var body []byte
	if err := a.post(r, &body); err != nil {
		return nil, a.fail(err)
	}
	answer, err := completion(body)
	if err != nil {
		return nil, a.fail(err)
	}
	names := namesOf(r.Tools)
	for i := range answer.Message.ToolCalls {
		call := &answer.Message.ToolCalls[i].Function
		call.Name = names.tool(call.Name)
	}
	return answer, nil
}

// Stream makes one attempt. The iterator ends after the response, or after one
// error as in Send. Stopping the iteration cancels the call.
func (c *Client) Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		err := errUnstreamed
		if !c.unstreamed.Load() {
			err = c.stream(ctx, r, yield)
		}
		if e, ok := errors.AsType[*Error](err); ok && e.refusesStream() {
			c.unstreamed.Store(true)
			err = errUnstreamed
		}
		if err == errUnstreamed {
			var res *Response
			if res, err = c.Send(ctx, r); err == nil {
				yield(res.chunk(), nil)
			}
		}
		if err != nil {
			yield(Chunk{}, err)
		}
	}
}

// errUnstreamed means that an endpoint does not stream.
var errUnstreamed = errors.New("the endpoint does not stream")

// stream makes one attempt to stream a response.
func (c *Client) stream(ctx context.Context, r Request, yield func(Chunk, error) bool) error {
	a := c.begin(ctx, r, true)
	defer a.end()
	var res *http.Response
	if err := a.post(r, &res); err != nil {
		return a.fail(err)
	}
	defer res.Body.Close()
	if err := a.chunks(res, r.OnProgress, namesOf(r.Tools).chunks(yield)); err != nil {
		return a.fail(err)
	}
	return nil
}

// attempt is one call under way. Its timer cancels it: after Timeout until the
// headers are there, after Idle from then on and from each byte, and after Quiet
// without data.
type attempt struct {
	c      *Client
	model  string
	stream bool
	parent context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	why    atomic.Pointer[timeoutError] // that the timer reports
	last   timeoutError                 // limit for the next data
	until  time.Time                    // end of that limit
	first  time.Duration                // limit for the first byte
}

func (c *Client) begin(ctx context.Context, r Request, stream bool) *attempt {
	a := &attempt{c: c, model: r.Model, stream: stream, parent: ctx}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	wait := c.e.Timeout
	if r.Timeout > 0 {
		wait = r.Timeout
	}
	if !r.Until.IsZero() {
		wait = max(min(wait, time.Until(r.Until)), 0)
	}
	a.first = wait
	a.expect("no data", max(c.e.Quiet, wait))
	a.await("no answer", wait)
	return a
}

// expect sets the limit for the next data.
func (a *attempt) expect(what string, d time.Duration) {
	a.last, a.until = timeoutError{what, d}, time.Now().Add(d)
}

// await starts or restarts the timer. It does not exceed the limit for data.
func (a *attempt) await(what string, d time.Duration) {
	why := &timeoutError{what, d}
	if left := time.Until(a.until); left < d {
		last := a.last
		why, d = &last, max(left, 0)
	}
	a.why.Store(why)
	if a.timer == nil {
		a.timer = time.AfterFunc(d, func() { a.cancel(a.why.Load()) })
		return
	}
	a.timer.Reset(d)
}

// alive restarts the timer after bytes of any kind.
func (a *attempt) alive() {
	if a.stream {
		a.await("the stream stalled: no byte", a.c.e.Idle)
	}
}

// rest stops the timer, while it is not the endpoint that is waited for.
func (a *attempt) rest() { a.timer.Stop() }

func (a *attempt) end() {
	a.rest()
	a.cancel(nil)
}

// fail converts an error of a call to the error of Send and Stream.
func (a *attempt) fail(err error) error {
	if a.parent.Err() != nil {
		return context.Cause(a.parent)
	}
	e, ok := errors.AsType[*Error](err)
	if why, late := errors.AsType[*timeoutError](context.Cause(a.ctx)); late {
		e = transportError(why)
	} else if !ok {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the URL
		}
		e = transportError(err)
	}
	e.Provider, e.Model = a.c.e.Provider, a.model
	e.clean(a.c.e.Secrets)
	return e
}

// permanent returns an error for a response that would be the same after a retry.
func permanent(format string, args ...any) *Error {
	return &Error{Err: fmt.Errorf(format, args...), cause: ErrInvalid}
}

// completion reads an answer that was not streamed.
func completion(body []byte) (*Response, error) {
	if err := inBand(body); err != nil {
		return nil, err
	}
	w, err := decode(body)
	if err != nil {
		return nil, permanent("decode response: %w", err)
	}
	if len(w.Choices) == 0 {
		return nil, permanent("the response has no choices")
	}
	if err := w.Choices[0].failed(); err != nil {
		return nil, err
	}
	m := &w.Choices[0].Message
	text, thoughts := separate(m.text())
	r := &Response{Finish: w.Choices[0].FinishReason, Usage: w.usage(), Message: sessionlog.Message{
		Role: record.RoleAssistant, Content: text, ReasoningContent: m.thoughts() + thoughts,
	}}
	if len(m.ToolCalls) > maxCalls {
		return nil, permanent("the response has more than %d tool calls; the call was canceled", maxCalls)
	}
	for _, t := range m.ToolCalls {
		if len(t.Function.Arguments) > maxArguments {
			return nil, permanent("the arguments of a tool call have more than %d bytes; the model call was canceled", maxArguments)
		}
		r.Message.ToolCalls = append(r.Message.ToolCalls, sessionlog.ToolCall{
			ID: callID(t.ID), Type: t.Type,
			Function: sessionlog.Function{Name: t.Function.Name, Arguments: string(t.Function.Arguments)},
		})
	}
	return r, nil
}
