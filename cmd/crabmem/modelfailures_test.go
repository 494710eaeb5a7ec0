package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"crabmem/daemon"
	"crabmem/daemon/model"
)

// A modelFailure is a way in which a provider fails.
type modelFailure struct {
	name   string
	serve  http.HandlerFunc // nil: base has the address
	base   string
	tls    bool
	config string // of the provider
}

const modelChunk = `data: {"choices":[{"delta":{"content":"The first half"}}]}` + "\n\n"

// refuseModel returns a handler that sends an error with headers.
func refuseModel(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func streamModel(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, text)
	}
}

// modelFailures are the failures that [TestModelFailures] shows.
func modelFailures() []modelFailure {
	const limited = `{"error":{"message":"Rate limit reached for requests","type":"requests","code":"rate_limit_exceeded"}}`
	return []modelFailure{
		{name: "wrong key (401)", serve: refuseModel(401, `{"error":{"message":"Incorrect API key provided: sk-planted","type":"invalid_request_error","code":"invalid_api_key"}}`)},
		{name: "access denied (403)", serve: refuseModel(403, `{"error":{"message":"Project does not have access to model m","type":"invalid_request_error","code":"access_denied"}}`)},
		{name: "unknown model (404)", serve: refuseModel(404, `{"error":{"message":"The model m does not exist","type":"invalid_request_error","code":"model_not_found"}}`)},
		{name: "rate limit with retry-after (429)", serve: refuseModel(429, limited, "Retry-After", "8")},
		{name: "rate limit with a long retry-after (429)", serve: refuseModel(429, limited, "Retry-After", "3600")},
		{name: "rate limit without retry-after (429)", serve: refuseModel(429, limited)},
		{name: "rate limit that ends", serve: func() http.HandlerFunc {
			var n atomic.Int32
			return func(w http.ResponseWriter, r *http.Request) {
				if n.Add(1) <= 2 {
					refuseModel(429, limited, "Retry-After", "8")(w, r)
					return
				}
				streamModel(modelChunk+`data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`+"\n\n")(w, r)
			}
		}()},
		{name: "insufficient quota (429)", serve: refuseModel(429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}`)},
		{name: "server error (503)", serve: refuseModel(503, `{"error":{"message":"The engine is currently overloaded","type":"server_error","code":null}}`)},
		{name: "context overflow", serve: refuseModel(400, `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`)},
		{name: "stream cut off", serve: func(w http.ResponseWriter, r *http.Request) {
			streamModel(modelChunk)(w, r)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}},
		{name: "stream without an end", serve: streamModel(modelChunk)},
		{name: "invalid JSON", serve: streamModel("data: {\"choices\":[{\n\n")},
		{name: "a web page", serve: streamModel("<html>Welcome</html>")},
		{name: "refused connection", base: "http://127.0.0.1:1/v1"},
		{name: "unknown host", base: "http://llm.invalid/v1"},
		{name: "resolver without a network", base: "http://offline.invalid/v1"},
		{name: "unknown certificate", serve: streamModel(""), tls: true},
		{name: "HTTPS address of an HTTP server", base: "https://HOST/v1", serve: streamModel("")},
		{name: "time-out", config: "timeout = \"20ms\"\n", serve: func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
	}
}

// counted counts the attempts of calls.
type counted struct {
	http.RoundTripper
	calls *atomic.Int32
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

// failingNetwork returns a network that resolves no name and does not wait. A
// refused connection is the same on all systems.
func failingNetwork(calls *atomic.Int32) model.Network {
	dialer := &net.Dialer{}
	return model.Network{
		Transport: counted{calls: calls, RoundTripper: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			host, port, _ := net.SplitHostPort(address)
			switch {
			case host == "llm.invalid":
				return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}}
			case host == "offline.invalid":
				return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "server misbehaving", Name: host, IsTemporary: true}}
			case port == "1":
				addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
				return nil, &net.OpError{Op: "dial", Net: network, Addr: addr, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
			}
			return dialer.DialContext(ctx, network, address)
		}}},
		Wait:   func(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) },
		Jitter: func(time.Duration) time.Duration { return 0 },
	}
}

// serveModels serves a home whose only model is at an address, on a network.
func serveModels(t *testing.T, n model.Network, base, config string) *place {
	t.Helper()
	p := newPlace(t, false)
	p.write("config.toml", fmt.Sprintf("sessions.titles = \"off\"\n[provider.p]\nkind = \"openai-compatible\"\nbase_url = %q\napi_key = \"sk-planted\"\nmodels = [\"m\"]\n%s", base, config))
	stop, err := serveHome(daemon.Options{Home: p.home, Getenv: func(string) string { return "" }, Network: n})
	if err != nil {
		t.Fatal(err)
	}
	p.stop = stop
	return p
}

// TestModelFailures compares what crabmem send prints for each failure of a
// provider with a golden file. It contains the kind of the error, and how often
// the provider was called.
func TestModelFailures(t *testing.T) {
	t.Parallel()
	var golden strings.Builder
	for _, f := range modelFailures() {
		var calls atomic.Int32
		host := "HOST"
		if f.serve != nil {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				f.serve(w, r)
			}))
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			if s.Start(); f.tls {
				s.Close()
				s = httptest.NewUnstartedServer(s.Config.Handler)
				s.Config.ErrorLog = log.New(io.Discard, "", 0)
				s.StartTLS()
			}
			t.Cleanup(s.Close)
			host = s.Listener.Addr().String()
			if f.base == "" {
				f.base = s.URL + "/v1"
			}
		}
		p := serveModels(t, failingNetwork(&calls), strings.Replace(f.base, "HOST", host, 1), f.config)
		out, diag, code := p.runs("send", "hi")
		sent := calls.Load()
		_, object, _ := p.runs("send", "--json", "hi")
		p.ends()
		_, kind, _ := strings.Cut(object, `"kind":"`)
		kind, _, _ = strings.Cut(kind, `"`)
		if code == 0 {
			kind = "none"
		}
		fmt.Fprintf(&golden, "== %s: exit code %d, kind %s, %d calls\n%s%s\n", f.name, code, kind, sent, out, strings.ReplaceAll(diag, host, "HOST"))
		if strings.Contains(out+diag, "sk-planted") {
			t.Errorf("%s: the output contains the key: %s%s", f.name, out, diag)
		}
	}
	name := filepath.Join("..", "..", "testdata", "golden", "model-failures.txt")
	if *update {
		if err := os.WriteFile(name, []byte(golden.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || golden.String() != string(want) {
		t.Errorf("%v: got\n%s\nwant\n%s", err, golden.String(), want)
	}
}

// TestInterruptModelWait checks that an interrupt ends the wait of a retry: the
// daemon stops waiting, and the session has no run.
func TestInterruptModelWait(t *testing.T) {
	s := httptest.NewServer(refuseModel(429, `{}`, "Retry-After", "50"))
	t.Cleanup(s.Close)
	ended := make(chan error, 1)
	p := serveModels(t, model.Network{Wait: func(ctx context.Context, _ time.Duration) error {
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return context.Cause(ctx)
	}}, s.URL+"/v1", "")
	ctx, interrupt := context.WithCancelCause(t.Context())
	diag := &interruptingWriter{func() { interrupt(&interrupted{os.Interrupt}) }, ""}
	c := newApp(strings.NewReader(""), io.Discard, diag)
	c.Getenv = func(k string) string { return map[string]string{"CRABTALK_HOME": p.home}[k] }
	if err := c.execute(ctx, []string{"send", "hi"}); !errors.As(err, new(*interrupted)) {
		t.Errorf("send: %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("the wait ended without a cause")
	}
	if diag.text != "note: rate limited; retrying in 50 s (attempt 2 of 6)\n" {
		t.Errorf("standard error: %q", diag.text)
	}
}

// interruptingWriter calls a function at each write.
type interruptingWriter struct {
	interrupt func()
	text      string
}

func (w *interruptingWriter) Write(p []byte) (int, error) {
	w.text += string(p)
	w.interrupt()
	return len(p), nil
}
