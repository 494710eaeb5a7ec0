package mcpserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/daemon/errtable"
	"crabmem/daemon/guard"
)

const testToken = "0123456789abcdef0123456789abcdef"

// listen serves a new store over HTTP and returns the address.
func listen(t *testing.T, bound string, allowed ...string) (address string) {
	t.Helper()
	return listenWith(t, t.TempDir(), bound, defaultHTTPLimits(), allowed...)
}

func listenWith(t *testing.T, dir, bound string, limits httpLimits, allowed ...string) (address string) {
	t.Helper()
	s := newTestServer(t, dir)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	server, gate := s.httpServer(l, newBearer(testToken), guard.NewHosts(bound, port, allowed), limits)
	served := make(chan error, 1)
	go func() { served <- server.Serve(gate) }()
	t.Cleanup(func() {
		server.Close()
		<-served
		s.refusals.Flush()
	})
	return address
}

const pingBody = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// TestAttacks sends raw requests of pages of other sites, of rebound DNS names,
// and of programs without the token.
func TestAttacks(t *testing.T) {
	address := listen(t, "127.0.0.1", "memory.example")
	_, port, _ := net.SplitHostPort(address)
	for _, c := range []struct {
		name    string
		replace map[string]string // headers; empty = left out
		more    string            // headers as they stand
		method  string
		path    string
		want    int
	}{
		{name: "as it should be", want: 200},
		{name: "localhost", replace: map[string]string{"Host": "localhost:" + port}, want: 200},
		{name: "upper case", replace: map[string]string{"Host": "LOCALHOST:" + port}, want: 200},
		{name: "IPv6", replace: map[string]string{"Host": "[::1]:" + port}, want: 200},
		{name: "a proxy's name", replace: map[string]string{"Host": "memory.example"}, want: 200},
		{name: "own origin", more: "Origin: http://" + address + "\r\nSec-Fetch-Site: same-origin\r\n", want: 200},
		{name: "the proxy's origin", more: "Origin: https://memory.example\r\n", want: 200},
		{name: "a charset", replace: map[string]string{"Content-Type": "application/json; charset=utf-8"}, want: 200},

		{name: "no Accept", replace: map[string]string{"Accept": ""}, want: 200},
		{name: "only JSON", replace: map[string]string{"Accept": "Application/JSON; charset=utf-8"}, want: 200},
		{name: "any application", replace: map[string]string{"Accept": "application/*"}, want: 200},
		{name: "only events", replace: map[string]string{"Accept": "text/event-stream"}, want: 400},
		{name: "a slash at the end", path: "/mcp/", want: 200},
		{name: "a path below", path: "/mcp/x", want: 404},

		{name: "rebound name", replace: map[string]string{"Host": "evil.example:" + port}, want: 403},
		{name: "rebound name without port", replace: map[string]string{"Host": "evil.example"}, want: 403},
		{name: "name with ours in front", replace: map[string]string{"Host": "127.0.0.1.evil.example:" + port}, want: 403},
		{name: "name with ours behind", replace: map[string]string{"Host": "evil-localhost:" + port}, want: 403},
		{name: "user in the host", replace: map[string]string{"Host": "localhost@evil.example:" + port}, want: 400},
		{name: "another port", replace: map[string]string{"Host": "127.0.0.1:1"}, want: 403},
		{name: "no port", replace: map[string]string{"Host": "127.0.0.1"}, want: 403},
		{name: "all addresses", replace: map[string]string{"Host": "0.0.0.0:" + port}, want: 403},
		{name: "decimal address", replace: map[string]string{"Host": "2130706433:" + port}, want: 403},
		{name: "mapped address", replace: map[string]string{"Host": "[::ffff:127.0.0.1]:" + port}, want: 403},
		{name: "trailing dot", replace: map[string]string{"Host": "localhost.:" + port}, want: 403},
		{name: "empty host", replace: map[string]string{"Host": " "}, want: 403},
		{name: "no host", replace: map[string]string{"Host": ""}, want: 400},
		{name: "two hosts", more: "Host: evil.example\r\n", want: 400},
		{name: "forwarded host", replace: map[string]string{"Host": "evil.example"}, more: "X-Forwarded-Host: 127.0.0.1:" + port + "\r\n", want: 403},
		{name: "absolute target", path: "http://evil.example/mcp", want: 403},

		{name: "other origin", more: "Origin: https://evil.example\r\n", want: 403},
		{name: "null origin", more: "Origin: null\r\n", want: 403},
		{name: "empty origin", more: "Origin: \r\n", want: 403},
		{name: "origin of a file", more: "Origin: file://\r\n", want: 403},
		{name: "local origin of another port", more: "Origin: http://localhost:3000\r\n", want: 403},
		{name: "origin with ours in front", more: "Origin: http://" + address + ".evil.example\r\n", want: 403},
		{name: "origin of an extension", more: "Origin: chrome-extension://" + address + "\r\n", want: 403},
		{name: "second origin", more: "Origin: http://" + address + "\r\nOrigin: https://evil.example\r\n", want: 403},
		{name: "cross-site fetch", more: "Sec-Fetch-Site: cross-site\r\n", want: 403},
		{name: "same-site fetch", more: "Sec-Fetch-Site: same-site\r\n", want: 403},

		{name: "no token", replace: map[string]string{"Authorization": ""}, want: 401},
		{name: "wrong token", replace: map[string]string{"Authorization": "Bearer " + strings.Repeat("x", len(testToken))}, want: 401},
		{name: "part of the token", replace: map[string]string{"Authorization": "Bearer " + testToken[:31]}, want: 401},
		{name: "more than the token", replace: map[string]string{"Authorization": "Bearer " + testToken + "0"}, want: 401},
		{name: "empty token", replace: map[string]string{"Authorization": "Bearer "}, want: 401},
		{name: "no scheme", replace: map[string]string{"Authorization": testToken}, want: 401},
		{name: "basic", replace: map[string]string{"Authorization": "Basic " + testToken}, want: 401},
		{name: "two tokens", more: "Authorization: Bearer x\r\n", want: 401},
		{name: "token in the address", replace: map[string]string{"Authorization": ""}, path: "/mcp?token=" + testToken, want: 401},
		{name: "token in a cookie", replace: map[string]string{"Authorization": ""}, more: "Cookie: token=" + testToken + "\r\n", want: 401},
		{name: "unknown path without token", replace: map[string]string{"Authorization": ""}, path: "/", want: 401},
		{name: "unknown path", path: "/", want: 404},
		{name: "path with dots", path: "/mcp/../etc", want: 404},

		{name: "form", replace: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, want: 415},
		{name: "plain text", replace: map[string]string{"Content-Type": "text/plain"}, want: 415},
		{name: "plain text that says JSON", replace: map[string]string{"Content-Type": "text/plain; application/json"}, want: 415},
		{name: "no type", replace: map[string]string{"Content-Type": ""}, want: 415},
		{name: "two types", more: "Content-Type: text/plain\r\n", want: 415},
		{name: "compressed", more: "Content-Encoding: gzip\r\n", want: 415},
		{name: "preflight", method: "OPTIONS", more: "Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n", replace: map[string]string{"Authorization": ""}, want: 403},
		{name: "listening stream", method: "GET", want: 405},
		{name: "session of another", more: "Mcp-Session-Id: guessed\r\n", want: 200},
		{name: "huge header", more: "X-Large: " + strings.Repeat("x", 2<<20) + "\r\n", want: 431},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, method := "/mcp", "POST"
			if c.path != "" {
				path = c.path
			}
			if c.method != "" {
				method = c.method
			}
			headers := map[string]string{"Host": address, "Authorization": "Bearer " + testToken, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
			for k, v := range c.replace {
				headers[k] = v
			}
			var b strings.Builder
			fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", method, path)
			for _, k := range []string{"Host", "Authorization", "Content-Type", "Accept"} {
				if headers[k] != "" {
					fmt.Fprintf(&b, "%s: %s\r\n", k, headers[k])
				}
			}
			fmt.Fprintf(&b, "%sContent-Length: %d\r\nConnection: close\r\n\r\n%s", c.more, len(pingBody), pingBody)
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(gate.Hang))
			go func() { _, _ = io.WriteString(conn, b.String()) }()
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			if res.StatusCode != c.want {
				t.Errorf("status %d, want %d: %s", res.StatusCode, c.want, body)
			}
			for k := range res.Header {
				if strings.HasPrefix(k, "Access-Control-") {
					t.Errorf("it says %s: %s", k, res.Header.Get(k))
				}
			}
			if strings.Contains(string(body), testToken) {
				t.Error("it tells the token")
			}
		})
	}
}

