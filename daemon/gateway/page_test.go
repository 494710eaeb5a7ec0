package gateway

import (
	"net/http"
	"strings"
	"testing"
)

// TestPage: the checks of Host and Origin also protect the page, and keys have no meaning
// for it. The tests of package page send it all requests.
func TestPage(t *testing.T) {
	r := newRig(t)
	r.check = false // the page is not in the document
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	get := func(path string, header ...string) *http.Response {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), "GET", r.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			if header[i] == "Host" {
				q.Host = header[i+1]
			}
			q.Header.Add(header[i], header[i+1])
		}
		p, err := c.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		p.Body.Close()
		return p
	}
	defer c.CloseIdleConnections()
	free := r.g.calls.fill()
	if p := get("/ui/login"); p.StatusCode != 200 {
		t.Errorf("the login while all calls are taken: %d", p.StatusCode)
	}
	free()
	_, port, _ := strings.Cut(strings.TrimPrefix(r.url, "http://"), ":")
	for _, one := range []struct {
		path     string
		status   int
		location string
		header   []string
	}{
		{"/", 303, "/ui/", nil},
		{"/ui/", 303, "/ui/login", nil},
		{"/ui/memories", 303, "/ui/login", []string{"Authorization", "Bearer " + r.keys["root"]}},
		{"/ui/memories", 303, "/ui/login", []string{"Cookie", "crabmem=" + r.keys["root"]}},
		{"/ui/login", 200, "", nil},
		{"/ui/login", 200, "", []string{"Host", "crabmem.localhost:" + port}},
		{"/ui/login", 403, "", []string{"Host", "evil.example:" + port}},
		{"/ui/login", 403, "", []string{"Host", "evil.localhost:" + port}},
		{"/ui/login", 403, "", []string{"Origin", "http://evil.example"}},
		{"/ui/login", 403, "", []string{"Origin", "null"}},
		{"/ui/login", 403, "", []string{"Sec-Fetch-Site", "cross-site"}},
		{"/ui//login", 401, "", nil},
		{"/ui", 401, "", nil},
	} {
		p := get(one.path, one.header...)
		if p.StatusCode != one.status || p.Header.Get("Location") != one.location {
			t.Errorf("%s %q: %d to %q, want %d to %q", one.path, one.header, p.StatusCode, p.Header.Get("Location"), one.status, one.location)
		}
	}
}
