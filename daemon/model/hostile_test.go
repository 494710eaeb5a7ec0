package model_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/daemon/model"
	"crabmem/daemon/model/modeltest"
	"crabmem/fuzz/race"
)

// serve answers as no scripted model would.
func serve(t *testing.T, h http.HandlerFunc) *model.Registry {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	none := 0
	return registry(t, model.Provider{BaseURL: s.URL, APIKey: planted, MaxRetries: &none})
}

// planted is a key that no error may show.
const planted = "sk-planted-0123456789abcdef"

// TestEnvironment runs itself in a process with all variables that could change
// a request: the request stays the same. A proxy is not used for an address of
// this machine.
func TestEnvironment(t *testing.T) {
	if os.Getenv("CRABMEM_MODEL_CHILD") != "" {
		s := modeltest.New(t, modeltest.Say("hi"))
		r := registry(t, model.Provider{Kind: "openai", BaseURL: s.URL, APIKey: "mine"})
		if res, err := r.Send(t.Context(), ask("?")); err != nil || res.Message.Content != "hi" {
			t.Fatal(res, err)
		}
		q := s.Requests()[0]
		fmt.Printf("\nSENT %s %s %q %s\n", q.Path, q.Query, q.Header, q.Body)
		return
	}
	run := func(env ...string) string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEnvironment$", "-test.v")
		cmd.Env = append(env, "CRABMEM_MODEL_CHILD=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		_, after, ok := strings.Cut(string(out), "\nSENT ")
		if !ok {
			t.Fatalf("no request was sent:\n%s", out)
		}
		line, _, _ := strings.Cut(after, "\n")
		return line
	}
	bare := run()
	hostile := run("OPENAI_API_KEY=theirs", "OPENAI_BASE_URL=http://127.0.0.1:1/v1", "OPENAI_ORG_ID=org", "OPENAI_PROJECT_ID=project",
		"OPENAI_CUSTOM_HEADERS=X-Evil: 1", "OPENAI_ADMIN_KEY=admin", "OPENAI_WEBHOOK_SECRET=s", "OPENAI_LOG=debug",
		"AZURE_OPENAI_API_KEY=a", "AZURE_OPENAI_ENDPOINT=http://127.0.0.1:1", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b", "AWS_REGION=r",
		"AWS_BEARER_TOKEN_BEDROCK=t", "HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1", "http_proxy=http://127.0.0.1:1")
	if bare != hostile || !strings.Contains(bare, "Bearer mine") {
		t.Errorf("sent\n%s\nand in a hostile environment\n%s", bare, hostile)
	}
}

// peak runs f and returns by how much the memory of the process grew.
func peak(f func()) uint64 {
	read := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	runtime.GC()
	before := read()
	var most atomic.Uint64
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			most.Store(max(most.Load(), read()))
			time.Sleep(2 * time.Millisecond)
		}
	}()
	f()
	cancel()
	<-done
	return max(most.Load(), before) - before
}

