package mcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"crabmem/fuzz/golden"
)

// remoteHost answers each request on its connections with the text that answer
// returns, and closes a connection after "" or a response without a length.
func remoteHost(t *testing.T, log *events, answer func(r *http.Request) string) dialer {
	return func(_ context.Context, _, address string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			in := make(chan *http.Request)
			go serveRequests(there, in)
			for r := range in {
				text := answer(r)
				log.add(fmt.Sprintf("%s: %s http://%s%s %q", address, r.Method, r.Host, r.URL, r.Header["Authorization"]))
				if _, err := io.WriteString(there, text); err != nil || !strings.Contains(text, "Content-Length") {
					return
				}
			}
		}()
		return here, nil
	}
}

// TestReportsOfRequests compares which requests a client sends, with which
// secrets, and what it returns.
func TestReportsOfRequests(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	answers := map[string]string{"/": ok, "/x": ok}
	for path, target := range map[string]string{"/path": "/x", "/loop": "/loop", "/host": "http://other/x", "/scheme": "https://127.0.0.1/x", "/port": "http://127.0.0.1:81/x", "/same": "http://127.0.0.1/x?own=1", "/1": "/2", "/2": "/3", "/3": "/x", "/0": "/1"} {
		answers[path] = "HTTP/1.1 307 Temporary Redirect\r\nLocation: " + target + "\r\nContent-Length: 0\r\n\r\n"
	}
	answers["/closes"] = ""
	answers["/headers"] = "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 70<<10) + "\r\nContent-Length: 0\r\n\r\n"
	var r golden.Reports
	for _, c := range []struct{ address, token string }{{"http://127.0.0.1/x", ""}, {"http://127.0.0.1/x", "secret"}, {"http://me:pass@127.0.0.1/x?key=k", ""}, {"http://me@127.0.0.1/x", ""}, {"http://:pass@127.0.0.1/x", ""}, {"http://me:pass@127.0.0.1/x?key=k", "secret"}, {":", ""}} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			for _, path := range append(sortedKeys(answers), "/x?own=1", "http://other/x", "https://127.0.0.1/x") {
				synctest.Test(t, func(t *testing.T) {
					log := &events{began: time.Now()}
					client := httpClient(t.Context(), c.address, c.token, time.Second, remoteHost(t, log, func(r *http.Request) string { return answers[r.URL.Path] }))
					url := path
					if !strings.Contains(path, ":") {
						url = "http://127.0.0.1" + path
					}
					request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
					if err != nil {
						t.Fatal(err)
					}
					text := ""
					if resp, err := client.Do(request); err != nil {
						text = "error: " + err.Error()
					} else {
						b, err := io.ReadAll(resp.Body)
						resp.Body.Close()
						text = fmt.Sprintf("%s %q, %v, of %s %q", resp.Status, b, err, resp.Request.URL, resp.Request.Header["Authorization"])
					}
					client.CloseIdleConnections()
					synctest.Wait()
					r.Add(fmt.Sprintf("%s %s, configured %s and %q", method, url, c.address, c.token), text+"\n"+log.text.String())
				})
			}
		}
	}
	r.Compare(t, "testdata/reports/requests.txt.gz")
}

