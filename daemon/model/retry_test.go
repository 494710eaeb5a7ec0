package model_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/model"
)

// network answers requests in memory, one answer after the other, the last
// again and again. It notes when each request came.
type network struct {
	answers []func(*http.Request) (*http.Response, error)
	at      []time.Time
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	io.Copy(io.Discard, r.Body)
	r.Body.Close()
	a := n.answers[min(len(n.at), len(n.answers)-1)]
	n.at = append(n.at, time.Now())
	return a(r)
}

func answer(status int, kind, body string, header ...string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {kind}}
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
}

func refuse(status int, header ...string) func(*http.Request) (*http.Response, error) {
	return answer(status, "application/json", `{"error":{"message":"no","code":"c"}}`, header...)
}

func quota(status int) func(*http.Request) (*http.Response, error) {
	return answer(status, "application/json", `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":null}}`)
}

func broken(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection reset by peer")
}

// hang answers when the request is given up, as a real network does.
func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// piped responds with the output of write.
func piped(kind string, write func(io.Writer)) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		in, out := io.Pipe()
		go func() {
			write(out)
			out.Close()
		}()
		context.AfterFunc(r.Context(), func() { in.CloseWithError(r.Context().Err()) })
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {kind}}, Body: in, Request: r}, nil
	}
}

