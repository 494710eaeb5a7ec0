package chat

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// http returns the client of one attempt. A redirect is an error of its
// transport, so none is ever followed: a key goes to the configured host only.
func (a *attempt) http() *http.Client {
	return &http.Client{Transport: (*transport)(a)}
}

type transport attempt

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	e := &t.c.e
	r = r.Clone(r.Context())
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Stainless-") {
			r.Header.Del(name) // of the SDK: system, versions
		}
	}
	r.Header.Set("User-Agent", "crabmem")
	if t.stream {
		r.Header.Set("Accept", "text/event-stream, application/json")
	}
	for name, values := range e.Header {
		r.Header[name] = values
	}
	if e.Sign != nil {
		if err := sign(r, e.Sign); err != nil {
			return nil, err
		}
	}
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

func sign(r *http.Request, by func(*http.Request, []byte) error) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(body))
	return by(r, body)
}

// refusal is an answer that is neither what was asked for nor silence.
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
			Err:    fmt.Errorf("the endpoint redirects to %q, which is not followed: put the right address in base_url", shorten(to, 200)),
		}
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // what there is of it will do
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
		b.err = permanent("the answer is longer than any that is read; the call was given up")
	case b.event > maxEvent:
		b.err = permanent("an event of the stream is longer than %d bytes; the call was given up", maxEvent)
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
