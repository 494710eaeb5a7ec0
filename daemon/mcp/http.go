package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxFrame bounds a message of a server, in bytes.
const maxFrame = 8 << 20

// httpClient returns a client for one address. The token goes to that host and
// nowhere else, wherever the server sends us.
func httpClient(address, token string) *http.Client {
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment, // none for this machine
		DialContext:            (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout:    connectTimeout,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        keepAlive,
		ForceAttemptHTTP2:      true,
	}
	b := &bearer{token: token, next: t}
	if u, err := url.Parse(address); err == nil {
		b.scheme, b.host = u.Scheme, u.Host
	}
	return &http.Client{Transport: b, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if !b.same(r.URL) {
			return fmt.Errorf("it sends us to %s: configure that address if it is right", r.URL.Host)
		}
		if len(via) > 3 {
			return errors.New("it sends us round in circles")
		}
		return nil
	}}
}

// bearer sends a token along, and bounds what comes back.
type bearer struct {
	token, scheme, host string
	next                *http.Transport
}

func (b *bearer) same(u *url.URL) bool { return u.Scheme == b.scheme && u.Host == b.host }

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if !b.same(r.URL) {
		return nil, fmt.Errorf("%s is not the server that was configured", r.URL.Host)
	}
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	resp, err := b.send(r)
	if err != nil {
		return nil, err
	}
	// A stream of events goes on for ever; each event is bounded where it is read.
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = &boundedBody{resp.Body, maxFrame}
	}
	return resp, nil
}

// headerTimeout is how long a server may take to begin the stream of events that
// it is asked for.
const headerTimeout = 3 * time.Second

// send sends a request. A server that is asked for a stream of events, and says
// nothing, has none: somebody waits for the answer that it would be.
func (b *bearer) send(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		return b.next.RoundTrip(r)
	}
	ctx, cancel := context.WithCancel(r.Context())
	late := time.AfterFunc(headerTimeout, cancel)
	resp, err := b.next.RoundTrip(r.WithContext(ctx))
	if !late.Stop() && r.Context().Err() == nil {
		if err == nil {
			resp.Body.Close()
		}
		cancel()
		return &http.Response{
			Status: "405 Method Not Allowed", StatusCode: http.StatusMethodNotAllowed,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: r,
		}, nil
	}
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &cancelBody{resp.Body, cancel}
	return resp, nil
}

type cancelBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *cancelBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

// CloseIdleConnections is what http.Client asks for.
func (b *bearer) CloseIdleConnections() { b.next.CloseIdleConnections() }

// boundedBody is a body that fails when it is too long.
type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		var one [1]byte
		if n, err := b.ReadCloser.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, fmt.Errorf("an answer of more than %d MiB", maxFrame>>20)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