const (
	wholeHello  = `{"choices":[{"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`
	streamHello = `data: {"choices":[{"delta":{"content":"hello"}}]}` + "\n\n" + streamEnd
	streamEnd   = `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
)

var (
	sendsHello   = answer(200, "application/json", wholeHello)
	streamsHello = answer(200, "text/event-stream", streamHello)
)

// over returns a registry of one model on a network.
func over(t *testing.T, n *network, p model.Provider) *model.Registry {
	t.Helper()
	p.Name, p.BaseURL, p.Models = "p", cmp.Or(p.BaseURL, "http://model.test/v1"), []string{"m"}
	r, err := model.NewRegistry(model.Network{Transport: n}, []model.Provider{p}, "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRetry checks the number of attempts, and that each wait is in [b, b*3/2].
// b doubles from 1 s to 20 s after rate limits and server errors, else from 100
// ms.
func TestRetry(t *testing.T) {
	type answers = []func(*http.Request) (*http.Response, error)
	none, three, ten := 0, 3, 10
	for _, c := range []struct {
		name           string
		answers        answers
		retries        *int
		send, stream   int // attempts
		sends, streams bool
		short          bool // waits from 100 ms
	}{
		{name: "429, 503, answer", answers: answers{refuse(429), refuse(503), sendsHello}, send: 3, sends: true},
		{name: "streamed", answers: answers{refuse(429), refuse(500), streamsHello}, stream: 3, streams: true},
		{name: "no connection", answers: answers{broken, sendsHello}, send: 2, sends: true, short: true},
		{name: "no connection at all", answers: answers{broken}, send: 3, stream: 3, short: true},
		{name: "500 forever", answers: answers{refuse(500)}, send: 6, stream: 6},
		{name: "529", answers: answers{refuse(529)}, send: 6, stream: 6},
		{name: "three times", answers: answers{refuse(500)}, retries: &three, send: 4, stream: 4},
		{name: "ten times", answers: answers{refuse(429)}, retries: &ten, send: 11, stream: 11},
		{name: "ten times without a connection", answers: answers{broken}, retries: &ten, send: 3, stream: 3, short: true},
		{name: "never", answers: answers{refuse(500)}, retries: &none, send: 1, stream: 1},
		{name: "400", answers: answers{refuse(400)}, send: 1, stream: 1},
		{name: "401", answers: answers{refuse(401)}, send: 1, stream: 1},
		{name: "403", answers: answers{refuse(403)}, send: 1, stream: 1},
		{name: "404", answers: answers{refuse(404)}, send: 1, stream: 1},
		{name: "402", answers: answers{refuse(402)}, send: 1, stream: 1},
		{name: "quota", answers: answers{quota(429)}, send: 1, stream: 1},
		{name: "quota with 403", answers: answers{quota(403)}, send: 1, stream: 1},
		{name: "quota in the stream", answers: answers{
			answer(200, "text/event-stream", `data: {"error":{"type":"insufficient_quota","message":"no credit"}}`+"\n\n")}, stream: 1},
		{name: "too long, said with 500", answers: answers{answer(500, "application/json",
			`{"error":{"message":"the request exceeds the available context size"}}`)}, send: 1, stream: 1},
		{name: "not JSON", answers: answers{answer(200, "application/json", "{")}, send: 1, stream: 1},
		{name: "cut before the first chunk", answers: answers{answer(200, "text/event-stream", ": hi\n\n"), streamsHello}, stream: 2, streams: true, short: true},
		{name: "overloaded in the stream", answers: answers{
			answer(200, "text/event-stream", `data: {"error":{"type":"overloaded_error","message":"busy"}}`+"\n\n"), streamsHello}, stream: 2, streams: true},
	} {
		for _, stream := range []bool{false, true} {
			want, good := c.send, c.sends
			if stream {
				want, good = c.stream, c.streams
			}
			if want == 0 {
				continue
			}
			for range 20 { // of drawn times
				synctest.Test(t, func(t *testing.T) {
					n := &network{answers: c.answers}
					r := over(t, n, model.Provider{MaxRetries: c.retries})
					res, err := r.Send(t.Context(), ask("?"))
					if stream {
						n.at = nil
						res, err = collect(t, r, ask("?"))
					}
					if len(n.at) != want || (err == nil) != good || good && res.Message.Content != "hello" {
						t.Fatalf("%s, stream %v: %d attempts, want %d: %v", c.name, stream, len(n.at), want, err)
					}
					if e, ok := errors.AsType[*model.Error](err); !good && (!ok || e.Attempts != want) {
						t.Errorf("%s: %#v", c.name, err)
					}
					for i := 1; i < len(n.at); i++ {
						b := min(time.Second<<(i-1), 20*time.Second)
						if c.short {
							b = 100 * time.Millisecond << (i - 1)
						}
						if d := n.at[i].Sub(n.at[i-1]); d < b || d > b*3/2 {
							t.Errorf("%s: waited %v before attempt %d, not %v to %v", c.name, d, i+1, b, b*3/2)
						}
					}
				})
			}
		}
	}
}

// TestBackoffSpreads: the times are drawn from all of the range.
func TestBackoffSpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var low, high int
		for range 200 {
			n := &network{answers: []func(*http.Request) (*http.Response, error){broken, sendsHello}}
			if _, err := over(t, n, model.Provider{}).Send(t.Context(), ask("?")); err != nil {
				t.Fatal(err)
			}
			switch d := n.at[1].Sub(n.at[0]); {
			case d < 110*time.Millisecond:
				low++
			case d > 140*time.Millisecond:
				high++
			}
		}
		if low < 10 || high < 10 {
			t.Errorf("of 200 waits %d are in the first fifth and %d in the last", low, high)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name, value string
			want        time.Duration // 0: not tried again
		}{
			{"Retry-After", time.Now().Add(20 * time.Second).UTC().Format(http.TimeFormat), 20 * time.Second},
			{"Retry-After", "7", 7 * time.Second},
			{"Retry-After", "0.25", 250 * time.Millisecond},
			{"Retry-After-Ms", "40", 40 * time.Millisecond},
			{"Retry-After", "60", time.Minute},
			{"Retry-After", "61", 0},
			{"Retry-After", "1e300", 0},
		} {
			for _, stream := range []bool{false, true} {
				n := &network{answers: []func(*http.Request) (*http.Response, error){refuse(429, c.name, c.value), sendsHello}}
				r := over(t, n, model.Provider{})
				began := time.Now()
				_, err := r.Send(t.Context(), ask("?"))
				if stream {
					if strings.HasSuffix(c.value, "GMT") {
						continue // that has come
					}
					n.at, began = nil, time.Now()
					_, err = collect(t, r, ask("?"))
				}
				if c.want == 0 {
					if e, ok := errors.AsType[*model.Error](err); !ok || e.RetryAfter < time.Minute || len(n.at) != 1 || time.Since(began) != 0 {
						t.Errorf("%s %s: %d attempts, %v", c.name, c.value, len(n.at), err)
					}
				} else if err != nil || len(n.at) != 2 || n.at[1].Sub(n.at[0]) != c.want {
					t.Errorf("%s %s: %v, %v", c.name, c.value, n.at, err)
				}
			}
		}
		// A wait that would outlast the caller's deadline is not begun.
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		n := &network{answers: []func(*http.Request) (*http.Response, error){refuse(429, "Retry-After", strconv.Itoa(10)), sendsHello}}
		began := time.Now()
		_, err := over(t, n, model.Provider{}).Send(ctx, ask("?"))
		if e, ok := errors.AsType[*model.Error](err); !ok || e.Status != 429 || time.Since(began) != 0 {
			t.Errorf("before a deadline: %v after %v", err, time.Since(began))
		}
	})
}

// TestTimeouts: 10 minutes to the first byte, 30 on this machine, 60 s between bytes,
// and the first limit again without data.
func TestTimeouts(t *testing.T) {
	type answers = []func(*http.Request) (*http.Response, error)
	one := 1
	text := `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n"
	stalls := func(before string) func(*http.Request) (*http.Response, error) {
		return piped("text/event-stream", func(w io.Writer) {
			io.WriteString(w, before)
			time.Sleep(time.Hour)
		})
	}
	// every sends a text at times, then the end.
	every := func(d time.Duration, times int, sent string) func(*http.Request) (*http.Response, error) {
		return piped("text/event-stream", func(w io.Writer) {
			for range times {
				time.Sleep(d)
				io.WriteString(w, sent)
			}
			io.WriteString(w, text+streamEnd)
		})
	}
	for _, c := range []struct {
		name   string
		answer func(*http.Request) (*http.Response, error)
		stream bool
		p      model.Provider
		q      time.Duration // the request's own
		want   time.Duration
		text   string // of the error; "" = no error
	}{
		{name: "no answer", answer: hang, want: 10 * time.Minute, text: "no answer within 10m0s"},
		{name: "no answer to a stream", answer: hang, stream: true, want: 10 * time.Minute, text: "no answer within 10m0s"},
		{name: "no answer on this machine", answer: hang, stream: true, p: model.Provider{BaseURL: "http://[::1]:8000/v1"}, want: 30 * time.Minute, text: "no answer within 30m0s"},
		{name: "no answer of llama.cpp", answer: hang, p: model.Provider{Kind: "llama.cpp", BaseURL: "http://gpu.test"}, want: 30 * time.Minute, text: "no answer within 30m0s"},
		{name: "an answer after 25 minutes", answer: func(r *http.Request) (*http.Response, error) {
			time.Sleep(25 * time.Minute)
			return streamsHello(r)
		}, stream: true, p: model.Provider{BaseURL: "http://localhost:8000/v1"}, want: 25 * time.Minute},
		{name: "of the provider", answer: hang, p: model.Provider{Timeout: time.Second}, want: time.Second, text: "within 1s"},
		{name: "of the request", answer: hang, q: 5 * time.Minute, want: 5 * time.Minute, text: "within 5m0s"},
		{name: "headers only", answer: stalls(""), stream: true, want: 200 * time.Second, text: "the stream did not begin within 3m20s"},
		{name: "headers only, on this machine", answer: stalls(""), stream: true, p: model.Provider{BaseURL: "http://127.0.0.1:8000/v1"}, want: 10 * time.Minute, text: "the stream did not begin within 10m0s"},
		{name: "a chunk, then nothing", answer: stalls(text), stream: true, want: time.Minute, text: "the stream stalled: no byte within 1m0s"},
		{name: "idle of the provider", answer: stalls(text), stream: true, p: model.Provider{IdleTimeout: 2 * time.Second}, want: 2 * time.Second, text: "no byte within 2s"},
		{name: "half an answer", answer: piped("application/json", func(w io.Writer) {
			io.WriteString(w, "{")
			time.Sleep(time.Hour)
		}), want: 10 * time.Minute, text: "the answer did not end within 10m0s"},
		{name: "slow but steady", answer: piped("text/event-stream", func(w io.Writer) {
			for range 10 {
				time.Sleep(50 * time.Second)
				io.WriteString(w, text)
			}
			io.WriteString(w, streamEnd)
		}), stream: true, want: 500 * time.Second},
		{name: "comments for 25 minutes", answer: every(10*time.Second, 150, ": still here\n\n"), stream: true, p: model.Provider{BaseURL: "http://localhost:8000/v1"}, want: 25 * time.Minute},
		{name: "comments without an end", answer: every(10*time.Second, 500, ": still here\n\n"), stream: true, want: 10 * time.Minute, text: "no data within 10m0s"},
		{name: "comments without an end, on this machine", answer: every(10*time.Second, 500, ": still here\n\n"), stream: true, p: model.Provider{BaseURL: "http://localhost:8000/v1"}, want: 30 * time.Minute, text: "no data within 30m0s"},
		{name: "empty choices", answer: every(10*time.Second, 50, `data: {"id":"","choices":[]}`+"\n\n"), stream: true, p: model.Provider{IdleTimeout: 15 * time.Second}, want: 500 * time.Second},
		{name: "empty choices without an end", answer: every(10*time.Second, 500, "data: \n\ndata: {}\n\n"), stream: true, want: 10 * time.Minute, text: "no data within 10m0s"},
		{name: "a short limit to the first byte", answer: every(10*time.Second, 50, ": still here\n\n"), stream: true, p: model.Provider{Timeout: time.Second}, want: 500 * time.Second},
		{name: "progress of llama.cpp", answer: every(50*time.Second, 60, `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null}}],"prompt_progress":{"total":9,"processed":1}}`+"\n\n"), stream: true, want: 50 * time.Minute},
		{name: "a byte every ten seconds", answer: piped("text/event-stream", func(w io.Writer) {
			for _, b := range []byte(text) {
				time.Sleep(10 * time.Second)
				w.Write([]byte{b})
			}
			io.WriteString(w, streamEnd)
		}), stream: true, want: time.Duration(len(text)) * 10 * time.Second},
		{name: "text after a reason", answer: piped("text/event-stream", func(w io.Writer) {
			for range 5 {
				io.WriteString(w, `data: {"choices":[{"delta":{"content":"x"}}]}`+"\n\n"+`data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`+"\n\n"+text)
				time.Sleep(50 * time.Second)
			}
			io.WriteString(w, streamEnd)
		}), stream: true, want: 250 * time.Second},
		{name: "an end again and again", answer: piped("text/event-stream", func(w io.Writer) {
			io.WriteString(w, text)
			for range 100 {
				io.WriteString(w, `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`+"\n\n")
				time.Sleep(3 * time.Second)
			}
		}), stream: true, want: 5 * time.Second},
		{name: "no end after the end", answer: stalls(strings.TrimSuffix(streamHello, "data: [DONE]\n\n")), stream: true, want: 5 * time.Second},
		{name: "a reason with text may be one of many", answer: stalls(`data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}` + "\n\n"), stream: true, want: time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &network{answers: answers{c.answer}}
			c.p.MaxRetries = &one
			r := over(t, n, c.p)
			q := ask("?")
			q.Timeout = c.q
			began := time.Now()
			var err error
			if c.stream {
				_, err = collect(t, r, q)
			} else {
				_, err = r.Send(t.Context(), q)
			}
			if len(n.at) != 1 { // a time-out is not repeated
				t.Fatalf("%s: %d attempts: %v", c.name, len(n.at), err)
			}
			if d := time.Since(began); d != c.want {
				t.Errorf("%s: took %v, want %v", c.name, d, c.want)
			}
			if c.text == "" && err != nil || c.text != "" && (err == nil || !strings.Contains(err.Error(), c.text)) {
				t.Errorf("%s: %v, want %q", c.name, err, c.text)
			}
			if e, ok := errors.AsType[*model.Error](err); c.text != "" && (!ok || !e.Timeout()) {
				t.Errorf("%s: %v is no time-out", c.name, err)
			}
			time.Sleep(2 * time.Hour) // for those who write to the end
		})
	}
}

