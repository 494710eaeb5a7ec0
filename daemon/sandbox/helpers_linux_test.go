package sandbox_test

import (
	"encoding/json"
	"syscall"
	"testing"

	"crabmem/daemon/tool"
)

// token is the content of hidden files.
const token = "TOKEN-f3b1c9"

// args returns the arguments of a call from names and values.
func args(t *testing.T, fields ...any) json.RawMessage {
	t.Helper()
	m := make(map[string]any)
	for i := 0; i < len(fields); i += 2 {
		m[fields[i].(string)] = fields[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ran is the result of a command.
type ran struct {
	Code           int `json:"exit_code"`
	Stdout, Stderr string
}

func runBash(t *testing.T, b tool.Tool, c tool.Call) ran {
	t.Helper()
	out, err := b.Run(t.Context(), c)
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	var r ran
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// noChildren checks that every child was waited for.
func noChildren(t *testing.T) {
	t.Helper()
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("child %d remains: %v", pid, err)
	}
}