// TestEndless gives up every answer that has no end, in little memory.
func TestEndless(t *testing.T) {
	race.Skip(t)
	const most = 200 << 20
	// flood writes s until the client goes or 200 MB are written.
	flood := func(w io.Writer, s string) {
		for n := 0; n < most; n += len(s) {
			if _, err := io.WriteString(w, s); err != nil {
				return
			}
		}
	}
	delta := func(s string) string { return `data: {"choices":[{"index":0,"delta":{` + s + `}}]}` + "\n\n" }
	calls := func(w io.Writer, format string) {
		for i := range most / 100 {
			if _, err := io.WriteString(w, delta(fmt.Sprintf(`"tool_calls":[`+format+`]`, i))); err != nil {
				return
			}
		}
	}
	zip := func(w http.ResponseWriter, s string) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		flood(z, s)
		z.Close()
	}
	mega := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name  string
		whole bool // not streamed
		write func(http.ResponseWriter)
		want  string
	}{
		{"one line", false, func(w http.ResponseWriter) { flood(w, "data: "+mega) }, "an event of the stream is longer than 4194304 bytes"},
		{"one event", false, func(w http.ResponseWriter) { flood(w, "data: "+mega+"\n") }, "an event of the stream is longer"},
		{"one event of empty carriage returns", false, func(w http.ResponseWriter) { flood(w, "data: x\r\n") }, "an event of the stream is longer"},
		{"no event", false, func(w http.ResponseWriter) { flood(w, mega) }, "an event of the stream is longer"},
		{"comments", false, func(w http.ResponseWriter) { flood(w, ": "+mega+"\n\n") }, "the response exceeds the size limit"},
		{"empty lines", false, func(w http.ResponseWriter) { flood(w, strings.Repeat("\r\n", 1<<19)) }, "the response exceeds the size limit"},
		{"empty chunks", false, func(w http.ResponseWriter) { flood(w, delta(`"x":"`+mega[:1<<12]+`"`)) }, "the response exceeds the size limit"},
		{"long text", false, func(w http.ResponseWriter) { flood(w, delta(`"content":"`+mega+`"`)) }, "the response has more than 8388608 bytes"},
		{"reasoning", false, func(w http.ResponseWriter) { flood(w, delta(`"reasoning":"`+mega+`"`)) }, "the response has more than 8388608 bytes"},
		{"choices", false, func(w http.ResponseWriter) {
			io.WriteString(w, `data: {"choices":[`+strings.Repeat("{},", 1_300_000)+"{}]}\n\n")
		}, "more than 128 elements"},
		{"tool calls of a chunk", false, func(w http.ResponseWriter) {
			io.WriteString(w, delta(`"tool_calls":[`+strings.Repeat("{},", 1_300_000)+"{}]"))
		}, "more than 128 elements"},
		{"choices of a whole", true, func(w http.ResponseWriter) { io.WriteString(w, `{"choices":[`+strings.Repeat("{},", 2_600_000)+"{}]}") }, "more than 128 elements"},
		{"calls of a whole", true, func(w http.ResponseWriter) {
			io.WriteString(w, `{"choices":[{"message":{"tool_calls":[`+strings.Repeat("{},", 2_600_000)+"{}]}}]}")
		}, "more than 128 elements"},
		{"tool calls", false, func(w http.ResponseWriter) {
			calls(w, `{"index":%[1]d,"id":"c%[1]d","function":{"name":"f","arguments":"{}"}}`)
		}, "more than 128 tool calls"},
		{"tool calls of one index", false, func(w http.ResponseWriter) {
			calls(w, `{"index":0,"id":"c%d","function":{"name":"f","arguments":"{}"}}`)
		}, "more than 128 tool calls"},
		{"arguments", false, func(w http.ResponseWriter) {
			flood(w, delta(`"tool_calls":[{"index":0,"id":"c","function":{"arguments":"`+mega[:1<<16]+`"}}]`))
		}, "the arguments of a tool call have more than 1048576 bytes"},
		{"zipped", false, func(w http.ResponseWriter) { zip(w, ": "+mega+"\n\n") }, "the response exceeds the size limit"},
		{"whole", true, func(w http.ResponseWriter) { flood(w, mega) }, "the response exceeds the size limit"},
		{"whole, nested", true, func(w http.ResponseWriter) { flood(w, strings.Repeat("[", 1<<20)) }, "the response exceeds the size limit"},
		{"whole, zipped", true, func(w http.ResponseWriter) { zip(w, strings.Repeat(" ", 1<<20)) }, "the response exceeds the size limit"},
		{"an error", true, func(w http.ResponseWriter) { w.WriteHeader(400); flood(w, mega) }, "400 Bad Request: xxx"},
		{"an error for a stream", false, func(w http.ResponseWriter) { w.WriteHeader(400); flood(w, mega) }, "400 Bad Request: xxx"},
		{"headers", true, func(w http.ResponseWriter) { w.Header().Set("X", mega); flood(w, "{}") }, "header"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.want == "the response exceeds the size limit" {
				t.Skip("200 MB to read, a minute under the race detector")
			}
			r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				if c.whole {
					w.Header().Set("Content-Type", "application/json")
				}
				c.write(w)
			})
			var err error
			grew := peak(func() {
				if c.whole {
					_, err = r.Send(t.Context(), ask("?"))
				} else {
					_, err = collect(t, r, ask("?"))
				}
			})
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 2000 {
				t.Errorf("%.2000v, want %q", err, c.want)
			}
			t.Logf("%d MiB", grew>>20)
			gate.Most(t, "MiB of heap at the peak", int64(grew>>20), 64)
		})
	}
}