// TestTimeoutFallsBack checks that another model answers after a time-out.
func TestTimeoutFallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{answers: []func(*http.Request) (*http.Response, error){hang, streamsHello}}
		r, err := model.NewRegistry(model.Network{Transport: n}, []model.Provider{
			{Name: "p", BaseURL: "http://model.test/v1", Models: []string{"m"}, Fallback: []string{"other"}},
			{Name: "q", BaseURL: "http://model.test/v1", Models: []string{"other"}},
		}, "")
		if err != nil {
			t.Fatal(err)
		}
		if res, err := collect(t, r, ask("?")); err != nil || res.Message.Content != "hello" || len(n.at) != 2 {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// TestSlowReader: a consumer that takes its time is no stalled stream.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{answers: []func(*http.Request) (*http.Response, error){
			piped("text/event-stream", func(w io.Writer) {
				io.WriteString(w, strings.TrimSuffix(streamHello, streamEnd))
				io.WriteString(w, streamEnd) // once the first is read
			})}}
		for _, err := range over(t, n, model.Provider{}).Stream(t.Context(), ask("?")) {
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
	})
}

// TestCancel: the caller's context ends a call, a stream and a wait, with its
// own cause and at once.
func TestCancel(t *testing.T) {
	mine := errors.New("the user went away")
	for name, a := range map[string]func(*http.Request) (*http.Response, error){
		"hanging": hang,
		"waiting": refuse(429, "Retry-After", "50"),
		"streaming": piped("text/event-stream", func(w io.Writer) {
			io.WriteString(w, strings.TrimSuffix(streamHello, streamEnd))
			time.Sleep(time.Hour)
		}),
		"commenting": piped("text/event-stream", func(w io.Writer) {
			for range 360 {
				io.WriteString(w, ": still here\n\n")
				time.Sleep(10 * time.Second)
			}
		}),
	} {
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(3*time.Second, func() { cancel(mine) })
				r := over(t, &network{answers: []func(*http.Request) (*http.Response, error){a}}, model.Provider{})
				began := time.Now()
				_, err := r.Send(ctx, ask("?"))
				if stream {
					ctx, cancel = context.WithCancelCause(t.Context())
					time.AfterFunc(3*time.Second, func() { cancel(mine) })
					began = time.Now()
					for _, e := range r.Stream(ctx, ask("?")) {
						err = e
					}
				}
				if err != mine || time.Since(began) != 3*time.Second {
					t.Errorf("%s, stream %v: %v after %v", name, stream, err, time.Since(began))
				}
				time.Sleep(2 * time.Hour)
			})
		}
	}
}

// TestNoRetryAfterAChunk checks that chunks are not repeated.
func TestNoRetryAfterAChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{answers: []func(*http.Request) (*http.Response, error){
			answer(200, "text/event-stream", strings.TrimSuffix(streamHello, streamEnd)), streamsHello}}
		res, err := collect(t, over(t, n, model.Provider{}), ask("?"))
		if err == nil || !strings.Contains(err.Error(), "without a finish_reason") || res.Message.Content != "hello" || len(n.at) != 1 {
			t.Errorf("%+v, %v, %d attempts", res, err, len(n.at))
		}
	})
}

// TestBreak: a caller that breaks off ends the request.
func TestBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended bool
		n := &network{answers: []func(*http.Request) (*http.Response, error){func(r *http.Request) (*http.Response, error) {
			context.AfterFunc(r.Context(), func() { ended = true })
			return streamsHello(r)
		}}}
		for range over(t, n, model.Provider{}).Stream(t.Context(), ask("?")) {
			break
		}
		synctest.Wait()
		if !ended {
			t.Error("the request is still active")
		}
	})
}
