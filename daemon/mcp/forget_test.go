package mcp

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"crabmem/bench/gate"
)

// TestForgetsComponents checks that no state of removed components remains.
func TestForgetsComponents(t *testing.T) {
	dir := t.TempDir()
	m := New(Options{Run: dir})
	defer m.Close()
	m.Set([]Server{{Name: "taken", URL: "http://127.0.0.1:1/mcp"}})
	known := func() int {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.warned)
	}
	write := func(name string) string {
		file := filepath.Join(dir, name+".port")
		if err := os.WriteFile(file, []byte("1"), 0o600); err != nil { // no server listens there
			t.Fatal(err)
		}
		m.scan()
		return file
	}
	most := 0
	for i := range 20 {
		files := []string{write(fmt.Sprintf("component%d", i)), write("taken")}
		until := time.Now().Add(gate.Hang)
		for known() < 3 && time.Now().Before(until) {
			time.Sleep(time.Millisecond)
		}
		most = max(most, known())
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		m.scan()
	}
	until := time.Now().Add(gate.Hang)
	for known() > 1 && time.Now().Before(until) {
		time.Sleep(time.Millisecond)
	}
	if n := known(); n > 1 || most < 3 {
		t.Errorf("%d problems are known, of one server; %d were at a time", n, most)
	}
}
