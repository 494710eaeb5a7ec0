package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestSwagger serves Swagger UI without a key if the configuration says so. The page loads
// only files of the gateway.
func TestSwagger(t *testing.T) {
	r := newRig(t)
	r.want("off, without a key", r.do("", "GET", swaggerPath, nil), 401, "no_key")
	r.want("off", r.do("root", "GET", swaggerPath, nil), 404, "no_route")

	r = newRig(t, func(c *Config) { c.Gateway.SwaggerUI = true })
	r.check = false // there is no route
	get := func(name, encoding string) (*http.Response, []byte) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), "GET", r.url+swaggerPath+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Accept-Encoding", encoding)
		p, err := http.DefaultTransport.RoundTrip(q)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Body.Close()
		b, err := io.ReadAll(p.Body)
		if policy := p.Header.Get("Content-Security-Policy"); err != nil || p.StatusCode != 200 || !strings.Contains(policy, "script-src 'self';") || strings.Contains(policy, "http") {
			t.Errorf("%s: %d, %v, policy %q", name, p.StatusCode, err, policy)
		}
		return p, b
	}
	_, page := get("", "gzip")
	for _, name := range []string{"swagger-ui-bundle.js", "swagger-ui.css", "start.js"} {
		if !bytes.Contains(page, []byte(`"`+name+`"`)) {
			t.Errorf("the page does not load %s", name)
		}
		p, packed := get(name, "br, gzip")
		_, plain := get(name, "identity")
		if len(plain) < 50 || name != "start.js" && (p.Header.Get("Content-Encoding") != "gzip" || len(packed) >= len(plain)) {
			t.Errorf("%s: %d bytes, compressed %d", name, len(plain), len(packed))
		}
	}
	if bytes.Contains(page, []byte("http")) || bytes.Contains(page, []byte("<script>")) {
		t.Errorf("page: %s", page)
	}
	var document struct{ Paths map[string]any }
	if _, b := get("openapi.json", "gzip"); json.Unmarshal(b, &document) != nil || document.Paths["/v1/recall"] == nil {
		t.Errorf("document: %.100s", b)
	}
	r.want("method", r.do("", "POST", swaggerPath, nil), 405, "method")
	r.want("file", r.do("", "GET", swaggerPath+"x", nil), 404, "no_route")
	r.want("other paths", r.do("", "GET", "/v1/memories", nil), 401, "no_key")
}