// TestMegabyteOfArguments sends arguments at the size limit.
func TestMegabyteOfArguments(t *testing.T) {
	arguments := `{"content":"` + strings.Repeat("é", 1<<19-8) + `"}`
	s := modeltest.New(t, modeltest.Call("write", arguments), modeltest.Call("write", arguments))
	r := registry(t, model.Provider{BaseURL: s.URL})
	streamed, err := collect(t, r, ask("?"))
	if err != nil || streamed.Message.ToolCalls[0].Function.Arguments != arguments {
		t.Errorf("streamed: %v", err)
	}
	whole, err := r.Send(t.Context(), ask("?"))
	if err != nil || whole.Message.ToolCalls[0].Function.Arguments != arguments {
		t.Errorf("unstreamed: %v", err)
	}
}

// TestRedirects checks that redirects are not followed, so that a key goes to
// no other host.
func TestRedirects(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, c := range []struct{ to, want string }{
		{other.URL + "/v1/chat/completions", `redirect to "` + other.URL + `"`},
		{"file:///etc/passwd", `redirect to "/etc/passwd"`},
		{"/v2/chat/completions", `redirect to "/v2/chat/completions"`},
		{"//evil.example/" + planted, `redirect to "://evil.example"`},
		{"https://" + planted + ".evil.example/", "[key]"},
		{"", "redirect to"},
		{":", "redirect to"},
	} {
		for _, status := range []int{301, 302, 303, 307, 308, 304} {
			var asked atomic.Int32
			r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				w.Header().Set("Location", c.to)
				w.WriteHeader(status)
			})
			_, err := r.Send(t.Context(), ask("?"))
			_, err2 := collect(t, r, ask("?"))
			for _, err := range []error{err, err2} {
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "base_url") || strings.Contains(err.Error(), planted) {
					t.Errorf("%d to %q: %v", status, c.to, err)
				}
			}
			if asked.Load() != 2 || elsewhere.Load() != 0 {
				t.Fatalf("%d to %q: %d requests, %d elsewhere", status, c.to, asked.Load(), elsewhere.Load())
			}
		}
	}
}

// TestNoKeyInErrors plants a key and has it sent back in every way.
func TestNoKeyInErrors(t *testing.T) {
	quoted, _ := json.Marshal(planted)
	for name, h := range map[string]http.HandlerFunc{
		"message": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(401)
			fmt.Fprintf(w, `{"error":{"message":"bad key %s","code":%s,"type":%s}}`, r.Header.Get("Authorization"), quoted, quoted)
		},
		"text": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); io.WriteString(w, planted) },
		"string": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"error":%s}`, quoted)
		},
		"detail": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"detail":[{"loc":[%s]}]}`, quoted)
		},
		"type": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", planted)
			io.WriteString(w, "x")
		},
		"garbage": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "data: {"+planted+"\n\n") },
		"in band": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `data: {"error":{"message":%s,"code":%s}}`+"\n\n", quoted, quoted)
		},
		"header": func(w http.ResponseWriter, r *http.Request) {
			c, _, _ := http.NewResponseController(w).Hijack()
			fmt.Fprintf(c, "HTTP/1.1 %s\r\n%s\r\n\r\n", planted, planted)
			c.Close()
		},
	} {
		r := serve(t, h)
		_, err := r.Send(t.Context(), ask("?"))
		_, err2 := collect(t, r, ask("?"))
		for _, err := range []error{err, err2} {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
			for ; err != nil; err = errors.Unwrap(err) {
				if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, planted) {
					t.Errorf("%s: %s", name, text)
				}
			}
		}
	}
	p := model.Provider{Name: "p", Kind: "bedrock", APIKey: planted, AccessKey: planted, SecretKey: planted, Models: []string{"m"}}
	b, err := json.Marshal(p)
	if text := fmt.Sprintf("%v %+v %#v %s %v", p, p, p, b, []any{&p}); err != nil || strings.Contains(text, planted) {
		t.Error(text, err)
	}
	if r, err := model.NewRegistry(model.Network{}, []model.Provider{{Name: "p", APIKey: planted, Models: []string{"m"}}}, ""); err != nil || strings.Contains(fmt.Sprintf("%v %+v %#v", r, r, r), planted) {
		t.Error("the registry shows a key", err)
	}
}

// reasoned returns an event with a text and a finish reason.
func reasoned(text, reason string) string {
	return fmt.Sprintf(`data: {"choices":[{"delta":{"content":%q},"finish_reason":%q}]}`+"\n\n", text, reason)
}

