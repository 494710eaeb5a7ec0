package gateway

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"crabmem/crmem/vfs"
	"crabmem/daemon/op"
	"crabmem/fuzz/race"
)

// TestProblemsHideTheHome uses a link to the home.
func TestProblemsHideTheHome(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, link := filepath.Join(top, "home"), filepath.Join(top, "link")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("home", link); err != nil {
		t.Fatal(err)
	}
	g, err := New(Options{FS: vfs.OS{}, Home: link, Config: DefaultConfig(), Log: slog.New(slog.DiscardHandler), Version: "test", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if got, want := g.hide("open "+home+"/a: "+link+"/b"), "open HOME/a: HOME/b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestHealth: only /health needs no key. It reports a missing daemon, in which case
// every other request fails with 503.
func TestHealth(t *testing.T) {
	r := newRig(t)
	if p := r.do("", "GET", "/health", nil); string(p.body) != `{"status":"ok","version":"test","home":"`+HomeID(vfs.OS{}, r.home)+`"}`+"\n" || p.StatusCode != 200 {
		t.Errorf("health: %d %s", p.StatusCode, p.body)
	}
	path, etag := r.create("ann", "a", "b")
	r.daemon()
	if p := r.do("", "GET", "/health", nil); string(p.body) != `{"status":"no_daemon","version":"test","home":"`+HomeID(vfs.OS{}, r.home)+`"}`+"\n" || p.StatusCode != 200 {
		t.Errorf("without a daemon: %d %s", p.StatusCode, p.body)
	}
	for _, one := range r.g.routes {
		if one.open || one.path == "/v1/components" || strings.HasPrefix(one.path, "/v1/runs/") || strings.HasPrefix(one.path, hookPath) {
			continue
		}
		at := strings.Replace(one.path, "/v1/memories/{id}", path, 1)
		at = strings.NewReplacer("{id}", "1", "{number}", "1", "{change}", "1", "{store}", "memstore_main", "{memory}", "mem_1").Replace(at)
		var body any
		if one.in != nil {
			body = object{}
			switch {
			case strings.HasSuffix(at, "/search") || strings.HasSuffix(at, "/recall"):
				body = object{"query": "x"}
			case one.path == "/v1/crons":
				body = object{"schedule": "0 9 * * *", "skill": "x"}
			case one.path == storesPath || one.path == storePath:
				body = object{"name": "x"}
			case one.path == storedPath:
				body = object{"path": "/x", "content": "x"}
			case strings.HasSuffix(at, "/tag"):
				body = object{"name": "x", "add": []string{"y"}}
			case strings.HasSuffix(at, "/route"):
				body = object{"message": "x"}
			case strings.HasSuffix(at, "/answer"):
				body = object{"answer": "x"}
			case strings.HasSuffix(at, "/remember") || strings.HasSuffix(at, "/replace"):
				body = object{"name": "x", "content": "x"}
			case strings.HasSuffix(at, "/append"):
				body = object{"name": "x", "text": "x"}
			case strings.HasSuffix(at, "/pin"):
				body = object{"names": []string{"x"}}
			case strings.HasPrefix(at, "/v1/tasks"):
				body = object{"title": "x"}
			case strings.HasPrefix(at, "/v1/tools/"):
				body = map[string]object{"edit": {"name": "x", "old_text": "y", "new_text": "z"}, "list_memories": {}, "session_search": {"query": "x"},
					"recall": {"query": "x"}, "remember": {"name": "x", "content": "x"}}[filepath.Base(at)]
				if body.(object) == nil {
					body = object{"name": "x"}
				}
			case one.path == "/v1/memories":
				body = object{"name": "x", "content": "x"}
			case at == "/v1/sessions/1":
				body = object{"title": "x"}
			case !strings.HasSuffix(at, "/compact"):
				body = object{"content": "x"}
			}
		}
		header := []string{}
		if strings.HasSuffix(at, "/named") {
			at += "?name=x"
		}
		if one.match {
			header = []string{"If-Match", etag}
		}
		kind := "no_daemon"
		if one.style == storeStyle {
			kind = "overloaded_error"
		}
		p := r.want(one.method+" "+at, r.do("ann", one.method, at, body, header...), 503, kind)
		if p.Header.Get("Retry-After") != "1" {
			t.Errorf("%s: no Retry-After", at)
		}
	}
	r.startDaemon()
	r.want("after the daemon started", r.do("ann", "GET", path, nil), 200, "")
	_, text, _ := strings.Cut(r.url, "127.0.0.1:")
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, running := range []bool{true, false} {
		for host, port := range map[string]int{"127.0.0.1": port, "0.0.0.0": port, "localhost": 0} {
			if got := Answers(t.Context(), &Server{Host: host, Port: port}, HomeID(vfs.OS{}, r.home)); got != (running && port > 0) {
				t.Errorf("running %v: %s:%d answers: %v", running, host, port, got)
			}
			if Answers(t.Context(), &Server{Host: host, Port: port}, HomeID(vfs.OS{}, t.TempDir())) {
				t.Error("the gateway of another home answers")
			}
		}
		r.stop()
	}
}

// TestComponents lists the port files of the home, with or without a program that listens.
func TestComponents(t *testing.T) {
	r := newRig(t)
	if p := r.want("none", r.do("ann", "GET", "/v1/components", nil), 200, ""); string(p.body) != "[]\n" {
		t.Errorf("none: %s", p.body)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := strings.Cut(l.Addr().String(), ":")
	for name, text := range map[string]string{"browser": port, "stale": "1", "bad": "x", "crabtalk": port} {
		if err := os.WriteFile(filepath.Join(r.home, "run", name+".port"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := r.want("two", r.do("ann", "GET", "/v1/components", nil), 200, "")
	if want := `[{"name":"browser","state":"running"},{"name":"stale","state":"stale"}]` + "\n"; string(p.body) != want {
		t.Errorf("components %s, want %s", p.body, want)
	}
	if !strings.Contains(r.log.String(), "bad.port") {
		t.Error("the log does not have the bad file")
	}
}

// TestKeys sends keys in all ways, and changes the file of the keys.
func TestKeys(t *testing.T) {
	r := newRig(t)
	r.keys["old"] = r.addKey(Key{Name: "old", Expires: time.Now().Add(-time.Second).UTC().Format(time.RFC3339)})
	r.keys["new"] = r.addKey(Key{Name: "new", Expires: time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
	ann := r.keys["ann"]
	for what, c := range map[string]struct {
		header []string
		status int
		kind   string
	}{
		"none":            {nil, 401, "no_key"},
		"bearer":          {[]string{"Authorization", "Bearer " + ann}, 200, ""},
		"lower case":      {[]string{"Authorization", "bearer " + ann}, 200, ""},
		"x-api-key":       {[]string{"X-Api-Key", ann}, 200, ""},
		"both":            {[]string{"X-Api-Key", ann, "Authorization", "Bearer " + ann}, 401, "no_key"},
		"two bearers":     {[]string{"Authorization", "Bearer " + ann, "Authorization", "Bearer " + ann}, 401, "no_key"},
		"basic":           {[]string{"Authorization", "Basic " + ann}, 401, "no_key"},
		"without scheme":  {[]string{"Authorization", ann}, 401, "no_key"},
		"empty":           {[]string{"Authorization", "Bearer "}, 401, "key"},
		"empty x-api-key": {[]string{"X-Api-Key", ""}, 401, "key"},
		"wrong":           {[]string{"Authorization", "Bearer cmk_" + strings.Repeat("A", 43)}, 401, "key"},
		"a prefix":        {[]string{"Authorization", "Bearer " + ann[:len(ann)-1]}, 401, "key"},
		"longer":          {[]string{"Authorization", "Bearer " + ann + "A"}, 401, "key"},
		"its hash":        {[]string{"Authorization", "Bearer " + op.SHA256(ann)}, 401, "key"},
		"expired":         {[]string{"Authorization", "Bearer " + r.keys["old"]}, 401, "expired"},
		"not expired":     {[]string{"Authorization", "Bearer " + r.keys["new"]}, 200, ""},
	} {
		p := r.want(what, r.do("", "GET", "/v1/agents", nil, c.header...), c.status, c.kind)
		if (p.StatusCode == 401) != (p.Header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s: WWW-Authenticate %q", what, p.Header.Get("WWW-Authenticate"))
		}
	}
	for _, name := range []string{"key", "api_key", "token", "access_token", "Token"} {
		r.want("in the URL", r.do("ann", "GET", "/v1/agents?"+name+"="+ann, nil), 400, "invalid")
	}
	if err := RemoveKey(vfs.OS{}, r.home, "ann"); err != nil {
		t.Fatal(err)
	}
	r.want("a removed key", r.do("ann", "GET", "/v1/agents", nil), 401, "key")
	r.keys["ann"] = r.addKey(Key{Name: "ann"})
	r.want("its successor", r.do("ann", "GET", "/v1/agents", nil), 200, "")
	file := filepath.Join(r.home, KeyFile)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range r.keys {
		if strings.Contains(string(b), key) {
			t.Errorf("the file contains the key %s", name)
		}
	}
	if fi, err := os.Stat(file); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", fi.Mode(), err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.want("a damaged file", r.do("ann", "GET", "/v1/agents", nil), 503, "keys")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	r.want("a file that others can change", r.do("ann", "GET", "/v1/agents", nil), 503, "keys")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	r.want("no file", r.do("ann", "GET", "/v1/agents", nil), 401, "key")
	if strings.Contains(r.log.String(), ann) || !strings.Contains(r.log.String(), "unknown key") {
		t.Errorf("log:\n%s", r.log)
	}
}

// TestAgentsOfKey: a key with agents may talk only to them.
func TestAgentsOfKey(t *testing.T) {
	r := newRig(t)
	r.keys["only"] = r.addKey(Key{Name: "only", Agents: []string{"other"}})
	if p := r.do("only", "GET", "/v1/agents", nil); string(p.body) != "[]\n" {
		t.Errorf("agents: %s", p.body)
	}
	r.want("an agent", r.do("only", "GET", "/v1/agents/crab", nil), 404, "unknown_agent")
	r.want("send", r.do("only", "POST", "/v1/send", object{"content": "hi"}), 403, "agent")
	r.want("run", r.do("only", "POST", "/v1/runs", object{"content": "hi"}), 403, "agent")
	r.want("stream", r.do("only", "POST", "/v1/stream", object{"content": "hi", "agent": "crab"}), 403, "agent")
	if n := len(r.model.Requests()); n != 0 {
		t.Errorf("%d requests to the model", n)
	}
}

// TestHosts sends the headers of other sites, with a valid key: none is answered.
func TestHosts(t *testing.T) {
	r := newRig(t)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(r.url, "http://"))
	for what, c := range map[string]struct {
		host   string
		header []string
		kind   string
	}{
		"loopback":           {"127.0.0.1:" + port, nil, ""},
		"localhost":          {"localhost:" + port, nil, ""},
		"upper case":         {"LOCALHOST:" + port, nil, ""},
		"IPv6":               {"[::1]:" + port, nil, ""},
		"another name":       {"evil.example:" + port, nil, "host"},
		"trailing dot":       {"localhost.:" + port, nil, "host"},
		"another port":       {"127.0.0.1:1", nil, "host"},
		"no port":            {"127.0.0.1", nil, "host"},
		"another address":    {"127.0.0.2:" + port, nil, "host"},
		"decimal":            {"2130706433:" + port, nil, "host"},
		"user":               {"127.0.0.1@evil.example:" + port, nil, "host"},
		"prefix":             {"127.0.0.1.evil.example:" + port, nil, "host"},
		"own origin":         {"127.0.0.1:" + port, []string{"Origin", "http://127.0.0.1:" + port}, ""},
		"foreign origin":     {"127.0.0.1:" + port, []string{"Origin", "http://evil.example"}, "origin"},
		"null origin":        {"127.0.0.1:" + port, []string{"Origin", "null"}, "origin"},
		"empty origin":       {"127.0.0.1:" + port, []string{"Origin", ""}, "origin"},
		"two origins":        {"127.0.0.1:" + port, []string{"Origin", "http://127.0.0.1:" + port, "Origin", "http://evil.example"}, "origin"},
		"cross-site":         {"127.0.0.1:" + port, []string{"Sec-Fetch-Site", "cross-site"}, "origin"},
		"same-site":          {"127.0.0.1:" + port, []string{"Sec-Fetch-Site", "same-site"}, "origin"},
		"same-origin":        {"127.0.0.1:" + port, []string{"Sec-Fetch-Site", "same-origin"}, ""},
		"extension":          {"127.0.0.1:" + port, []string{"Origin", "chrome-extension://abc"}, "origin"},
		"origin, other port": {"127.0.0.1:" + port, []string{"Origin", "http://127.0.0.1:1"}, "origin"},
	} {
		for _, path := range []string{"/v1/agents", "/health"} {
			q, err := http.NewRequestWithContext(t.Context(), "GET", r.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			q.Host = c.host
			q.Header.Set("Authorization", "Bearer "+r.keys["ann"])
			for i := 0; i < len(c.header); i += 2 {
				q.Header.Add(c.header[i], c.header[i+1])
			}
			status := 200
			if c.kind != "" {
				status = 403
			}
			p := r.want(what, r.send(q), status, c.kind)
			for name := range p.Header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s: %s", what, name)
				}
			}
		}
	}
	r.want("preflight", r.do("ann", "OPTIONS", "/v1/agents", nil), 405, "method")
}

// TestPaths: unknown paths and methods, with and without a key, and paths that a server
// would redirect.
func TestPaths(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/ui", "/v1", "/v1/", "/v1/agents/", "/v1//agents", "/v1/../v1/agents", "/v1/%2e%2e/v1/agents", "/v1/memories/1/2", "/V1/agents", "/health/", "/.git", "/metrics/"} {
		r.want(path, r.do("ann", "GET", path, nil), 404, "no_route")
		r.want(path+" without a key", r.do("", "GET", path, nil), 401, "no_key")
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "TRACE", "BREW"} {
		p := r.do("ann", method, "/v1/agents", nil)
		if p.StatusCode != 405 || p.Header.Get("Allow") != "GET" {
			t.Errorf("%s: %d, allow %q", method, p.StatusCode, p.Header.Get("Allow"))
		}
		r.do("", method, "/v1/agents", nil)
	}
	for _, query := range []string{"?x=1", "?limit=1&limit=2", "?limit=-1", "?limit=201", "?limit=x", "?limit=", "?kind=other", "?view=all", "?name=%ff", "?name=" + strings.Repeat("n", 5000), "?%zz", "?a;b"} {
		r.want(query[:min(20, len(query))], r.do("ann", "GET", "/v1/memories"+query, nil), 400, "invalid")
	}
}

// TestBodies sends bodies that are not what a route accepts.
func TestBodies(t *testing.T) {
	race.Skip(t)
	r := newRig(t)
	for what, body := range map[string]string{
		"empty": "", "not JSON": "content", "a list": `["a"]`, "a string": `"a"`, "null": "null", "two": `{"name":"a","content":"b"}{}`, "trailing": `{"name":"a","content":"b"} x`,
		"unknown field": `{"name":"a","content":"b","kind":"archive"}`, "wrong type": `{"name":1,"content":"b"}`, "twice": `{"name":"a","content":"b","name":"c"}`,
		"twice in other letters": `{"name":"a","content":"b","Name":"c"}`, "twice in a list": `{"name":"a","content":"b","aliases":[{"x":1,"x":2}]}`,
		"cut": `{"name":"a","content":"b"`, "comment": `{"name":"a","content":"b"/**/}`, "not UTF-8": "{\"name\":\"a\",\"content\":\"\xff\"}",
		"deep": `{"name":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, "very deep": strings.Repeat(`{"a":`, 100000),
		"control characters": "{\"name\":\"a\",\"content\":\"b\x00\"}", "number": `{"name":"a","content":"b","aliases":1e999}`,
	} {
		r.want(what, r.do("ann", "POST", "/v1/memories", body), 400, "invalid")
	}
	good := `{"name":"a","content":"b"}`
	for what, header := range map[string][]string{
		"no type": {}, "form": {"Content-Type", "application/x-www-form-urlencoded"}, "text": {"Content-Type", "text/plain"}, "two types": {"Content-Type", "application/json", "Content-Type", "application/json"},
		"encoded": {"Content-Type", "application/json", "Content-Encoding", "gzip"}, "prefix": {"Content-Type", "application/jsonp"},
	} {
		q, err := http.NewRequestWithContext(t.Context(), "POST", r.url+"/v1/memories", strings.NewReader(good))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+r.keys["ann"])
		for i := 0; i < len(header); i += 2 {
			q.Header.Add(header[i], header[i+1])
		}
		r.want(what, r.send(q), 415, "media_type")
	}
	r.want("a body of GET", r.do("ann", "GET", "/v1/agents", "{}"), 400, "invalid")
	r.want("too large", r.do("ann", "POST", "/v1/recall", `{"query":"`+strings.Repeat("x", maxBody)+`"}`), 413, "too_large")
	r.want("too large for an entry", r.do("ann", "POST", "/v1/memories", `{"name":"`+strings.Repeat("x", maxBigBody)+`"}`), 413, "too_large")
	q, err := http.NewRequestWithContext(t.Context(), "POST", r.url+"/v1/recall", io.MultiReader(strings.NewReader(`{"query":"`), strings.NewReader(strings.Repeat("x", maxBody)), strings.NewReader(`"}`)))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+r.keys["ann"])
	q.Header.Set("Content-Type", "application/json")
	r.want("too large without a length", r.send(q), 413, "too_large")
	p := r.want("8 MiB", r.do("ann", "POST", "/v1/memories", object{"name": "big", "content": strings.Repeat("word ", (8<<20)/5)}), 201, "")
	if p.field("bytes") != float64((8<<20)/5*5) {
		t.Errorf("bytes: %v", p.field("bytes"))
	}
	if p := r.do("ann", "GET", "/v1/memories", nil); p.field("items.1") != nil {
		t.Errorf("a refused body was stored: %s", p.body)
	}
}

// TestLimits: the rate of a key, and concurrent calls.
func TestLimits(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Limits.Rate, c.Limits.Burst = 0.001, 3 })
	for range 3 {
		r.want("in the burst", r.do("ann", "GET", "/v1/agents", nil), 200, "")
	}
	p := r.want("after the burst", r.do("ann", "GET", "/v1/agents", nil), 429, "rate")
	if p.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	r.want("another key", r.do("bob", "GET", "/v1/agents", nil), 200, "")
	free := r.g.calls.fill()
	r.want("without a slot", r.do("bob", "GET", "/v1/agents", nil), 503, "busy")
	r.want("health", r.do("", "GET", "/health", nil), 200, "")
	free()
	r.want("with a slot", r.do("bob", "GET", "/v1/agents", nil), 200, "")
}

// TestSlowClients opens connections that send nothing, and half a request. They end, and
// others are served.
func TestSlowClients(t *testing.T) {
	r := newRig(t)
	var idle []net.Conn
	for range 2 * unverified {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle = append(idle, c)
		fmt.Fprintf(c, "GET /v1/agents HTTP/1.1\r\nHost: %s\r\n", strings.TrimPrefix(r.url, "http://"))
	}
	r.want("another client", r.do("ann", "GET", "/v1/agents", nil), 200, "")
	r.eventually("the oldest connections end", func() bool {
		_ = idle[0].SetReadDeadline(time.Now().Add(time.Second))
		_, err := bufio.NewReader(idle[0]).ReadByte()
		e, timeout := err.(net.Error)
		return err != nil && !(timeout && e.Timeout())
	})
}
