package chat

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
)

// post sends a request. Its response has a status of 2xx and a limited body,
// which the caller closes.
func (a *attempt) post(r Request) (*http.Response, error) {
	e := &a.c.e
	body, err := e.body(r, a.stream)
	if err != nil {
		return nil, &Error{Err: err}
	}
	to := e.URL + "chat/completions"
	if len(e.Query) > 0 {
		to += "?" + e.Query.Encode()
	}
	q, err := http.NewRequestWithContext(a.ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, &Error{Err: err}
	}
	q.Header.Set("User-Agent", "crabmem")
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json")
	if a.stream {
		q.Header.Set("Accept", "text/event-stream, application/json")
	}
	maps.Copy(q.Header, e.Header)
	if e.Sign != nil {
		if err := e.Sign(q, body); err != nil {
			return nil, &Error{Err: err}
		}
	}
	client := http.Client{Transport: (*transport)(a)}
	return client.Do(q)
}

// transport is that of one attempt. It returns an error for a redirect, so that
// a key is sent to the configured host only.
type transport attempt

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	e := &t.c.e
	res, err := e.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		return nil, refusal(res)
	}
	limit := &limitedBody{body: res.Body, left: maxBody}
	if t.stream {
		limit.left, limit.events = maxStream, true
	}
	res.Body = limit
	if a := (*attempt)(t); t.stream {
		a.await("the stream did not begin", e.Idle)
	} else {
		a.await("the answer did not end", max(e.Idle, e.Timeout))
	}
	return res, nil
}

// refusal is the error for an unexpected response.
func refusal(res *http.Response) *Error {
	if res.StatusCode/100 == 3 {
		to := "nowhere"
		if u, err := url.Parse(res.Header.Get("Location")); err == nil && u.Host != "" {
			to = u.Scheme + "://" + u.Host
		} else if err == nil && u.Path != "" {
			to = u.Path
		}
		return &Error{
			Status: res.StatusCode,
			Err:    fmt.Errorf("redirect to %q not followed: set base_url to the correct address", shorten(to, 200)),
		}
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // a partial body is enough
	return statusError(res.StatusCode, res.Header, body)
}

// limitedBody reads no more than left bytes, and when it has events no more
// than maxEvent between two empty lines. At the end of a stream it puts an
// empty line, which some endpoints leave out after the last event.
type limitedBody struct {
	body   io.ReadCloser
	left   int64
	events bool
	event  int // bytes since an empty line
	line   int // bytes of the last line but for CR
	tail   string
	err    error
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.err != nil {
		n := copy(p, b.tail)
		b.tail = b.tail[n:]
		if n > 0 || len(p) == 0 {
			return n, nil
		}
		return 0, b.err
	}
	n, err := b.body.Read(p)
	b.left -= int64(n)
	b.err = err
	if b.events {
		b.count(p[:n])
	}
	switch {
	case b.left < 0:
		b.err = permanent("the response exceeds the size limit; the call was canceled")
	case b.event > maxEvent:
		b.err = permanent("an event of the stream is longer than %d bytes; the call was canceled", maxEvent)
	case err == io.EOF && b.events:
		b.tail = "\n\n"
	}
	if b.err != nil && b.err != io.EOF {
		return 0, b.err
	}
	return n, nil
}

func (b *limitedBody) count(p []byte) {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			b.line += len(p) - bytes.Count(p, []byte{'\r'})
			b.event += len(p)
			return
		}
		b.line += i - bytes.Count(p[:i], []byte{'\r'})
		b.event += i + 1
		if b.line == 0 {
			b.event = 0
		}
		b.line = 0
		p = p[i+1:]
		if b.event > maxEvent {
			return
		}
	}
}

func (b *limitedBody) Close() error { return b.body.Close() }