// TestCutStreams checks which responses are complete if the connection breaks.
func TestCutStreams(t *testing.T) {
	text := `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n"
	stop := `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	for _, c := range []struct {
		name, body string
		complete   bool
	}{
		{"null", reasoned("x", "null"), false},
		{"stop in each chunk", reasoned("x", "stop") + reasoned("y", "stop"), false},
		{"stop in the first chunk", reasoned("", "stop") + text + stop, false},
		{"a separate reason", text + stop, true},
		{"a separate unknown reason", text + strings.Replace(stop, "stop", "tired", 1), false},
	} {
		r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, c.body)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		if _, err := collect(t, r, ask("?")); c.complete != (err == nil) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestBadStreams checks that an incomplete response is an error with a reason.
func TestBadStreams(t *testing.T) {
	text := `data: {"choices":[{"index":0,"delta":{"content":"x"}}]}` + "\n\n"
	for _, c := range []struct{ name, kind, body, want string }{
		{"no finish_reason", "", text + "data: [DONE]\n\n", "ended without a finish_reason"},
		{"null finish_reason", "", `data: {"choices":[{"delta":{"content":"x"},"finish_reason":null}]}` + "\n\ndata: [DONE]\n\n", "ended without a finish_reason"},
		{"a text for null", "", reasoned("x", "null") + reasoned("y", "null") + "data: [DONE]\n\n", "ended without a finish_reason"},
		{"a text for none", "", reasoned("x", "None"), "ended without a finish_reason"},
		{"an unknown reason in each chunk", "", reasoned("x", "going") + reasoned("y", "going") + "data: [DONE]\n\n", "ended without a finish_reason"},
		{"an unknown reason", "", reasoned("x", "tired"), "ended without a finish_reason"},
		{"text after a reason", "", reasoned("x", "stop") + text, "ended without a finish_reason"},
		{"empty", "", "", "ended without a finish_reason"},
		{"garbage", "", text + "data: {\"choices\":[{]\n\n", "a chunk of the stream is malformed"},
		{"half a chunk", "", text + `data: {"choices":[{"index":0,"del`, "the stream ended without a finish_reason"},
		{"a number", "", "data: 5\n\n", "malformed"},
		{"a page", "text/html; charset=utf-8", "<html>login</html>", "an HTML page, not an event stream: check base_url"},
		{"an error in JSON", "application/json", `{"error":{"message":"no credit","code":402}}`, "402 Payment Required: no credit"},
		{"an error as an object", "", `data: {"object":"error","message":"boom","code":500}` + "\n\n", "500 Internal Server Error: boom"},
		{"an error as a text", "", `data: {"error":"boom"}` + "\n\n", "boom"},
		{"an error after text", "", text + `data: {"error":{"message":"boom","type":"server_error"}}` + "\n\n", "server_error: boom"},
		{"an error in a field of its own", "", "error: " + `{"code":500,"message":"boom","type":"server_error"}` + "\n\ndata: [DONE]\n\n", "500 Internal Server Error: server_error: boom"},
		{"an event of errors", "", "event: error\ndata: " + `{"code":"busy","message":"boom"}` + "\n\n", "busy: boom"},
		{"an error in a list", "", `data: [{"error":{"code":503,"message":"boom","status":"UNAVAILABLE"}}]` + "\n\n", "503 Service Unavailable: UNAVAILABLE: boom"},
		{"an error in a list, not streamed", "application/json", `[{"error":{"code":503,"message":"boom"}}]`, "503 Service Unavailable: boom"},
		{"an error of a choice", "", `data: {"choices":[{"delta":{"content":""},"error":{"code":502,"message":"boom"},"finish_reason":"error"}]}` + "\n\n", "502 Bad Gateway: boom"},
		{"an error of a choice, not streamed", "application/json", `{"choices":[{"message":{"content":"half"},"error":{"code":502,"message":"boom"},"finish_reason":"error"}]}`, "502 Bad Gateway: boom"},
		{"an error with no type", "text/plain", `{"error":{"message":"boom"}}`, "boom"},
		{"no choices", "application/json", `{}`, "the response has no choices"},
	} {
		r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			if c.kind != "" {
				w.Header().Set("Content-Type", c.kind)
			}
			io.WriteString(w, c.body)
		})
		_, err := collect(t, r, ask("?"))
		if e, ok := errors.AsType[*model.Error](err); !ok || !strings.Contains(err.Error(), c.want) || e.Provider != "scripted" || e.Model != "m1" {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestOddStreams checks that an unusual but complete response is accepted.
func TestOddStreams(t *testing.T) {
	finish := `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	for _, c := range []struct{ name, kind, body, content, reasoning, calls string }{
		{name: "no [DONE]", body: `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n" + finish, content: "x"},
		{name: "stop in each chunk", body: reasoned("x", "stop") + reasoned("y", "stop"), content: "xy"},
		{name: "an unknown reason and [DONE]", body: reasoned("x", "tired") + "data: [DONE]\n\n", content: "x"},
		{name: "messages in place of deltas", body: `data: {"choices":[{"message":{"content":"x"}}]}` + "\n\n" + `data: {"choices":[{"message":{"content":"y","reasoning":"z"},"finish_reason":"stop"}]}` + "\n\n", content: "xy", reasoning: "z"},
		{name: "a message that repeats the deltas", calls: "f({})a", content: "x", body: `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n" +
			`data: {"choices":[{"message":{"content":"x","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}]}` + "\n\n"},
		{name: "the index of a choice as text", body: `data: {"choices":[{"index":"1","delta":{"content":"no"}},{"index":"0","delta":{"content":"x"}}]}` + "\n\n" + finish, content: "x"},
		{name: "no empty line at the end", body: `data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}`, content: "x"},
		{name: "CRLF and comments", body: ": hi\r\n\r\nevent: message\r\nid: 1\r\ndata:{\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\r\n\r\n" + finish, content: "x"},
		{name: "null error", body: `data: {"error":null,"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}` + "\n\n", content: "x"},
		{name: "the word error", body: `data: {"choices":[{"delta":{"content":"\"error\""},"finish_reason":"stop"}]}` + "\n\n", content: `"error"`},
		{name: "broken after its end", body: `data: {"choices":[{"delta":{"content":"x"},"finish_reason":"length"}]}` + "\n\ndata: [DONE] {{{\n\n", content: "x"},
		{name: "not streamed", kind: "application/json", body: `{"choices":[{"message":{"content":"x","reasoning":"y"},"finish_reason":"stop"}]}`, content: "x", reasoning: "y"},
		{name: "two choices", body: `data: {"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"x"}}]}` + "\n\n" + finish, content: "x"},
		{name: "refusal", body: `data: {"choices":[{"delta":{"refusal":"I will not"}}]}` + "\n\n" + finish, content: "I will not"},
		{name: "reasoning_content", body: `data: {"choices":[{"delta":{"reasoning_content":"y","reasoning":"y"}}]}` + "\n\n" + finish, reasoning: "y"},
		{name: "reasoning", body: `data: {"choices":[{"delta":{"reasoning":"y","content":null}}]}` + "\n\n" + finish, reasoning: "y"},
		{name: "reasoning_text", body: `data: {"choices":[{"delta":{"reasoning_text":"y"}}]}` + "\n\n" + finish, reasoning: "y"},
		{name: "reasoning_details", body: `data: {"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"a"},{"summary":"b"}]}}]}` + "\n\n" + finish, reasoning: "ab"},
		{name: "fields of wrong types", content: "x", body: `data: {"id":5,"choices":[{"index":"0","delta":{"content":["?"],"reasoning":{},"tool_calls":7}}],"usage":[]}` + "\n\n" +
			`data: {"choices":[{"delta":{"refusal":1,"content":"x","role":[]}}]}` + "\n\n" + finish},
		{name: "parts", body: `data: {"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"y"}]},{"type":"text","text":"x"}]}}]}` + "\n\n" + finish, content: "x", reasoning: "y"},
		{name: "calls of one index", calls: "f({})a g({})b", body: `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}]}}]}` + "\n\n" + finish},
		{name: "an id in every piece", calls: "f({})a", body: `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}]}}]}` + "\n\n" + finish},
		{name: "gaps", calls: "f({})a g({})b", body: `data: {"choices":[{"delta":{"tool_calls":[{"index":7,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":-3,"id":"b","function":{"name":"g","arguments":"{}"}}]}}]}` + "\n\n" + finish},
		{name: "events without data", body: "data: \n\ndata:\n\nevent: ping\n\n" + `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n" + finish, content: "x"},
		{name: "a mark of UTF-8", body: "\ufeff" + `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n" + finish, content: "x"},
		{name: "not streamed, and said to be", body: "\n" + `{"choices":[{"message":{"content":"x"}}]}`, content: "x"},
		{name: "streamed, and said not to be", kind: "application/json", body: `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n" + finish, content: "x"},
		{name: "arguments as an object", calls: `f({"x": [1]})a`, body: `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"x": [1]}}}]}}]}` + "\n\n" + finish},
		{name: "arguments as an object, not streamed", kind: "application/json", calls: `f({"x": 1})a`,
			body: `{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":{"x": 1}}}]},"finish_reason":"stop"}]}`},
		{name: "neither ids nor indices", calls: "f()call_ g({})call_ g({})call_", body: `data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":""}},{"function":{"name":"g","arguments":"{}"}},{"function":{"name":"g","arguments":"{}"}}]}}]}` + "\n\n" + finish},
		{name: "empty ids", calls: `f({"a":1})call_ f({"a":2})call_`, body: `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"","function":{"name":"f","arguments":"{\"a\":1}"}}]}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"","function":{"name":"f","arguments":"{\"a\":"}}]}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"","function":{"name":"f","arguments":"2}"}}]}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"","function":{"name":"f","arguments":""}}]}}]}` + "\n\n" + finish},
		{name: "no ids", calls: "f({})call_ g({})call_", body: `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}},{"index":1,"function":{"name":"g","arguments":"{}"}}]}}]}` + "\n\n" + finish},
	} {
		r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			if c.kind != "" {
				w.Header().Set("Content-Type", c.kind)
			}
			io.WriteString(w, c.body)
		})
		res, err := collect(t, r, ask("?"))
		var calls []string
		for _, call := range res.Message.ToolCalls {
			id := call.ID
			if strings.HasPrefix(id, "call_") && len(id) > 20 {
				id = "call_"
			}
			calls = append(calls, call.Function.Name+"("+call.Function.Arguments+")"+id)
		}
		if err != nil || res.Message.Content != c.content || res.Message.ReasoningContent != c.reasoning || strings.Join(calls, " ") != c.calls || res.Finish == "" {
			t.Errorf("%s: %+v, %v", c.name, res, err)
		}
	}
}

