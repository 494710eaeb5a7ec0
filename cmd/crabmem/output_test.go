package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
)

func TestParseAge(t *testing.T) {
	for s, want := range map[string]time.Duration{"90d": 90 * 24 * time.Hour, "2w": 14 * 24 * time.Hour, "1y": 365 * 24 * time.Hour, "36h": 36 * time.Hour, "0d": 0, "99999d": 99999 * 24 * time.Hour} {
		if got, err := parseAge(s); err != nil || got != want {
			t.Errorf("parseAge(%q) = %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "d", "-1d", "-5h", "1.5d", "106752d", "99999999999999999999999d", "300y", "soon", "5"} {
		if got, err := parseAge(s); err == nil {
			t.Errorf("parseAge(%q) = %v, want an error", s, got)
		}
	}
}

// TestErrorJSON checks that an error has every key, whatever it is.
func TestErrorJSON(t *testing.T) {
	var diag bytes.Buffer
	c := newApp(nil, nil, &diag)
	c.JSON = true
	if code := c.report(cli.Usagef("a <b> & c")); code != cli.ExitUsage {
		t.Errorf("exit code %d", code)
	}
	const want = `{"error":{"code":2,"kind":"usage","message":"a <b> & c","path":"","offset":null,"remedy":""}}` + "\n"
	if diag.String() != want {
		t.Errorf("got %swant %s", diag.String(), want)
	}
	if !json.Valid(diag.Bytes()) {
		t.Error("it is not JSON")
	}
}
