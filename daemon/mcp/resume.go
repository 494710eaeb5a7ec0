package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"crabmem/daemon/process"
)

// Limits of resumed streams. The call has its own time limit.
const (
	maxResumes   = 100              // of one stream
	maxFruitless = 5                // resumes in a row without an event
	maxResumed   = 4 * maxFrame     // bytes after the first resume
	firstPause   = time.Second      // before a resume, if the server names no time
	shortPause   = time.Second / 10 // that a server may name
	longPause    = 30 * time.Second
	maxEventID   = 4 << 10
)

// followedBody is the body of an event stream that continues after the server closed
// it. A server may close the stream of a call, and let the client poll for the
// response. followedBody then requests the events after the last complete one. If
// that fails, it returns an error as the response of the call.
type followedBody struct {
	*boundedBody
	ctx  context.Context
	open func(lastEvent string) (*http.Response, error)
	call json.RawMessage // ID of the call; nil if the stream belongs to no call
	eventScanner

	resumes, fruitless int
	resumed            int    // bytes
	inserted           []byte // to return before the next bytes of the stream
	done               bool   // the stream is not resumed any more
}

func (f *followedBody) Read(p []byte) (int, error) {
	for {
		if len(f.inserted) > 0 {
			n := copy(p, f.inserted)
			f.inserted = f.inserted[n:]
			return n, nil
		}
		n, err := f.boundedBody.Read(p)
		complete := f.complete
		f.scan(p[:n], f.call)
		if f.complete > complete {
			f.fruitless = 0
		}
		if f.resumes > 0 {
			f.resumed += n
		}
		if n > 0 {
			if lost(err) {
				err = nil // occurs again
			}
			return n, err
		}
		if err == nil || f.done || f.answered || f.id == "" || !lost(err) || f.ctx.Err() != nil {
			return 0, err
		}
		if err := f.resume(); err != nil {
			f.done = true
			if f.call == nil || f.ctx.Err() != nil {
				return 0, io.EOF
			}
			f.inserted = append(f.inserted, failedResponse(f.call, err)...)
		}
	}
}

// lost reports whether err means that the stream ended or the connection broke.
func lost(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || network
}

// resume requests the continuation of the stream, and replaces the body with it. It
// retries until a limit is reached.
func (f *followedBody) resume() error {
	f.inserted = f.discard()
	f.boundedBody.ReadCloser.Close()
	for {
		switch {
		case f.resumes == maxResumes:
			return fmt.Errorf("server closed the stream %d times", maxResumes)
		case f.fruitless == maxFruitless:
			return fmt.Errorf("server sent nothing on %d streams", maxFruitless)
		case f.resumed > maxResumed:
			return fmt.Errorf("server sent more than %d MiB without a response", maxResumed>>20)
		}
		pause := f.retry
		if pause == 0 {
			pause = firstPause << f.fruitless
		}
		f.resumes++
		f.fruitless++
		select {
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		case <-time.After(pause):
		}
		resp, err := f.open(f.id)
		if err != nil {
			if f.fruitless < maxFruitless && f.ctx.Err() == nil {
				continue
			}
			return err
		}
		if isEventStream(resp) {
			f.boundedBody.ReadCloser, f.boundedBody.Shape = resp.Body, process.Shape{Events: true}
			return nil
		}
		resp.Body.Close()
		if resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
			return fmt.Errorf("server does not continue the stream: %s", clipped(oneLine(resp.Status), 100))
		}
	}
}

func isEventStream(resp *http.Response) bool {
	return resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
}

// failedResponse returns an event with an error as the response of a call.
func failedResponse(call json.RawMessage, err error) []byte {
	const internalError = -32603
	b, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": call, "error": map[string]any{
		"code": internalError, "message": "resume stream: " + clipped(oneLine(err.Error()), maxDescription),
	}})
	return fmt.Appendf(nil, "data: %s\n\n", b)
}

