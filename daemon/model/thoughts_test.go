package model_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"crabmem/daemon/model"
	"crabmem/daemon/model/chat"
)

// TestThoughts checks that reasoning is apart from the text, in whichever form and in
// whichever parts an endpoint sends it, and that signatures are in neither.
func TestThoughts(t *testing.T) {
	for message, want := range map[string][2]string{
		`{"content":"yes"}`:                                      {"yes", ""},
		`{"content":"\n\n yes"}`:                                 {"\n\n yes", ""},
		`{"content":"yes","reasoning_content":"hm"}`:             {"yes", "hm"},
		`{"content":"yes","reasoning":"hm"}`:                     {"yes", "hm"},
		`{"content":"<think>\nhm\n</think>\n\nyes"}`:             {"yes", "\nhm\n"},
		`{"content":"\n<Thinking>hm</thinking>yes </think> no"}`: {"yes </think> no", "hm"},
		`{"content":"<think>a</think> <think>b</think>\nyes"}`:   {"yes", "ab"},
		`{"content":"<think></think>yes"}`:                       {"yes", ""},
		`{"content":"<think>a < b </thin c</think>yes"}`:         {"yes", "a < b </thin c"},
		`{"content":"<think>İİİ</think>yes"}`:                    {"yes", "İİİ"},
		`{"content":"<think>no end"}`:                            {"", "no end"},
		`{"content":"<think>no end </th"}`:                       {"", "no end </th"},
		`{"content":"use <think> tags </think>"}`:                {"use <think> tags </think>", ""},
		`{"content":"<thinker>x</thinker>"}`:                     {"<thinker>x</thinker>", ""},
		`{"content":"<th"}`:                                      {"<th", ""},
		`{"content":" "}`:                                        {" ", ""},
		`{"content":"<b>yes</b>"}`:                               {"<b>yes</b>", ""},
		`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"yes"}]}`:                                       {"yes", "hm"},
		`{"content":[{"type":"thinking","thinking":"hm","signature":"EqQB"},{"type":"text","text":"yes"}]}`:                                             {"yes", "hm"},
		`{"content":[{"type":"redacted_thinking","data":"EqQB"},{"type":"text","text":"yes"}]}`:                                                         {"yes", ""},
		`{"content":[{"type":"reasoning","text":"hm"},{"type":"text","text":"yes"}]}`:                                                                   {"yes", "hm"},
		`{"content":"yes","reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"EqQB"},{"type":"reasoning.encrypted","data":"EqQB"}]}`: {"yes", "hm"},
		`{"content":"yes","thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"EqQB"}],"reasoning_content":"hm"}`:                         {"yes", "hm"},
	} {
		var m map[string]any
		if err := json.Unmarshal([]byte(message), &m); err != nil {
			t.Fatal(err)
		}
		text, isText := m["content"].(string)
		// Streamed, the parts of the text have one length.
		for size := 0; size <= len(text) && size < 10; size++ {
			r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if size == 0 {
					fmt.Fprintf(w, `{"choices":[{"message":%s,"finish_reason":"stop"}]}`, message)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				for from := 0; from < len(text); from += size {
					m["content"] = strings.ToValidUTF8(text[from:min(from+size, len(text))], "")
					if strings.Contains(text, "İ") { // has two bytes
						m["content"] = text
						from = len(text)
					}
					part, _ := json.Marshal(m)
					fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":%s}]}\n\n", part)
					m = map[string]any{}
				}
				io.WriteString(w, `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
			})
			res, err := collect(t, r, ask("?"))
			if err != nil || res.Message.Content != want[0] || res.Message.ReasoningContent != want[1] {
				t.Errorf("%s in parts of %d: %q, %q, %v; want %q", message, size, res.Message.Content, res.Message.ReasoningContent, err, want)
			}
			if size == 0 {
				res, err = r.Send(t.Context(), ask("?"))
				if err != nil || res.Message.Content != want[0] || res.Message.ReasoningContent != want[1] {
					t.Errorf("%s: %+v, %v", message, res, err)
				}
			}
			if err := json.Unmarshal([]byte(message), &m); err != nil {
				t.Fatal(err)
			}
			if !isText {
				break
			}
		}
	}
}

// TestUnstreamed has endpoints that refuse to stream: the first request repeats
// without a stream, later ones have none.
func TestUnstreamed(t *testing.T) {
	for _, c := range []struct {
		status  int
		message string
		refused bool
	}{
		{400, `{"error":{"message":"Your organization must be verified to stream this model.","type":"invalid_request_error","param":"stream","code":"unsupported_value"}}`, true},
		{400, `{"error":{"message":"Streaming is not supported for this model"}}`, true},
		{422, `{"detail":[{"loc":["body","stream_options"],"msg":"unknown field: stream_options is not permitted"}]}`, true},
		{501, `{"error":"stream: not supported"}`, true},
		{405, `{"error":{"message":"streaming is disabled"}}`, true},
		{400, `{"error":{"message":"The upstream model is not available"}}`, false},
		{429, `{"error":{"message":"Too many streams: streaming is not allowed for a minute"}}`, false},
		{401, `{"error":{"message":"this key is not allowed to stream: streaming is disabled"}}`, false},
	} {
		var asked []bool
		r := serve(t, func(w http.ResponseWriter, q *http.Request) {
			b, _ := io.ReadAll(q.Body)
			streams := bytes.Contains(b, []byte(`"stream":true`))
			asked = append(asked, streams)
			if streams {
				w.WriteHeader(c.status)
				io.WriteString(w, c.message)
				return
			}
			io.WriteString(w, `{"choices":[{"message":{"content":"<think>hm</think>yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`)
		})
		for range 2 {
			res, err := collect(t, r, ask("?"))
			if c.refused && (err != nil || res.Message.Content != "yes" || res.Message.ReasoningContent != "hm" || res.Usage.Total != 3) || !c.refused && err == nil {
				t.Errorf("%d %s: %+v, %v", c.status, c.message, res, err)
			}
		}
		if want := map[bool]string{true: "[true false false]", false: "[true true]"}[c.refused]; fmt.Sprint(asked) != want {
			t.Errorf("%d %s: streamed %v, want %s", c.status, c.message, asked, want)
		}
	}
}

// TestToolsRefused has endpoints' messages for models without tools.
func TestToolsRefused(t *testing.T) {
	for body, status := range map[string]int{
		`{"error":{"message":"registry.ollama.ai/library/gemma3:4b does not support tools","type":"api_error","param":null,"code":null}}`:                             400,
		`{"error":{"message":"No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai/docs","code":404}}`:        404,
		`{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","code":400}`: 400,
		`{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}`:                                                                  500,
		`{"error":{"code":400,"message":"Function calling is not enabled for models/gemma-3-27b-it","status":"INVALID_ARGUMENT"}}`:                                    400,
	} {
		r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, body)
		})
		_, err := collect(t, r, ask("?"))
		if e, ok := errors.AsType[*model.Error](err); !ok || !errors.Is(err, chat.ErrTools) || e.Transient() || e.Status != status {
			t.Errorf("%d %s: %v", status, body, err)
		}
	}
	for _, f := range append(failures(t, "errors.txt", false), failures(t, "overflow.txt", true)...) {
		r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(f.status)
			io.WriteString(w, f.body)
		})
		_, err := collect(t, r, ask("?"))
		if refuses := strings.Contains(f.body, "support tool"); errors.Is(err, chat.ErrTools) != refuses {
			t.Errorf("%d %s: %v", f.status, f.body, err)
		}
	}
}
