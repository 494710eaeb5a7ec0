package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestOpenPort opens the page while a gateway of another home has the port: the page has a
// free one, and the next open finds it.
func TestOpenPort(t *testing.T) {
	p := newPatient(t)
	p.serveWith(map[string]string{"FAR_KEY": "sk-right"})
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"ok","version":"1","home":"0123456789abcdef"}`)
	}))
	defer other.Close()
	_, port, _ := strings.Cut(other.Listener.Addr().String(), ":")
	p.write("config/gateway.toml", "[server]\nport = "+port+"\n")
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	first := p.cli(nil)
	first.Out = bufio.NewWriter(in)
	done := make(chan error, 1)
	go func() {
		done <- first.execute(ctx, []string{"--home", p.home, "open", "--no-browser", "--json"})
		in.Close()
	}()
	page := func(r io.Reader) (o openedPage) {
		if err := json.NewDecoder(r).Decode(&o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	opened := page(out)
	if !opened.Serving || strings.Contains(opened.URL, ":"+port+"/") {
		t.Errorf("opened %+v, port %s is taken", opened, port)
	}
	text, code := p.command("open", "--no-browser", "--json")
	if again := page(strings.NewReader(text)); code != 0 || again.Serving || again.URL != opened.URL {
		t.Errorf("the second open: exit code %d, %s", code, text)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
