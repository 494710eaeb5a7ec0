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

	"crabmem/fuzz/golden"

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

// TestReportsOfResponseSizes compares how much is read of responses of each
// kind, at the limit of a message.
func TestReportsOfResponseSizes(t *testing.T) {
	var r golden.Reports
	for _, c := range []struct {
		status int
		kind   string
		more   int
	}{{200, "application/json", 0}, {200, "application/json", 1}, {200, "text/event-stream; charset=utf-8", 1}, {400, "text/event-stream", 1}} {
		synctest.Test(t, func(t *testing.T) {
			response := fmt.Sprintf("HTTP/1.1 %d OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", c.status, c.kind, maxFrame+c.more, strings.Repeat(" ", maxFrame+c.more))
			dial, _ := oneResponse(time.Now(), response)
			client := httpClient(t.Context(), "http://127.0.0.1/", "", time.Second, dial)
			resp, err := get(t, client, http.MethodPost, "http://127.0.0.1/")
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			client.CloseIdleConnections()
			r.Addf(fmt.Sprintf("%+v", c), "limit %+d: %v", n-maxFrame, err)
		})
	}
	r.Compare(t, "testdata/reports/sizes.txt.gz")
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
