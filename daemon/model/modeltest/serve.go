package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxRequest bounds the body of a request.
const maxRequest = 256 << 20

// ServeHTTP answers a request from the script.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		fail(w, http.StatusRequestEntityTooLarge, "too_large", err.Error())
		return
	}
	q := Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(), Body: body}
	if err := decode(&q); err != nil {
		fail(w, http.StatusBadRequest, "bad_request", err.Error())
		return
	}
	if s.Log != nil {
		s.Log(q)
	}
	reply, ok := s.take(q)
	for ok && reply.by != nil {
		reply = reply.by(q)
	}
	switch {
	case !ok:
		fail(w, http.StatusBadRequest, "no_reply", fmt.Sprintf("the script has no reply left for %q", q.LastUser()))
	case r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/chat/completions"):
		fail(w, http.StatusNotFound, "not_found", r.Method+" "+r.URL.Path)
	default:
		a := &answer{s: s, w: w, r: r, q: q}
		a.play(reply)
	}
}

func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error", "code": code}})
}

// answer is a reply on its way.
type answer struct {
	s    *Server
	w    http.ResponseWriter
	r    *http.Request
	q    Request
	drip time.Duration

	// Collected for an unstreamed response.
	text, think string
	calls       []any

	sent   int // calls
	finish *string
	usage  any
	raw    bool
}

func (a *answer) play(reply Reply) {
	for _, s := range reply.steps {
		if s.op == "header" {
			a.w.Header().Set(s.text, s.args)
		}
	}
	for _, s := range reply.steps {
		if a.r.Context().Err() != nil {
			return
		}
		switch s.op {
		case "status":
			fail(a.w, s.n, statusCode(s.n), s.text)
			return
		case "text":
			if !a.q.Stream {
				a.text += s.text
			}
			a.delta(map[string]any{"content": s.text})
		case "think":
			a.think += s.text
			a.delta(map[string]any{"reasoning_content": s.text})
		case "call":
			a.call(s)
		case "usage":
			a.usage = map[string]int{"prompt_tokens": s.n, "completion_tokens": s.m, "total_tokens": s.n + s.m}
		case "finish":
			a.finish = &s.text
		case "stall":
			if !a.stall(s.wait) {
				return
			}
		case "drip":
			a.drip = s.wait
		case "cut":
			a.cut()
		case "raw":
			a.raw = true
			a.write(s.text)
		}
	}
	if !a.raw {
		a.end()
	}
}

func statusCode(status int) string {
	switch status {
	case http.StatusTooManyRequests:
		return "rate_limit_exceeded"
	case http.StatusUnauthorized:
		return "invalid_api_key"
	}
	return strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "_")
}

// call sends an id and a name, then the arguments in three pieces.
func (a *answer) call(s step) {
	id := a.s.callID()
	function := map[string]any{"name": s.text, "arguments": s.args}
	a.calls = append(a.calls, map[string]any{"id": id, "type": "function", "function": function})
	index := a.sent
	a.sent++
	a.delta(map[string]any{"tool_calls": []any{map[string]any{
		"index": index, "id": id, "type": "function", "function": map[string]any{"name": s.text, "arguments": ""}}}})
	text := []rune(s.args)
	for piece := range slices.Chunk(text, max(1, (len(text)+2)/3)) {
		a.piece(index, string(piece))
	}
}

func (a *answer) piece(index int, text string) {
	a.delta(map[string]any{"tool_calls": []any{map[string]any{"index": index, "function": map[string]any{"arguments": text}}}})
}

func (a *answer) delta(d map[string]any) {
	if a.q.Stream {
		a.event(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": d, "finish_reason": nil}}})
	}
}

func (a *answer) event(fields map[string]any) {
	fields["id"], fields["object"], fields["created"], fields["model"] = "chatcmpl-1", "chat.completion.chunk", 0, a.q.Model
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	a.write("data: " + string(b) + "\n\n")
}

// end sends the end of a streamed response, or the complete unstreamed one.
func (a *answer) end() {
	finish := any("stop")
	if a.calls != nil {
		finish = "tool_calls"
	}
	if a.finish != nil {
		finish = *a.finish
		if finish == "" {
			finish = nil
		}
	}
	if a.q.Stream {
		if finish != nil {
			a.event(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": finish}}})
		}
		if a.usage != nil && strings.Contains(string(a.q.Body), `"include_usage":true`) {
			a.event(map[string]any{"choices": []any{}, "usage": a.usage})
		}
		a.write("data: [DONE]\n\n")
		return
	}
	message := map[string]any{"role": "assistant", "content": a.text}
	if a.text == "" && a.calls != nil {
		message["content"] = nil
	}
	if a.think != "" {
		message["reasoning_content"] = a.think
	}
	if a.calls != nil {
		message["tool_calls"] = a.calls
	}
	whole := map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": a.q.Model,
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}},
	}
	if a.usage != nil {
		whole["usage"] = a.usage
	}
	b, err := json.Marshal(whole)
	if err != nil {
		panic(err)
	}
	a.write(string(b))
}

// write sends bytes now, one by one while the reply drips.
func (a *answer) write(text string) {
	if a.w.Header().Get("Content-Type") == "" {
		kind := "application/json"
		if a.q.Stream {
			kind = "text/event-stream"
		}
		a.w.Header().Set("Content-Type", kind)
	}
	flush := func() { http.NewResponseController(a.w).Flush() }
	if a.drip == 0 {
		io.WriteString(a.w, text)
		flush()
		return
	}
	for i := range len(text) {
		if !a.stall(a.drip) {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(a.w, text[i:i+1])
		flush()
	}
}

// stall waits and reports whether the client is still connected. If a chunk was
// written, it sends the headers first, so that the client sees a stall in the
// middle.
func (a *answer) stall(d time.Duration) bool {
	var over <-chan time.Time
	released := a.s.released
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over, released = timer.C, nil
	}
	select {
	case <-over:
	case <-released:
	case <-a.r.Context().Done():
		return false
	}
	return true
}

// cut ends the connection. Of an answer that is not streamed half was sent.
func (a *answer) cut() {
	if !a.q.Stream {
		a.w.Header().Set("Content-Type", "application/json")
		a.w.Header().Set("Content-Length", strconv.Itoa(1<<10))
		io.WriteString(a.w, `{"id":"chatcmpl-1","choices":[{"index":0,`)
		http.NewResponseController(a.w).Flush()
	}
	panic(http.ErrAbortHandler)
}
