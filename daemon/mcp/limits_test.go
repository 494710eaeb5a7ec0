package mcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"crabmem/daemon/tool"
)

// TestExactLists has lists that fill their limit exactly, or exceed it by a byte.
func TestExactLists(t *testing.T) {
	for more := range 2 {
		var all []listed
		for left := maxListed; left > 0; {
			n := min(left, 1000) // bytes of the line, without its end
			if rest := left - n; rest > 0 && rest < 500 {
				n -= 500
			} else if rest == 0 {
				n += more
			}
			all = append(all, listed{label: "a", remote: remote{description: strings.Repeat("d", n-len("a: "))}})
			left -= n + 1
		}
		text := describe(all)
		if more == 0 && len(text) != maxListed || strings.Contains(text, "\n... and 1 more: ") != (more == 1) {
			t.Errorf("list, %d over the limit: %d bytes, %q", more, len(text), text[len(text)-80:])
		}
		m := New(Options{})
		defer m.Close()
		const servers = maxResources / 64
		for i := range servers { // 64 bytes each, with the end of the line
			s := &server{Server: Server{Name: fmt.Sprintf("%03d%s", i, strings.Repeat("s", 58))}, m: m, state: up}
			if i == servers-1 {
				s.Name += strings.Repeat("s", 1+more)
			}
			m.configured[s.Name] = s
		}
		text = strings.TrimPrefix(m.Resources(tool.Unbounded()), resources)
		if more == 0 && len(text) != maxResources || strings.Contains(text, "\n... and 1 more: ") != (more == 1) {
			t.Errorf("resources, %d over the limit: %d bytes, %q", more, len(text), text[len(text)-80:])
		}
		m.configured = map[string]*server{}
	}
}

// TestCutTexts checks the limits of the texts of a server.
func TestCutTexts(t *testing.T) {
	for more, end := range []string{"xxx", "…"} {
		long := strings.Repeat("x", maxDescription+more)
		shown := long[:maxDescription-len("…")] + end
		if got := arguments(fmt.Appendf(nil, `{"properties":{"%s":{}},"required":["%s"]}`, long, long)); got != shown {
			t.Errorf("arguments of %d bytes: %d bytes", len(long), len(got))
		}
		s := &server{Server: Server{Name: strings.Repeat("s", maxToolName+more)}, state: up}
		m := New(Options{})
		m.configured[s.Name] = s
		if got := m.Resources(tool.Unbounded()); !strings.HasSuffix(got, "\n- "+s.Name[:maxToolName-len("…")]+strings.ReplaceAll(end, "x", "s")) {
			t.Errorf("a server's name of %d bytes: %q", len(s.Name), got)
		}
		m.Close()
		inWorld(t, func(w *world) {
			site := w.site("1001", false)
			site.tools = `[{"name":"a","description":"` + long + `","inputSchema":{}}]`
			w.Set([]Server{{Name: "s", URL: "http://127.0.0.1:1001/mcp"}})
			w.settle(time.Second)
			if got := w.view(tool.Unbounded())[0].description; got != shown {
				t.Errorf("a description of %d bytes: %d bytes", len(long), len(got))
			}
			server := w.configured["s"]
			server.ended(true, errors.New(long))
			if log := w.log.String(); !strings.Contains(log, "error="+shown) {
				t.Errorf("an error of %d bytes is logged as %q", len(long), log[len(log)-80:])
			}
		})
	}
	for text, want := range map[string]string{
		`{"properties":{"a":{"type":"string"}},"required":7}`: "", `{"properties":{"a":{"type":"string"},"b":7}}`: "", `{"properties":{}}`: "",
	} {
		if got := arguments([]byte(text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestPages checks how many pages of a list are requested.
func TestPages(t *testing.T) {
	h := &hostile{answers: []string{"", `{"jsonrpc":"2.0","id":$id,"result":{"tools":[],"nextCursor":"x"}}`}}
	h.meet(t, nil)
	if want := 1 + maxPages + 1; h.calls != want {
		t.Errorf("%d requests, want %d", h.calls, want)
	}
}

// TestSetWakesCalls checks that a call that waits for a server looks at the servers
// again when they are replaced.
func TestSetWakesCalls(t *testing.T) {
	m := New(Options{})
	defer m.Close()
	change := m.changes()
	m.Set(nil)
	select {
	case <-change:
	default:
		t.Error("the change is not announced")
	}
}

// TestUsable checks which characters a component's name may have.
func TestUsable(t *testing.T) {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	for r := rune(0); r < 0x100; r++ {
		if got, want := usable("n"+string(r)), strings.ContainsRune(letters, r); got != want {
			t.Errorf("%q: %v, want %v", r, got, want)
		}
	}
	for n, want := range map[int]bool{0: false, 1: true, 63: true, 64: true, 65: false} {
		if got := usable(strings.Repeat("n", n)); got != want {
			t.Errorf("%d letters: %v, want %v", n, got, want)
		}
	}
}

// TestDialLimit checks that each connection to an address is made in time, and that
// the context of the dial ends with it.
func TestDialLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dialed context.Context
		client := httpClient(t.Context(), "http://127.0.0.1/", "", time.Hour, func(ctx context.Context, _, _ string) (net.Conn, error) {
			dialed = ctx
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		began := time.Now()
		if _, err := get(t, client, http.MethodPost, "http://127.0.0.1/"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != connectTimeout { //nolint:bodyclose // there is no response
			t.Errorf("%v after %v, want %v", err, time.Since(began), connectTimeout)
		}
		response, _ := oneResponse(began, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		client = httpClient(t.Context(), "http://127.0.0.1/", "", time.Hour, func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed = ctx
			return response(ctx, network, address)
		})
		resp, err := get(t, client, http.MethodPost, "http://127.0.0.1/")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if dialed.Err() == nil {
			t.Error("the context of a dial has not ended")
		}
		client.CloseIdleConnections()
	})
}

// TestFailedStartsCloseFiles checks that a command that does not start leaves no
// descriptor open.
func TestFailedStartsCloseFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: the test reads /proc")
	}
	log, _ := plainLog()
	s := &server{Server: Server{Command: "/none/such"}, log: log}
	before := 0
	for range 20 {
		if c, err := s.spawn(); c != nil || !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%v, %v", c, err)
		}
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		if before == 0 {
			before = len(list) // the runtime has its own open from now on
		}
		if len(list) > before {
			t.Fatalf("%d descriptors are open, before %d", len(list), before)
		}
	}
}