// TestNoBuffering: nginx passes events on at once.
func TestNoBuffering(t *testing.T) {
	address := listen(t, "127.0.0.1")
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+mcpPath, strings.NewReader(pingBody))
	if err != nil {
		t.Fatal(err)
	}
	q.Header = http.Header{"Authorization": {"Bearer " + testToken}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer p.Body.Close()
	if p.StatusCode != http.StatusOK || p.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("%d %v", p.StatusCode, p.Header)
	}
}

// TestBodies sends bodies that are too large, or never end.
func TestBodies(t *testing.T) {
	address := listen(t, "127.0.0.1")
	post := func(body io.Reader) int {
		t.Helper()
		r, err := http.NewRequest("POST", "http://"+address+"/mcp", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+testToken)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0 // the server ended the connection while it was written to
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	if got := post(strings.NewReader(pingBody)); got != 200 {
		t.Errorf("a ping: status %d", got)
	}
	if got := post(strings.NewReader("\xef\xbb\xbf" + pingBody)); got != 200 {
		t.Errorf("a byte order mark: status %d", got)
	}
	large := io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`), io.LimitReader(endless{}, maxMessage+1))
	if got := post(large); got != 413 && got != 0 {
		t.Errorf("a large body: status %d", got)
	}
	for _, body := range []string{"", "x", "[]", "{}", `{"jsonrpc":"2.0"}`, strings.Repeat("[", 1<<20), `"\ud800"`, "\xff"} {
		if got := post(strings.NewReader(body)); got < 400 || got >= 500 {
			t.Errorf("the body %.20q: status %d", body, got)
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		bound, host string
		want        bool
	}{
		{"192.0.2.1", "192.0.2.1:80", true},
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"0.0.0.0", "0.0.0.0", false},
		{"::", "[::]", false},
		{"", "", false},
		{"", "localhost", true},
		{"Box.local", "box.LOCAL", true},
		{"2001:db8::1", "[2001:db8::1]:80", true},
	} {
		if got := guard.NewHosts(c.bound, "80", nil).Host(c.host); got != c.want {
			t.Errorf("bound to %q: Host %q is allowed: %t", c.bound, c.host, got)
		}
	}
	for host, want := range map[string]bool{"127.0.0.1": true, "127.9.9.9": true, "::1": true, "localhost": true, "": false, "0.0.0.0": false, "::": false, "192.0.2.1": false, "localhost.evil.example": false} {
		if guard.Loopback(host) != want {
			t.Errorf("Loopback(%q) = %t", host, !want)
		}
	}
}

func TestToken(t *testing.T) {
	dir := t.TempDir()
	o := HTTPOptions{TokenFile: filepath.Join(dir, "mcp-token")}
	if _, _, err := o.token(vfs.OS{}, false); errtable.Find(err).Exit != errtable.ExitPermission {
		t.Errorf("without a token: %v", err)
	}
	first, from, err := o.token(vfs.OS{}, true)
	if err != nil || len(first) != 64 || from != o.TokenFile {
		t.Fatalf("%q of %q, %v", first, from, err)
	}
	if again, _, err := o.token(vfs.OS{}, true); err != nil || again != first {
		t.Errorf("the second time %q, %v", again, err)
	}
	o.Token = testToken
	if token, _, err := o.token(vfs.OS{}, false); err != nil || token != first {
		t.Errorf("CRABMEM_TOKEN and --token-file: %q, %v", token, err)
	}
	env := HTTPOptions{Token: testToken}
	if token, from, err := env.token(vfs.OS{}, false); err != nil || token != testToken || from != "CRABMEM_TOKEN" {
		t.Errorf("CRABMEM_TOKEN: %q of %q, %v", token, from, err)
	}
	for _, bad := range []string{"short", strings.Repeat("x", 2000), strings.Repeat(" ", 40), strings.Repeat("é", 40)} {
		env.Token = bad
		if _, _, err := env.token(vfs.OS{}, false); err == nil || strings.Contains(err.Error(), bad) {
			t.Errorf("the token %q: %v", bad, err)
		}
	}
	other := HTTPOptions{TokenFile: filepath.Join(dir, "other")}
	for _, bad := range []string{"", "short\n", strings.Repeat("x", 2000), strings.Repeat("x", 40) + "\n\x00"} {
		if err := os.WriteFile(other.TokenFile, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := other.token(vfs.OS{}, false); err == nil {
			t.Errorf("the file %.20q is taken", bad)
		}
	}
	if err := os.Remove(other.TokenFile); err == nil {
		err = os.Symlink(o.TokenFile, other.TokenFile)
		if err != nil {
			t.Skipf("SKIPPED: no symbolic links here: %v", err)
		}
	}
	if _, _, err := other.token(vfs.OS{}, true); err == nil {
		t.Error("a link is followed")
	}
}

// TestTokenMode: a token that others may have read is refused.
func TestTokenMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: Windows has no modes")
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(testToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]bool{
		0o600: true, 0o700: true,
		0o640: false, 0o604: false, 0o620: false, 0o602: false, 0o610: false, 0o601: false, 0o644: false, 0o666: false,
	} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		token, err := readToken(vfs.OS{}, file)
		if (err == nil) != want || want && token != testToken {
			t.Errorf("mode %04o: %q, %v", mode, token, err)
		}
		if !want && err != nil && (errtable.Find(err).Exit != errtable.ExitPermission || !strings.Contains(err.Error(), fmt.Sprintf("%04o", mode))) {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}