// TestCauses checks that an error contains the endpoint's message.
func TestCauses(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"no such voice","provider_name":"X"}}}`, ": Provider returned error: no such voice"},
		{`{"timestamp":1,"status":400,"error":"Bad Request","message":"no such voice"}`, ": Bad Request: no such voice"},
		{`{"errors":[{"code":7,"message":"no such voice"}],"success":false}`, "no such voice"},
		{`{"error":{"reason":"no such voice"}}`, "no such voice"},
		{`{"detail":[{"msg":"no such voice"}]}`, "no such voice"},
	} {
		r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			io.WriteString(w, c.body)
		})
		if _, err := collect(t, r, ask("?")); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.body, err)
		}
	}
}

// TestShortKey checks that a placeholder for a key does not remove a word from a
// message.
func TestShortKey(t *testing.T) {
	for key, want := range map[string]string{"ollama": "run ollama pull m", "sk-planted": "run ollama pull [key]"} {
		name := "m"
		if want != "run ollama pull m" {
			name = key
		}
		s := modeltest.New(t, modeltest.Status(404, "run ollama pull "+name))
		r := registry(t, model.Provider{BaseURL: s.URL, APIKey: key})
		if _, err := r.Send(t.Context(), ask("?")); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestScriptedTrouble has the failures that a scripted model can cause.
func TestScriptedTrouble(t *testing.T) {
	for _, c := range []struct {
		name  string
		reply modeltest.Reply
		both  bool // also when not streamed
		want  string
	}{
		{"cut", modeltest.Say("a", "b").Cut(), true, "EOF"},
		{"garbage", modeltest.Say("a").Garbage(), false, "malformed"},
		{"no end", modeltest.Say("a").Finish(""), false, "finish_reason"},
		{"status", modeltest.Status(418, "teapot"), true, "418 I'm a teapot: i'm_a_teapot: teapot"},
		{"limited", modeltest.Status(429, "slow down").Header("Retry-After", "90"), true, "429 Too Many Requests: rate_limit_exceeded: slow down; retry after 1m30s"},
	} {
		s := modeltest.New(t, c.reply, c.reply)
		none := 0
		r := registry(t, model.Provider{BaseURL: s.URL, MaxRetries: &none})
		if _, err := collect(t, r, ask("?")); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, streamed: %v", c.name, err)
		}
		if _, err := r.Send(t.Context(), ask("?")); c.both && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, unstreamed: %v", c.name, err)
		}
	}
	// No listener.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	r := registry(t, model.Provider{BaseURL: "http://" + l.Addr().String() + "/v1", APIKey: planted})
	if _, err := r.Send(t.Context(), ask("?")); err == nil || !strings.Contains(err.Error(), "refused (tried 3 times)") {
		t.Error(err)
	}
}
