package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"crabmem/cmd/crabmem/internal/cli"
)

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
