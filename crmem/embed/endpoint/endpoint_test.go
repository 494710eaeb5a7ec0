package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"crabmem/crmem/embed"
)

// server returns an embedder of vectors with 3 components whose requests handle answers.
func server(t *testing.T, o Options, handle http.HandlerFunc) embed.Embedder {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	o.BaseURL, o.Model, o.Dim = s.URL+"/v1/", "small", 3
	return New(o)
}

// request is the body of a request.
type request struct {
	Model      string
	Input      []string
	Encoding   string `json:"encoding_format"`
	Dimensions int
}

// answer writes the vectors of a request in reverse order: the number and the length of
// each text, and 1.
func answer(t *testing.T, w io.Writer, r *http.Request) request {
	var q request
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		t.Error(err)
	}
	var list []string
	for i, text := range slices.Backward(q.Input) {
		list = append(list, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[%d,%d,1]}`, i, i, len(text)))
	}
	fmt.Fprintf(w, `{"object":"list","data":[%s],"usage":{}}`, strings.Join(list, ","))
	return q
}

func TestEmbed(t *testing.T) {
	for _, name := range []string{"API_KEY", "BASE_URL", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET", "CUSTOM_HEADERS", "ADMIN_KEY", "LOG"} {
		t.Setenv("OPENAI_"+name, "http://127.0.0.1:1")
	}
	var sizes []int
	e := server(t, Options{Key: "secret"}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/embeddings" || r.Header.Get("Authorization") != "Bearer secret" || r.Method != http.MethodPost {
			t.Errorf("%s %s, %v", r.Method, r.URL, r.Header)
		}
		if names := slices.Sorted(maps.Keys(r.Header)); fmt.Sprint(names) != "[Accept Accept-Encoding Authorization Content-Length Content-Type User-Agent]" {
			t.Errorf("headers: %s", names)
		}
		q := answer(t, w, r)
		sizes = append(sizes, len(q.Input))
		if q.Model != "small" || q.Encoding != "float" || q.Dimensions != 0 {
			t.Errorf("%+v", q)
		}
	})
	texts := make([]string, 70)
	for i := range texts {
		texts[i] = strings.Repeat("x", i)
	}
	got, err := e.Embed(t.Context(), texts)
	if err != nil || len(got) != 70 || !slices.Equal(sizes, []int{32, 32, 6}) {
		t.Fatalf("%d vectors, requests of %v texts: %v", len(got), sizes, err)
	}
	for i, v := range got {
		if v[1] != float32(i) {
			t.Errorf("vector %d is %v", i, v)
		}
	}
	e = server(t, Options{Dimensions: true}, func(w http.ResponseWriter, r *http.Request) {
		if q := answer(t, w, r); q.Dimensions != 3 || r.Header.Get("Authorization") != "" {
			t.Errorf("%+v, %v", q, r.Header)
		}
	})
	if _, err := e.Embed(t.Context(), texts[:2]); err != nil {
		t.Error(err)
	}
}

// TestHostile answers with errors and garbage.
func TestHostile(t *testing.T) {
	for _, c := range []struct {
		name, body string
		code       int
		want       string
		refused    bool
	}{
		{"overloaded", `{"error":{"message":"slow down"}}`, 429, `status 429 Too Many Requests: "slow down"`, false},
		{"key", `{"error":"no such key"}`, 401, `"no such key": check the key`, false},
		{"model", `not found`, 404, `"not found": check the base URL and the model`, false},
		{"long text", `{"error":{"message":"too long"}}`, 400, `"too long"`, true},
		{"long message", strings.Repeat("é", 5000), 500, `é…"`, false},
		{"redirect", "", 302, "status 302", false},
		{"garbage", "<html>", 200, "parse the response", false},
		{"truncated", `{"data":[{"index":0,"emb`, 200, "parse the response", false},
		{"empty", `{}`, 200, "0 vectors, want 2", false},
		{"too few", `{"data":[{"index":0,"embedding":[1,2,3]}]}`, 200, "1 vectors, want 2", false},
		{"repeated", `{"data":[{"index":0,"embedding":[1,2,3]},{"index":0,"embedding":[1,2,3]}]}`, 200, "repeated index", false},
		{"outside", `{"data":[{"index":0,"embedding":[1,2,3]},{"index":2,"embedding":[1,2,3]}]}`, 200, "wrong, or repeated index", false},
		{"negative", `{"data":[{"index":0,"embedding":[1,2,3]},{"index":-1,"embedding":[1,2,3]}]}`, 200, "wrong, or repeated index", false},
		{"without index", `{"data":[{"embedding":[1,2,3]},{"embedding":[1,2,3]}]}`, 200, "missing, wrong", false},
		{"another dimension", `{"data":[{"index":0,"embedding":[1,2,3]},{"index":1,"embedding":[1,2,3,4]}]}`, 200, "4 components, want 3: check the model and its dimension", false},
		{"null", `{"data":[{"index":0,"embedding":[1,2,3]},{"index":1,"embedding":null}]}`, 200, "0 components, want 3", false},
		{"a number too large", `{"data":[{"index":0,"embedding":[1,2,3]},{"index":1,"embedding":[1,2,1e99]}]}`, 200, "parse the response", false},
		{"huge", `{"data":[` + strings.Repeat(" ", maxRest+1000) + `]}`, 200, "more than", false},
	} {
		e := server(t, Options{Key: "secret"}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/v1/embeddings")
			w.WriteHeader(c.code)
			io.WriteString(w, c.body) //nolint:errcheck // the test fails
		})
		_, err := e.Embed(t.Context(), []string{"a", "b"})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "POST http://127.0.0.1") ||
			len(err.Error()) > 500 || errors.Is(err, embed.ErrRefused) != c.refused || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func TestSlow(t *testing.T) {
	release := make(chan struct{})
	e := server(t, Options{}, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := e.Embed(ctx, []string{"a"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	s := httptest.NewServer(nil)
	s.Close()
	if _, err := New(Options{BaseURL: s.URL, Dim: 3}).Embed(t.Context(), []string{"a"}); err == nil || strings.Count(err.Error(), "http") != 1 {
		t.Error(err)
	}
}
