package model_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"crabmem/daemon/model"
)

// failure is the response of an endpoint that refuses a request.
type failure struct {
	status   int
	body     string
	overflow bool
}

// failures returns the cases of a file in testdata.
func failures(t *testing.T, name string, overflow bool) (list []failure) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	source := regexp.MustCompile(`^20\d\d-\d\d-\d\d https://\S+$`)
	_, text, _ := strings.Cut(string(b), "\n\n")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		status, body, _ := strings.Cut(lines[i+1], " ")
		n, err := strconv.Atoi(status)
		if !source.MatchString(lines[i]) || err != nil {
			t.Fatalf("%s: %s\n%s", name, lines[i], lines[i+1])
		}
		list = append(list, failure{n, body, overflow})
	}
	return list
}

// TestOverflow has endpoints' messages for requests that are too long, and other
// messages: as bodies, as error events of streams, and inside of other messages.
func TestOverflow(t *testing.T) {
	reported, others := failures(t, "overflow.txt", true), failures(t, "errors.txt", false)
	if len(reported) < 50 || len(others) < 50 {
		t.Errorf("%d overflows, %d other errors", len(reported), len(others))
	}
	for _, c := range append(append(reported, others...), []failure{
		{400, `{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, true},
		{400, `{"error":{"message":"?","code":"context_length_exceeded"}}`, true},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}`, true},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"input length and ` + "`max_tokens`" + ` exceed context limit: 190000 + 20000 > 200000"}}`, true},
		{400, `[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`, true},
		{400, `{"message":"Input is too long for requested model."}`, true},
		{400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`, true},
		{500, `{"error":{"code":500,"message":"the request exceeds the available context size","type":"server_error"}}`, true},
		{400, `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}`, true},
		{400, `{"error":{"message":"Invalid request: Your request exceeded model token limit: 8192","type":"invalid_request_error"}}`, true},
		{413, `{"error":{"code":"tokens_limit_reached","message":"Request body too large for gpt-4o model. Max size: 8000 tokens."}}`, true},
		{400, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}`, true},
		{422, `Prompt contains 65673 tokens, too large for model with 32768 maximum context length`, true},
		{500, `{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`, true},
		{400, `{"error":"Trying to keep the first 5120 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}`, true},
		{400, `{"error":{"message":"The number of tokens to keep from the initial prompt is greater than the context length."}}`, true},
		{400, `{"object":"error","message":"The decoder prompt (length 9000) is longer than the maximum model length of 4096.","type":"BadRequestError","code":400}`, true},
		{400, `{"error":{"message":"You passed 5000 input tokens and requested 0 output tokens. However, the model's context length is only 4096 tokens","code":400}}`, true},
		{400, `{"error":{"message":"Requested tokens (2285) exceed context window of 2048","type":"invalid_request_error"}}`, true},
		{422, `{"error":"Input validation error: ` + "`inputs` tokens + `max_new_tokens`" + ` must be <= 4096. Given: 9000","error_type":"validation"}`, true},
		{400, `{"error":{"code":"invalid_parameter_error","message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]"}}`, true},
		{400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"This model's maximum context length is 8192 tokens\"}}","provider_name":"X"}}}`, true},
		{413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, true},
		{413, `<html><h1>413 Request Entity Too Large</h1></html>`, true},
		{429, `{"error":{"message":"Rate limit reached for tokens per min. maximum context length is not it","code":"rate_limit_exceeded"}}`, false},
		{413, `{"error":{"message":"Request too large for model in organization on tokens per minute (TPM): Limit 6000","type":"tokens","code":"rate_limit_exceeded"}}`, false},
		{400, `{"error":{"message":"max_tokens is too large: 100000. This model supports at most 16384 completion tokens","code":"invalid_value"}}`, false},
		{401, `{"error":{"message":"maximum context length"}}`, false},
		{500, ``, false},
		{400, `{"error":{"message":"context overflow"}}`, true},
		{400, `{"error":{"message":"input tokens exceed the maximum of 1000 per minute"}}`, false},
		{400, `{"error":{"message":"The prompt exceeds the rate limit"}}`, false},
		{400, `{"error":{"message":"Quota exceeded: the maximum of input tokens is 100"}}`, false},
		{400, `{"error":{"message":"The prompt exceeds the credits of this account"}}`, false},
		{504, `{"error":{"message":"The request timed out: the prompt exceeds the maximum time of a request"}}`, false},
		{400, `{"error":{"message":"Correct your prompt, or call the function draw_polygon in another way: it has 12 sides, the maximum is 10"}}`, false},
		{400, `{"error":{"message":"Invalid schema for function 'x': In context=('properties', 'n'), 'maximum' is not permitted.","type":"invalid_request_error","param":"tools[0].function.parameters","code":"invalid_function_parameters"}}`, false},
		{500, `{"error":{"message":"context deadline exceeded (Client.Timeout exceeded while awaiting headers)","type":"server_error"}}`, false},
	}...) {
		for _, inBand := range []bool{false, true} {
			if inBand && (c.body == "" || c.body[0] != '{' || !strings.Contains(c.body, `"error"`) || c.overflow && c.status == 413 || c.status == 401) {
				continue
			}
			r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if inBand {
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprintf(w, "data: %s\n\n", c.body)
					return
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			})
			_, err := collect(t, r, ask("?"))
			e, ok := errors.AsType[*model.Error](err)
			if !ok || errors.Is(err, model.ErrOverflow) != c.overflow {
				t.Errorf("%d %s, in band %v: %v", c.status, c.body, inBand, err)
				continue
			}
			if !inBand && c.status != 200 && e.Status != c.status || c.overflow && e.Transient() {
				t.Errorf("%d %s: %#v", c.status, c.body, err)
			}
		}
	}
}