// TestReportsOfRequestsThatEnd compares how long requests wait for a response
// that does not come, and what happens when the connection is left.
func TestReportsOfRequestsThatEnd(t *testing.T) {
	const header = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"
	var r golden.Reports
	for _, method := range []string{"GET", "POST", "DELETE"} {
		for _, sends := range []string{"nothing", "header", "header after 2.9s", "header after 3.1s"} {
			for _, end := range []string{"no end", "life", "request", "close"} {
				synctest.Test(t, func(t *testing.T) {
					life, cut := context.WithCancel(t.Context())
					ctx, cancel := context.WithCancel(t.Context())
					log := &events{began: time.Now()}
					client := httpClient(life, "http://127.0.0.1/", "", 20*time.Second, func(context.Context, string, string) (net.Conn, error) {
						here, there := net.Pipe()
						go func() {
							defer there.Close()
							in := make(chan *http.Request)
							go serveRequests(there, in)
							<-in
							switch sends {
							case "header after 2.9s":
								time.Sleep(2900 * time.Millisecond)
							case "header after 3.1s":
								time.Sleep(3100 * time.Millisecond)
							}
							if sends != "nothing" {
								io.WriteString(there, header)
							}
							for range in {
							}
							log.add("connection ended")
						}()
						return here, nil
					})
					request, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1/", nil)
					if err != nil {
						t.Fatal(err)
					}
					if stop := map[string]func(){"life": cut, "request": cancel}[end]; stop != nil {
						time.AfterFunc(5*time.Second+time.Microsecond, stop)
					}
					if resp, err := client.Do(request); err != nil {
						log.add("error: " + err.Error())
					} else {
						log.add(resp.Status + " " + resp.Proto)
						if end == "close" {
							time.AfterFunc(5*time.Second+time.Microsecond, func() { resp.Body.Close() })
						}
						time.AfterFunc(10*time.Second, cancel)
						b, err := io.ReadAll(resp.Body)
						log.add(fmt.Sprintf("%q, %v", b, err))
						resp.Body.Close()
					}
					client.CloseIdleConnections()
					time.Sleep(time.Second)
					cut()
					cancel()
					synctest.Wait()
					r.Add(fmt.Sprintf("%s, sends %s, %s", method, sends, end), log.sorted())
				})
			}
		}
	}
	r.Compare(t, "testdata/reports/requests-end.txt.gz")
}

// serveRequests reads the requests of a connection until it ends.
func serveRequests(c net.Conn, in chan<- *http.Request) {
	defer close(in)
	for buffered := bufio.NewReader(c); ; {
		r, err := http.ReadRequest(buffered)
		if err != nil {
			return
		}
		in <- r
	}
}

// TestBusyRequests checks that at most maxBusy requests wait for a response.
func TestBusyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client := httpClient(t.Context(), "http://127.0.0.1/", "", time.Hour, func(context.Context, string, string) (net.Conn, error) {
			here, _ := net.Pipe()
			return here, nil
		})
		results := make(chan error, maxBusy+1)
		do := func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/", nil)
			if err == nil {
				_, err = client.Do(request) //nolint:bodyclose // there is no response
			}
			results <- err
		}
		for range maxBusy {
			go do()
		}
		synctest.Wait()
		if len(results) != 0 {
			t.Errorf("a request failed: %v", <-results)
		}
		if do(); len(results) != 1 {
			t.Fatalf("%d results", len(results))
		}
		if err := <-results; err == nil || !strings.HasSuffix(err.Error(), ": 100 requests pending") {
			t.Errorf("one request more: %v", err)
		}
		cancel()
		synctest.Wait()
		if b := client.Transport.(*bearer); b.busy.Load() != 0 {
			t.Errorf("%d requests after the end", b.busy.Load())
		}
	})
}

// TestReportsOfBodies compares what is read of bodies and streams at their
// limits.
func TestReportsOfBodies(t *testing.T) {
	var r golden.Reports
	for _, events := range []bool{false, true} {
		for _, text := range []string{"", "x", strings.Repeat(",", maxValues), strings.Repeat(",", maxValues+1), strings.Repeat("[,\n\n", maxValues/2), strings.Repeat("\n", 4500), strings.Repeat("\n", 8500)} {
			limits := []int{0, 1, len(text) - 1, len(text), len(text) + 1}
			if events {
				limits = limits[:1]
			}
			for _, left := range limits {
				for _, end := range []error{io.EOF, io.ErrUnexpectedEOF} {
					synctest.Test(t, func(t *testing.T) {
						time.Sleep(time.Hour)
						began := time.Now()
						in := io.MultiReader(strings.NewReader(text), iotest.ErrReader(end))
						b := &boundedBody{ReadCloser: io.NopCloser(in), left: left, done: t.Context().Done(), shape: shape{events: events}}
						var got []byte
						var err error
						for part := make([]byte, 4096); err == nil; {
							var n int
							n, err = b.Read(part)
							got = append(got, part[:n]...)
						}
						if !strings.HasPrefix(text, string(got)) {
							t.Errorf("%.20q: other bytes", text)
						}
						r.Addf(fmt.Sprintf("%d bytes %.5q, then %v, left %d, events %v", len(text), text, end, left, events), "%d bytes, %v after %v, left %d", len(got), err, time.Since(began), b.left)
					})
				}
			}
		}
	}
	r.Compare(t, "testdata/reports/bodies.txt.gz")
}

