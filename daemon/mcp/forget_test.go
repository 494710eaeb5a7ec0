package mcp

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"crabmem/bench/gate"
	"crabmem/daemon/tool"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestChangedComparesTheLatestState checks that a slow comparison of Resources
// does not replace the result of a later one.
func TestChangedComparesTheLatestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, notified atomic.Int64
		slow := make(chan struct{})
		m := New(Options{
			Reserved: func(string) bool {
				if calls.Add(1) == 1 {
					<-slow
				}
				return false
			},
			Changed: func() { notified.Add(1) },
		})
		defer m.Close()
		s := &server{Server: Server{Name: "s"}, m: m, state: up, session: new(sdk.ClientSession), tools: []remote{{name: "old"}}}
		m.configured["s"] = s
		go m.changed(func() {})
		synctest.Wait()
		s.mu.Lock()
		s.tools = slices.Concat(s.tools, []remote{{name: "new"}})
		s.mu.Unlock()
		go m.changed(func() {})
		synctest.Wait()
		close(slow)
		synctest.Wait()
		if want := m.Resources(tool.Unbounded()); m.resources != want || notified.Load() != 2 {
			t.Errorf("compared with %q, want %q; %d notifications", m.resources, want, notified.Load())
		}
	})
}

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
	for i := range 20 {
		files := []string{write(fmt.Sprintf("component%d", i)), write("taken")}
		gate.Until(t, "the problems of three servers", func() bool { return known() == 3 })
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		m.scan()
	}
	gate.Until(t, "the problems of one server", func() bool { return known() == 1 })
}
