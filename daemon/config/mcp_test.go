package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"crabmem/daemon/config"
)

// TestMCPToken: a token is read from its file, for a server that has a URL, and
// never shown.
func TestMCPToken(t *testing.T) {
	files := map[string]string{"config.toml": "[mcps.a]\nurl = 'https://h/mcp'\ntoken_file = 'k'\ntimeout = '5m'\n", "k": "planted\n"}
	c := load(t, files)
	if m := c.MCPs[0]; m.Token != "planted" || m.Timeout != 5*time.Minute || !m.AutoRestart {
		t.Errorf("%q, %s, %v", string(m.Token), m.Timeout, m.AutoRestart)
	}
	if text := fmt.Sprintf("%v %+v %#v", c, c.MCPs, c.MCPs[0].Token); strings.Contains(text, "planted") {
		t.Error(text)
	}
	if js := get(t, newHome(t, files)); strings.Contains(js, "planted") {
		t.Error(js)
	}
	m := newHome(t, map[string]string{"config.toml": "[mcps.a]\ncommand = 'x'\ntoken_file = 'k'\ntimeout = 0\n", "k": "planted"})
	_, err := config.Load(m, "/h", func(string) string { return "" })
	if err == nil || !strings.Contains(err.Error(), "mcps.a.token_file: a token requires url: set url, or remove token_file") ||
		!strings.Contains(err.Error(), "mcps.a.timeout: 0s is not between 1s and 24h0m0s") || strings.Contains(err.Error(), "planted") {
		t.Error(err)
	}
}
