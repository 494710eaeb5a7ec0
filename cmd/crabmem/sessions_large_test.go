package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"crabmem/daemon/op"
)

// TestListLargeSession lists a sparse file of 20 GiB: the counts are marked as
// lower bounds.
func TestListLargeSession(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: a truncated file is not sparse on this system")
	}
	p := newPlace(t, false)
	if err := os.Truncate(filepath.Join(p.home, "sessions", "ghost_user_1.jsonl"), 20<<30); err != nil {
		t.Skip("SKIPPED: no sparse file of this size: ", err)
	}
	out, diag, code := p.runs("sessions", "list")
	if code != 0 || !strings.Contains(out, " 2+ ") || diag != "" {
		t.Errorf("exit code %d: %s%s", code, out, diag)
	}
	out, diag, code = p.runs("sessions", "list", "--json")
	var list []op.SessionFile
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || diag != "" || len(list) != 2 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, diag)
	}
	for _, s := range list {
		if s.ID == "ghost_user_1" && (s.Messages != 2 || s.Bytes != 20<<30 || s.Error != "") {
			t.Errorf("listed %+v", s)
		}
	}
}