// TestBodyEndsWithDone checks that a paced stream ends when its request does.
func TestBodyEndsWithDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		ended := 0
		text := struct {
			io.Reader
			io.Closer
		}{strings.NewReader(strings.Repeat("\n", 9000)), &stdin{closeErr: io.ErrClosedPipe}}
		b := &boundedBody{ReadCloser: text, end: func() { ended++ }, done: done, shape: shape{events: true}}
		time.AfterFunc(time.Second, func() { close(done) })
		began := time.Now()
		n, err := b.Read(make([]byte, 9000))
		if n != 0 || !errors.Is(err, context.Canceled) || time.Since(began) != time.Second {
			t.Errorf("%d, %v after %v", n, err, time.Since(began))
		}
		if err := b.Close(); err != io.ErrClosedPipe || ended != 1 {
			t.Errorf("close: %v, ended %d times", err, ended)
		}
	})
}

// TestDialComponent checks that a connection to another user's port is closed.
func TestDialComponent(t *testing.T) {
	for name, c := range map[string]struct {
		address         string
		dialErr, owner  error
		want, wantOwner string
	}{
		"own":         {address: "127.0.0.1:7", wantOwner: "127.0.0.1:7"},
		"refused":     {address: "127.0.0.1:7", dialErr: errors.New("refused"), want: "refused"},
		"other":       {address: "127.0.0.1:7", owner: errors.New("stale"), want: "stale", wantOwner: "127.0.0.1:7"},
		"not a port":  {address: "pipe", want: `not an ip:port`},
		"mapped port": {address: "[::1]:7", wantOwner: "[::1]:7"},
	} {
		m := New(Options{})
		here, there := net.Pipe()
		asked := ""
		m.dial = func(context.Context, string, string) (net.Conn, error) {
			if c.dialErr != nil {
				return nil, c.dialErr
			}
			return addressed{here, textAddr(c.address)}, nil
		}
		m.checkOwner = func(a netip.AddrPort) error { asked = a.String(); return c.owner }
		conn, err := m.dialComponent(t.Context(), "tcp", "x")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || (conn == nil) != (err != nil) || asked != c.wantOwner {
			t.Errorf("%s: %v, %v, checked %q", name, conn, err, asked)
		}
		there.SetReadDeadline(time.Now().Add(-time.Second))
		if _, err := there.Read(make([]byte, 1)); c.dialErr == nil && (err == io.EOF) != (c.want != "") {
			t.Errorf("%s: the other end reads %v", name, err)
		}
		here.Close()
		there.Close()
		m.Close()
	}
}

type textAddr string

func (a textAddr) Network() string { return "tcp" }
func (a textAddr) String() string  { return string(a) }

// TestEnviron checks which variables a child inherits.
func TestEnviron(t *testing.T) {
	for _, e := range []string{"LC_ALL=a", "XDG_CACHE_HOME=b=c", "path_x=1", "LC=1", "MY_TOKEN=1", "lc_x=1", "comspec=d"} {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
	env := environ([]string{"MY_OWN=1", "LC_ALL=other"})
	for _, e := range []string{"LC_ALL=a", "XDG_CACHE_HOME=b=c", "comspec=d", "MY_OWN=1"} {
		if !slices.Contains(env, e) {
			t.Errorf("no %s", e)
		}
	}
	for _, e := range []string{"path_x=1", "LC=1", "MY_TOKEN=1", "lc_x=1"} {
		if slices.Contains(env, e) {
			t.Errorf("inherited %s", e)
		}
	}
	if !slices.Equal(env[len(env)-2:], []string{"MY_OWN=1", "LC_ALL=other"}) {
		t.Errorf("the server's own variables are not the last: %q", env)
	}
}
