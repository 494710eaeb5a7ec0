package model_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"crabmem/daemon/model"
)

// TestReportedContext checks that the context of a model is what its provider's list
// says, unless the configuration has one, and that the list is requested once, before
// the first long request.
func TestReportedContext(t *testing.T) {
	for list, want := range map[string]int{
		`{"object":"list","data":[{"id":"other","max_model_len":1},{"id":"m1","object":"model","max_model_len":262144}]}`: 262144, // vLLM
		`{"data":[{"id":"m1","name":"M","context_length":131072,"top_provider":{"context_length":1}}]}`:                   131072, // OpenRouter
		`{"data":[{"id":"m1","context_window":40000}]}`:                                                                   40000,  // Groq
		`{"data":[{"id":"m1","type":"model","max_input_tokens":200000}]}`:                                                 200000, // Anthropic
		`{"data":[{"id":"m1","meta":{"n_ctx":16384,"n_ctx_train":99999}}]}`:                                               16384,  // llama.cpp
		`{"data":[{"id":7},{"id":"m1","max_model_len":"x"},{"id":"m1","max_model_len":5000}]}`:                            5000,
		`{"data":[{"id":"m1","max_model_len":-1}]}`:                                                                       32768,
		`{"data":[{"id":"m1"}]}`: 32768,
		`no list`:                32768,
		``:                       32768, // 404
	} {
		var asked []string
		handle := func(w http.ResponseWriter, q *http.Request) {
			asked = append(asked, q.Method+" "+q.Header.Get("Authorization"))
			switch {
			case q.Method == http.MethodPost:
				io.WriteString(w, `{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}`)
			case list == "" || q.URL.Path != "/models":
				w.WriteHeader(404)
			default:
				io.WriteString(w, list)
			}
		}
		r := serve(t, handle)
		limits := []int{r.ContextLimit("m1")}
		var notices []string
		for _, size := range []int{10, 17_000, 17_000} {
			q := ask(strings.Repeat("x", size))
			q.OnNotice = func(text string) { notices = append(notices, text) }
			if _, err := collect(t, r, q); err != nil {
				t.Fatal(err)
			}
			limits = append(limits, r.ContextLimit("m1"))
		}
		if got := fmt.Sprint(limits); got != fmt.Sprint([]int{32768, 32768, want, want}) {
			t.Errorf("%s: %s, want %d", list, got, want)
		}
		if assumed := want == 32768; assumed != (len(notices) == 1) || assumed && !strings.Contains(notices[0], "32768 tokens are assumed; set context_limits of provider 'scripted' in config.toml") {
			t.Errorf("%s: notices %q", list, notices)
		}
		key := " Bearer " + planted
		if got := strings.Join(asked, ","); got != strings.Join([]string{"POST" + key, "GET" + key, "POST" + key, "POST" + key}, ",") {
			t.Errorf("%s: %s", list, got)
		}
	}
	var lists int
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodGet {
			lists++
		}
		io.WriteString(w, `{"data":[{"id":"m1","max_model_len":262144}],"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}`)
	}))
	t.Cleanup(s.Close)
	r := registry(t, model.Provider{BaseURL: s.URL, ContextLimits: map[string]int{"m1": 7000}})
	if _, err := collect(t, r, ask(strings.Repeat("x", 17_000))); err != nil || r.ContextLimit("m1") != 7000 || lists != 0 {
		t.Errorf("configured: %d, %d lists, %v", r.ContextLimit("m1"), lists, err)
	}
}
