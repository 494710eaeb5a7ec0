// Package daemontest runs daemons in the process of a test.
package daemontest

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"crabmem/daemon"
	"crabmem/daemon/wire"
)

// startTime is the time after which Serve reports that the daemon does not listen.
const startTime = 5 * time.Minute

// Config returns a configuration with the model script, which the server at url provides.
func Config(url string) string {
	return `sessions.titles = "off"
[provider.test]
kind = "openai-compatible"
base_url = "` + url + `"
api_key = "sk-planted"
models = ["script"]
max_retries = 0
[system.crab]
model = "script"
`
}

// Serve runs a daemon for a home until stop is called, or the test ends. It returns when
// the daemon listens.
func Serve(t testing.TB, home string) (addr wire.Addr, stop func()) {
	t.Helper()
	d, err := daemon.Open(daemon.Options{Home: home, Getenv: func(string) string { return "" }, Log: slog.New(slog.DiscardHandler), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(ctx) }() // until cancel
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("daemon: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("close the daemon: %v", err)
		}
	})
	t.Cleanup(stop)
	addr = wire.Addr{Network: "unix", Address: daemon.Socket(home)}
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if c, err := net.Dial(addr.Network, addr.Address); err == nil {
			_ = c.Close() // nothing was sent
			return addr, stop
		}
		if time.Since(began) > startTime {
			t.Fatal("the daemon does not listen")
		}
	}
}
