package chat

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/openai/openai-go"
	"github.com/openai/openai-go/option"

	"crabmem/crmem/embed/endpoint"
)

// options returns the options of each request to an endpoint.
func (e *Endpoint) options() []option.RequestOption {
	list := endpoint.RequestOptions(e.URL)
	for name, values := range e.Query {
		list = append(list, option.WithQuery(name, values[0]))
	}
	for name, values := range e.Header {
		list = append(list, option.WithHeader(name, values[0]))
	}
	if e.Sign != nil {
		list = append(list, option.WithMiddleware(e.sign))
	}
	return list
}

func (e *Endpoint) sign(q *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	from, err := q.GetBody()
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(from)
	if err == nil {
		err = e.Sign(q, body)
	}
	if err != nil {
		return nil, &Error{Err: err}
	}
	return next(q)
}

// post sends a request. It sets into to the body, or to the response, which has a
// status of 2xx and a limited body that the caller closes.
func (a *attempt) post(r Request, into any) error {
	p, err := a.c.e.params(r, a.stream)
	if err != nil {
		return &Error{Err: err}
	}
	accept := "application/json"
	if a.stream {
		accept = "text/event-stream, application/json"
	}
	options := []option.RequestOption{option.WithHeader("Accept", accept), option.WithHTTPClient(&http.Client{Transport: (*transport)(a)})}
	if a.stream && a.c.e.Progress {
		options = append(options, option.WithJSONSet("return_progress", true))
	}
	// No type has a field of openai.Client: the linker would keep all its methods, 3.7 MB.
	api := openai.Client{Options: a.c.options} // openai.NewClient reads the environment
	err = api.Post(a.ctx, "chat/completions", p, into, options...)
	if e, ok := errors.AsType[*openai.Error](err); ok {
		body, _ := io.ReadAll(e.Response.Body) // the library has read it
		return statusError(e.StatusCode, e.Response.Header, body)
	}
	return err
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
	switch {
	case res.StatusCode >= 400:
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // a partial body is enough
		res.Body.Close()
		res.Body = io.NopCloser(bytes.NewReader(body))
		return res, nil
	case res.StatusCode >= 300:
		res.Body.Close()
		return nil, redirected(res)
	}
	a := (*attempt)(t)
	limit := &limitedBody{ReadCloser: res.Body, left: maxBody, alive: a.alive}
	if t.stream {
		limit.left = maxStream
	}
	res.Body = limit
	if t.stream {
		a.await("the stream did not begin", max(e.Idle, min(a.first, e.Timeout/3)))
	} else {
		a.await("the answer did not end", max(e.Idle, a.first))
	}
	return res, nil
}

// redirected returns the error of a redirect.
func redirected(res *http.Response) *Error {
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

// limitedBody reads no more than left bytes.
type limitedBody struct {
	io.ReadCloser
	left  int64
	alive func() // is called after each byte
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, permanent("the response exceeds the size limit; the call was canceled")
	}
	if n > 0 {
		b.alive()
	}
	return n, err
}