// eventScanner finds the IDs of the events of a stream, and the response of a call.
type eventScanner struct {
	id       string        // of the last complete event
	retry    time.Duration // before a resume; 0 if the server named none
	answered bool          // the response of the call is complete
	complete int           // events

	line, data []byte // of the current event
	next       string // ID of the current event
	partial    bool   // the current event has a byte
	tooLong    bool   // the current event; the SDK refuses it
}

// scan reads the next bytes of the stream.
func (e *eventScanner) scan(b []byte, call json.RawMessage) {
	for len(b) > 0 && !e.answered {
		i := bytes.IndexByte(b, '\n')
		part := b
		if i >= 0 {
			part = b[:i]
		}
		e.partial = e.partial || len(part) > 0
		if e.tooLong = e.tooLong || len(e.line)+len(e.data)+len(part) > maxFrame; !e.tooLong {
			e.line = append(e.line, part...)
		}
		if i < 0 {
			return
		}
		e.endLine(call)
		b = b[i+1:]
	}
}

func (e *eventScanner) endLine(call json.RawMessage) {
	line := bytes.TrimSuffix(e.line, []byte{'\r'})
	e.line = e.line[:0]
	if len(line) == 0 && !e.tooLong {
		e.endEvent(call)
		return
	}
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "id":
		// An ID with other bytes cannot be sent in a header.
		if len(value) <= maxEventID && bytes.IndexFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
			e.next = string(value)
		}
	case "data":
		if call == nil {
			return
		}
		e.data = append(append(e.data, value...), '\n')
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 32); err == nil {
			e.retry = min(max(time.Duration(ms)*time.Millisecond, shortPause), longPause)
		}
	}
}

func (e *eventScanner) endEvent(call json.RawMessage) {
	if e.partial {
		e.complete++
	}
	if e.next != "" {
		e.id = e.next
	}
	if call != nil && len(e.data) > 0 {
		var m struct {
			ID     json.RawMessage
			Method *json.RawMessage
		}
		e.answered = json.Unmarshal(e.data, &m) == nil && m.Method == nil && bytes.Equal(m.ID, call)
	}
	e.drop()
}

func (e *eventScanner) drop() {
	e.line, e.data, e.next, e.partial, e.tooLong = nil, nil, "", false, false
}

// discard drops the current, incomplete event. It returns bytes after which a reader
// of the stream also ignores this event.
func (e *eventScanner) discard() []byte {
	if !e.partial {
		return nil
	}
	e.drop()
	return []byte(":\nevent: interrupted\n\n")
}

// callID returns the ID of the call that a request sends, or nil.
func callID(r *http.Request) json.RawMessage {
	if r.Method != http.MethodPost || r.GetBody == nil {
		return nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil
	}
	defer body.Close()
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if json.NewDecoder(body).Decode(&m) != nil || m.Method == "" || len(m.ID) == 0 {
		return nil
	}
	return m.ID
}

// follow returns a followedBody for the event stream that is the response to r. It
// requests continuations with the headers of r, until ctx ends.
func (b *bearer) follow(ctx context.Context, r *http.Request, resp *http.Response, body *boundedBody) io.ReadCloser {
	call := callID(r)
	if call == nil && r.Method != http.MethodGet {
		return body
	}
	session := resp.Header.Get("Mcp-Session-Id")
	return &followedBody{boundedBody: body, ctx: ctx, call: call, open: func(lastEvent string) (*http.Response, error) {
		next := r.Clone(ctx)
		next.Method, next.Body, next.GetBody, next.ContentLength = http.MethodGet, nil, nil, 0
		next.Header.Del("Content-Type")
		next.Header.Set("Accept", "text/event-stream")
		next.Header.Set(lastEventHeader, lastEvent)
		if next.Header.Get("Mcp-Session-Id") == "" && session != "" {
			next.Header.Set("Mcp-Session-Id", session)
		}
		return b.send(next)
	}}
}

const lastEventHeader = "Last-Event-ID"
