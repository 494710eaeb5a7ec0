package mcp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/process"
	"crabmem/daemon/tool"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// oneResponse returns a dialer whose connections send one response, and a
// channel that receives the times at which they end.
func oneResponse(began time.Time, response string) (dialer, chan time.Duration) {
	ended := make(chan time.Duration, 10)
	return func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			in := bufio.NewReader(there)
			if _, err := http.ReadRequest(in); err == nil {
				go io.WriteString(there, response)
			}
			io.Copy(io.Discard, in)
			ended <- time.Since(began)
		}()
		return here, nil
	}, ended
}

func get(t *testing.T, client *http.Client, method, url string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client.Do(r)
}

// TestCredentials compares the header of a request, by the configured address.
func TestCredentials(t *testing.T) {
	for address, want := range map[string]string{
		"http://127.0.0.1/": "", "http://me@127.0.0.1/": "me:", "http://:pass@127.0.0.1/": ":pass", "http://me:pass@127.0.0.1/": "me:pass", "http://:@127.0.0.1/": ":",
	} {
		synctest.Test(t, func(t *testing.T) {
			got := ""
			client := httpClient(t.Context(), address, "", time.Second, func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				go func() {
					defer there.Close()
					if r, err := http.ReadRequest(bufio.NewReader(there)); err == nil {
						user, password, ok := r.BasicAuth()
						if got = user + ":" + password; !ok {
							got = ""
						}
					}
				}()
				return here, nil
			})
			if _, err := get(t, client, http.MethodPost, "http://127.0.0.1/"); err == nil || got != want { //nolint:bodyclose // there is no response
				t.Errorf("%s: %q, %v", address, got, err)
			}
			client.CloseIdleConnections()
		})
	}
}

// TestResponseLimits reads responses with a long header, and bodies at the limits.
func TestResponseLimits(t *testing.T) {
	for _, tt := range []struct{ header, body, want string }{
		{strings.Repeat("x", 60<<10), "", "<nil>"}, {strings.Repeat("x", 70<<10), "", "exceeded 65536 bytes"}, {"", strings.Repeat(" ", maxFrame), "<nil>"}, {"", strings.Repeat(" ", maxFrame+1), "response exceeds 8 MiB"},
		{"", strings.Repeat(",", process.MaxValues), "<nil>"}, {"", strings.Repeat(",", process.MaxValues+1), "values"},
	} {
		synctest.Test(t, func(t *testing.T) {
			dial, _ := oneResponse(time.Now(), fmt.Sprintf("HTTP/1.1 200 OK\r\nX: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", tt.header, len(tt.body), tt.body))
			client := httpClient(t.Context(), "http://127.0.0.1/", "", time.Second, dial)
			resp, err := get(t, client, http.MethodPost, "http://127.0.0.1/")
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			if !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("header of %d bytes, body of %d: %v, want %s", len(tt.header), len(tt.body), err, tt.want)
			}
			client.CloseIdleConnections()
		})
	}
}

// TestBodyLimit reads a body whose end comes after its last bytes.
func TestBodyLimit(t *testing.T) {
	for left, want := range map[int]string{1: "response exceeds 8 MiB", 2: "<nil>", 3: "<nil>"} {
		b := &boundedBody{ReadCloser: io.NopCloser(strings.NewReader("xx")), left: left}
		if text, err := io.ReadAll(b); string(text) != "xx"[:min(left, 2)] || fmt.Sprint(err) != want {
			t.Errorf("limit of %d bytes: %q, %v, want %s", left, text, err, want)
		}
	}
}

// countingContext counts the functions that wait for its end.
type countingContext struct {
	context.Context
	done    chan struct{}
	waiting int
}

func (c *countingContext) Done() <-chan struct{} { return c.done }

func (c *countingContext) AfterFunc(func()) (stop func() bool) {
	c.waiting++
	return func() bool { c.waiting--; return true }
}

// TestRequestsLeaveNothing checks that no function waits for the end of the
// connection after a request failed or its body was closed, and that a close
// ends a paced read.
func TestRequestsLeaveNothing(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		for response, fails := range map[string]bool{"x": true, head + strings.Repeat("\n", 9000): false} {
			synctest.Test(t, func(t *testing.T) {
				life := &countingContext{Context: t.Context(), done: make(chan struct{})}
				dial, _ := oneResponse(time.Now(), response)
				client := httpClient(life, "http://127.0.0.1/", "", time.Second, dial)
				resp, err := get(t, client, method, "http://127.0.0.1/")
				if (err != nil) != fails {
					t.Fatal(err)
				}
				if err == nil {
					if (life.waiting == 0) != (method == http.MethodDelete) {
						t.Errorf("%s: %d functions wait", method, life.waiting)
					}
					time.AfterFunc(time.Second, func() { resp.Body.Close() })
					began := time.Now()
					if _, err := io.Copy(io.Discard, resp.Body); err == nil || time.Since(began) != time.Second {
						t.Errorf("%s: read for %v: %v", method, time.Since(began), err)
					}
				}
				client.CloseIdleConnections()
				synctest.Wait()
				if life.waiting != 0 {
					t.Errorf("%s %.1q: %d functions wait after the end", method, response, life.waiting)
				}
			})
		}
	}
}

// TestCallsLeaveNothing checks that no function waits for the end of a call's
// context after the call.
func TestCallsLeaveNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.site("1001", true)
		w.Set([]Server{{Name: "s", URL: "http://127.0.0.1:1001/mcp"}})
		w.settle(time.Second)
		ctx := &countingContext{Context: w.t.Context(), done: make(chan struct{})}
		if result, err := w.run(ctx, tool.Call{Scope: tool.Unbounded()}, "a", nil); result != "done" || err != nil {
			t.Errorf("%q, %v", result, err)
		}
		synctest.Wait()
		if ctx.waiting != 0 {
			t.Errorf("%d functions wait", ctx.waiting)
		}
	})
}

// TestConnectionLimits checks how long connections may be idle or without a TLS
// handshake, and the settings of the SDK's transport.
func TestConnectionLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		dial, ended := oneResponse(began, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		client := httpClient(t.Context(), "http://127.0.0.1/", "", time.Second, dial)
		resp, err := get(t, client, http.MethodPost, "http://127.0.0.1/")
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if after := <-ended; after != keepAlive {
			t.Errorf("an idle connection ended after %v, want %v", after, keepAlive)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		client := httpClient(t.Context(), "https://127.0.0.1/", "", time.Hour, func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go io.Copy(io.Discard, there)
			return here, nil
		})
		if _, err := get(t, client, http.MethodPost, "https://127.0.0.1/"); err == nil || time.Since(began) != connectTimeout { //nolint:bodyclose // there is no response
			t.Errorf("without a handshake: %v after %v", err, time.Since(began))
		}
		next := client.Transport.(*bearer).next
		if next.MaxIdleConnsPerHost != 4 || !next.ForceAttemptHTTP2 || next.Proxy == nil {
			t.Errorf("%d idle connections, HTTP/2 %v", next.MaxIdleConnsPerHost, next.ForceAttemptHTTP2)
		}
	})
	for address, want := range map[string]string{"http://me:pass@h:1/x?key=k": "http://h:1/x", "http://h/": "http://h/", ":": ":"} {
		client := &http.Client{}
		got, ok := overHTTP(address, client).(*sdk.StreamableClientTransport)
		if !ok || got.Endpoint != want || got.HTTPClient != client || got.MaxRetries != -1 || got.MaxEventSize != maxFrame || got.DisableStandaloneSSE {
			t.Errorf("%s: %+v", address, got)
		}
	}
}
