package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"crabmem/daemon/process"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// httpClient returns a client for one address. It sends the token only to that
// host, regardless of redirects. When life ends, all requests end, except the
// last one, which closes a session. A request without any response ends after
// late.
func httpClient(life context.Context, address, token string, late time.Duration, dial dialer) *http.Client {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, // does not apply to this machine
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, connectTimeout)
			defer cancel()
			return dial(ctx, network, address)
		},
		TLSHandshakeTimeout:    connectTimeout,
		ResponseHeaderTimeout:  late,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        keepAlive,
		ForceAttemptHTTP2:      true,
	}
	b := &bearer{life: life, token: token, next: t}
	if u, err := url.Parse(address); err == nil {
		b.scheme, b.host, b.user, b.query = u.Scheme, u.Host, u.User, u.RawQuery
	}
	return &http.Client{Transport: b, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if !b.same(r.URL) {
			return fmt.Errorf("redirect to %s not followed: configure that address if it is correct", r.URL.Host)
		}
		if len(via) > 3 {
			return errors.New("redirect loop")
		}
		return nil
	}}
}

// A dialer connects to an address.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// dialComponent connects to a component and checks that the user owns the port:
// the port file of a killed component stays, and another user may have its
// port.
func (m *Manager) dialComponent(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := m.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	a, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err == nil {
		err = m.checkOwner(a)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// withoutSecrets returns an address without the user and the query, which may be
// secrets: no error has them. The client of httpClient adds both.
func withoutSecrets(address string) string {
	if u, err := url.Parse(address); err == nil {
		u.User, u.RawQuery = nil, ""
		address = u.String()
	}
	return address
}

// overHTTP speaks with an address.
func overHTTP(address string, client *http.Client) sdk.Transport {
	return &sdk.StreamableClientTransport{
		Endpoint: withoutSecrets(address), HTTPClient: client,
		MaxRetries:   -1, // the manager reconnects and lists the tools again
		MaxEventSize: maxFrame,
	}
}

// sseTransport is the transport of MCP 2024-11-05. Its stream ends with life, and not
// with the context of Connect.
type sseTransport struct {
	sdk.SSEClientTransport
	life context.Context
}

func (t *sseTransport) Connect(context.Context) (sdk.Connection, error) {
	return t.SSEClientTransport.Connect(t.life)
}

// bearer adds a token to requests and limits responses.
type bearer struct {
	life                context.Context
	token, scheme, host string
	user                *url.Userinfo
	query               string
	next                *http.Transport
	sse                 bool         // the old transport, whose stream cannot be resumed
	refused             atomic.Bool  // a message, as servers of the old transport do
	busy                atomic.Int32 // requests that are not answered
}

func (b *bearer) same(u *url.URL) bool { return u.Scheme == b.scheme && u.Host == b.host }

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if !b.same(r.URL) {
		return nil, fmt.Errorf("%s is not the configured server", r.URL.Host)
	}
	ctx, cancel := context.WithCancel(r.Context())
	asked := r
	r = r.Clone(ctx)
	if r.URL.RawQuery == "" {
		r.URL.RawQuery = b.query
	}
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	} else if password, ok := b.user.Password(); ok || b.user.Username() != "" {
		r.SetBasicAuth(b.user.Username(), password)
	}
	end := cancel
	if r.Method != http.MethodDelete {
		stop := context.AfterFunc(b.life, cancel)
		end = func() { stop(); cancel() }
	}
	resp, err := b.send(r)
	if err != nil {
		end()
		return nil, err
	}
	body := &boundedBody{ReadCloser: resp.Body, end: end, done: ctx.Done(), left: maxFrame}
	resp.Body, resp.Request = body, asked
	if isEventStream(resp) {
		// The length of an event stream is not limited, but that of each event is.
		body.Shape.Events = true
		if !b.sse {
			resp.Body = b.follow(ctx, r, resp, body)
		}
	}
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
		b.refused.CompareAndSwap(false, r.Method == http.MethodPost)
	}
	return resp, nil
}

// headerTimeout limits the wait for the header of a requested event stream.
const headerTimeout = 3 * time.Second

// send sends a request. A server that does not respond to the request for a
// stream of events has no stream: the caller waits for the response. That does not
// apply to the continuation of a stream.
func (b *bearer) send(r *http.Request) (*http.Response, error) {
	defer b.busy.Add(-1)
	if b.busy.Add(1) > maxBusy {
		return nil, fmt.Errorf("%d requests pending", maxBusy)
	}
	if r.Method != http.MethodGet || r.Header.Get(lastEventHeader) != "" {
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
	context.AfterFunc(r.Context(), cancel) // at the latest when the body is closed
	return resp, nil
}

// CloseIdleConnections implements an optional interface of http.Client.
func (b *bearer) CloseIdleConnections() { b.next.CloseIdleConnections() }

// boundedBody is a body that fails when it is too long, or a stream of events
// that comes no faster than it is worth.
type boundedBody struct {
	io.ReadCloser
	end  func()
	done <-chan struct{}
	left int // unless it is a stream
	process.Shape
	process.Pace
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if !b.Events {
		if b.left <= 0 {
			var one [1]byte
			if n, err := b.ReadCloser.Read(one[:]); n == 0 {
				return 0, err
			}
			return 0, fmt.Errorf("response exceeds %d MiB", maxFrame>>20)
		}
		p = p[:min(len(p), b.left)]
	}
	n, err := b.ReadCloser.Read(p)
	if tooMany := b.Shape.Add(p[:n]); tooMany != nil {
		return 0, tooMany
	}
	if !b.Events {
		b.left -= n
	} else if !b.Wait(bytes.Count(p[:n], []byte{'\n'}), n, b.done) {
		return 0, context.Canceled
	}
	return n, err
}

func (b *boundedBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
