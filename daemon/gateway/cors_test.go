package gateway

import (
	"net/http"
	"strings"
	"testing"

	"crabmem/daemon/model/modeltest"

	"github.com/coder/websocket"
)

// corsHeaders returns the headers of a response that only a page of another site reads.
func corsHeaders(p *http.Response) (list []string) {
	for name, values := range p.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			list = append(list, name+": "+strings.Join(values, " "))
		}
	}
	return list
}

// TestCORS: pages of the origins in the configuration use the interface with a key, and no
// other page does. No page uses the pages of the gateway.
func TestCORS(t *testing.T) {
	const app = "https://app.example.org"
	r := newRig(t, func(c *Config) { c.Server.CORS, c.Gateway.SwaggerUI = []string{app, "http://localhost:5173"}, true })
	asks := []string{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type,x-stainless-lang"}
	from := func(origin string) []string {
		return []string{"Origin", origin, "Sec-Fetch-Site", "cross-site", "Cookie", "session=x"}
	}
	r.check = false // OPTIONS is not in the table
	for _, path := range []string{"/v1/recall", "/v1/no-such-path", "/health"} {
		p := r.do("", "OPTIONS", path, nil, append(from(app), asks...)...)
		h := p.Header
		if p.StatusCode != 204 || len(p.body) > 0 || h.Get("Access-Control-Allow-Origin") != app || h.Get("Vary") != "Origin" ||
			!strings.Contains(h.Get("Access-Control-Allow-Methods"), "POST") || h.Get("Access-Control-Allow-Headers") != asks[3] || h.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("OPTIONS %s: %d %v", path, p.StatusCode, h)
		}
	}
	for _, origin := range []string{"https://evil.example", "https://app.example.org:444", "http://app.example.org", "https://APP.example.org", "https://x.app.example.org", "null", "*"} {
		for _, method := range []string{"OPTIONS", "GET"} {
			p := r.want(method+" "+origin, r.do("ann", method, "/v1/memories", nil, append(from(origin), asks...)...), 403, "origin")
			if list := corsHeaders(p.Response); list != nil {
				t.Errorf("%s of %s: %v", method, origin, list)
			}
		}
	}
	r.want("without an origin", r.do("ann", "OPTIONS", "/v1/recall", nil, asks...), 405, "method")
	r.want("two origins", r.do("ann", "GET", "/v1/memories", nil, "Origin", app, "Origin", app), 403, "origin")
	for _, path := range []string{"/", "/ui/", "/ui/login", "/ui/memories", "/swagger-ui/"} {
		for _, method := range []string{"OPTIONS", "GET", "POST"} {
			p := r.want(method+" "+path, r.do("ann", method, path, nil, append(from(app), asks...)...), 403, "origin")
			if list := corsHeaders(p.Response); list != nil {
				t.Errorf("%s %s: %v", method, path, list)
			}
		}
	}
	q, _ := http.NewRequestWithContext(t.Context(), "OPTIONS", r.url+"/v1/recall", nil)
	q.Host = "evil.example"
	q.Header.Set("Origin", app)
	r.want("another Host", r.send(q), 403, "host")
	r.check = true

	r.want("without a key", r.do("", "GET", "/v1/memories", nil, from(app)...), 401, "no_key")
	p := r.want("create", r.do("ann", "POST", "/v1/memories", object{"name": "a", "content": "b"}, from(app)...), 201, "")
	if h := p.Header; h.Get("Access-Control-Allow-Origin") != app || !strings.Contains(h.Get("Access-Control-Expose-Headers"), "ETag") || h.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("create: %v", h)
	}
	if p := r.want("list", r.do("ann", "GET", "/v1/memories", nil, from("http://localhost:5173")...), 200, ""); p.Header.Get("Access-Control-Allow-Origin") != "http://localhost:5173" {
		t.Errorf("list: %v", p.Header)
	}
	r.model.Queue(modeltest.Say("hi"))
	if p := r.want("stream", r.do("ann", "POST", "/v1/stream", object{"content": "hi"}, from(app)...), 200, ""); p.Header.Get("Access-Control-Allow-Origin") != app {
		t.Errorf("stream: %v", p.Header)
	}
	for origin, ok := range map[string]bool{app: true, "https://evil.example": false} {
		c, _, err := websocket.Dial(t.Context(), r.url+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {origin}}})
		if (err == nil) != ok {
			t.Errorf("WebSocket of %s: %v", origin, err)
		}
		if err == nil {
			c.CloseNow()
		}
	}
	if list := corsHeaders(r.do("ann", "GET", "/v1/memories", nil, "Origin", r.url).Response); list != nil {
		t.Errorf("the gateway's own origin: %v", list)
	}
}

// TestOrigins reads origins of the configuration as browsers send them.
func TestOrigins(t *testing.T) {
	for text, want := range map[string]bool{
		"https://app.example.org": true, "http://localhost:5173": true, "http://127.0.0.1:8080": true, "http://[::1]:8080": true, "https://xn--nxasmq6b.example": true,
		"": false, "*": false, "null": false, "https://*.example.org": false, "https://app.example.org/": false, "https://app.example.org/x": false, "app.example.org": false,
		"https://App.example.org": false, "HTTPS://app.example.org": false, "https://app.example.org:443": false, "http://app.example.org:80": false, "ftp://app.example.org": false,
		"https://user@app.example.org": false, "https://": false, "https://:444": false, "https://app.example.org?x": false, "https://app.example.org#x": false, "file://": false, "https://a b": false,
	} {
		c := DefaultConfig()
		c.Server.CORS = []string{text}
		if err := c.check(); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "server.cors: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
