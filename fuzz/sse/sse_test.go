// Package sse fuzzes the reader of streamed model responses.
package sse

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"crabmem/daemon/model/chat"
	"crabmem/sessionlog"
)

const key = "sk-0123456789"

// wire is a transport that returns the same response to every request.
type wire struct {
	kind string
	body func() io.Reader
}

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Body.Close()
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {w.kind}}, Body: io.NopCloser(w.body()), Request: r}, nil
}

// read returns the chunks of a stream, the last finish reason, and the error. It
// removes the random part of generated call IDs.
func read(t *testing.T, w wire) (list []string, finish string, failed error) {
	c := chat.NewClient(chat.Endpoint{
		Provider: "p", URL: "http://model.test/v1/", Query: url.Values{}, Secrets: []string{key},
		Header: http.Header{"Authorization": {"Bearer " + key}}, Timeout: time.Minute, Idle: time.Minute, Quiet: time.Minute, Transport: w,
	})
	q := chat.Request{Model: "m", Messages: []sessionlog.Message{{Role: "user", Content: "?"}}}
	calls := 0
	for chunk, err := range c.Stream(t.Context(), q) {
		if failed != nil {
			t.Fatalf("the stream continues after the error %v", failed)
		}
		if failed = err; err != nil {
			continue
		}
		if chunk.Content == "" && chunk.Reasoning == "" && chunk.Calls == nil && chunk.Finish == "" && chunk.Usage == nil {
			t.Fatal("empty chunk")
		}
		text := chunk.Content + chunk.Reasoning + chunk.Finish
		for i, d := range chunk.Calls {
			if d.Index > calls || d.Index < 0 || d.Index == calls && d.ID == "" {
				t.Fatalf("call %d, id %q, after %d calls", d.Index, d.ID, calls)
			}
			calls = max(calls, d.Index+1)
			text += d.ID + d.Type + d.Name + d.Arguments
			if strings.HasPrefix(d.ID, "call_") {
				chunk.Calls[i].ID = "call_"
			}
		}
		if !utf8.ValidString(text) {
			t.Fatalf("%q is not UTF-8", text)
		}
		finish = cmp.Or(chunk.Finish, finish)
		list = append(list, fmt.Sprintf("%q %q %#v %q %v", chunk.Content, chunk.Reasoning, chunk.Calls, chunk.Finish, chunk.Usage))
	}
	return list, finish, failed
}

// FuzzStream checks that a stream ends with a finish_reason or an error, and that no
// error contains the key. The result must not depend on the split of the bytes.
func FuzzStream(f *testing.F) {
	const hello = `data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":"hé😀"},"finish_reason":null}]}` + "\n\n"
	const end = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	for _, s := range []string{
		hello + end + `data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}` + "\n\ndata: [DONE]\n\n",
		hello, ": hi\r\n\r\n" + end, "event: error\ndata: {\"error\":{\"message\":\"" + key + "\",\"code\":429}}\n\n",
		`data: {"choices":[{"delta":{"tool_calls":[{"index":1,"id":"a","type":"function","function":{"name":"f","arguments":"{\"a\":"}},{"index":1,"function":{"arguments":"1}"}}]}}]}` + "\n\n" + end,
		`data: {"choices":[{"delta":{"reasoning_content":"a","reasoning_details":[{"text":"b"}],"content":[{"text":"c"},{"thinking":[{"text":"d"}]}]}}]}` + "\n\n" + end,
		`data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"f"}},{"index":1,"id":"x"},{"index":1,"id":"y","function":{"name":"g"}}]}}]}` + "\n" + `data: ` + "\n\n",
		`{"choices":[{"message":{"content":"x","tool_calls":[{"id":"","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}]}`,
		`{"object":"error","message":"` + key + `"}`, "data: [", "data\n\ndata:\n\n", `data: {"error":"error"}` + "\n\n", "\xff\xfe",
	} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, s string, json bool) {
		kind := "text/event-stream"
		if json {
			kind = "application/json"
		}
		list, finish, err := read(t, wire{kind, func() io.Reader { return strings.NewReader(s) }})
		if err == nil && finish == "" && !json {
			t.Fatal("neither a finish_reason nor an error")
		}
		if err != nil && strings.Contains(fmt.Sprintf("%v %#v", err, err), key) {
			t.Fatalf("the error contains the key: %v", err)
		}
		again, _, err2 := read(t, wire{kind, func() io.Reader { return iotest.OneByteReader(strings.NewReader(s)) }})
		if !slices.Equal(list, again) || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("one read: %q %v\nbyte by byte: %q %v", list, err, again, err2)
		}
		// The first half of a stream must not have more chunks than the stream.
		if len(s) > 0 && !json {
			part, _, _ := read(t, wire{kind, func() io.Reader { return strings.NewReader(s[:len(s)/2]) }})
			if len(part) > len(list) && err == nil {
				t.Fatalf("the first half has %d chunks, the stream %d", len(part), len(list))
			}
		}
	})
}
