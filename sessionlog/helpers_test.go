package sessionlog_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"crabmem/sessionlog"
)

func writeSession(t testing.TB, dir, name string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func measuredHeap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func openDir(t testing.TB, dir string) *sessionlog.Dir {
	t.Helper()
	d, err := sessionlog.OpenDir(dir, nil)
	noErr(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}
