// Soak runs the daemon in a separate process under hostile clients. They
// disconnect, stall, never read, dial ten thousand times, and make the model flood
// the daemon. Soak exits with 1 on any of these failures:
//
//   - A request fails with an unexpected error.
//   - A request to the model contains a call without a result.
//   - Goroutines or descriptors leak.
//   - The daemon exits with an error.
//
// Soak also prints the wait of new clients, the number of connections, and the
// memory of the daemon. These figures depend on the load of the machine, so soak
// enforces their limits only with -gate. The limits include one second above a bare
// listener, at least 10,000 connections, and 64 MiB above idle with external load only.
//
//	go run ./fuzz/soak [-for 60s] [-seed N] [-gate]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"crabmem/bench/measure"
	"crabmem/daemon/client"
	"crabmem/daemon/wire"
	"crabmem/fuzz/internal/model"
)

func main() {
	d := flag.Duration("for", time.Minute, "run the clients for this `duration`")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the clients' choices")
	enforce := flag.Bool("gate", false, "enforce the limits of time, memory, and connections")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *d, *seed, *enforce); err != nil {
		fmt.Fprintf(os.Stderr, "fuzz/soak: %v\nrepeat with -seed %d\n", err, *seed)
		os.Exit(1)
	}
}

// soak is one run.
type soak struct {
	tree sync.Mutex // one dump or load at a time: another would change the pages that it reads

	home  string
	addr  wire.Addr
	model *model.Server
	cmd   *exec.Cmd
	peak  uint64 // peak resident bytes of the daemon
	seed  uint64
	gate  bool // enforce the limits of time, memory, and connections

	did     [opsN]atomic.Int64
	pings   []time.Duration
	longest time.Duration         // longest ping without steal time
	bare    time.Duration         // longest response of a bare listener, without steal time
	failure atomic.Pointer[error] // first unexpected error
}

// Indexes of the counters in soak.did.
const (
	opRequests = iota
	opStreams
	opEnded
	opHangUps
	opKills
	opReloads
	opDials
	opHalves
	opFloods
	opEvents
	opsN
)

const mib = 1 << 20

// hang is the timeout for the daemon to start or to release resources.
const hang = 5 * time.Minute

func run(ctx context.Context, d time.Duration, seed uint64, enforce bool) (err error) {
	s := &soak{seed: seed, gate: enforce}
	if s.home, err = os.MkdirTemp("", "soak"); err != nil {
		return err
	}
	defer os.RemoveAll(s.home)
	if s.model, err = model.Start(); err != nil {
		return err
	}
	defer s.model.Close()
	if err := s.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()

	idle, err := s.quiet(ctx, false)
	if err != nil {
		return err
	}
	fmt.Println("idle: ", idle)
	// The first phase has only external load: dials, partial requests, subscribers
	// that do not read, and the flood. The other phases add all other operations.
	var found [3]figures
	var peaks [3]float64
	for i, part := range []time.Duration{d * 3 / 10, d / 5, d / 2} {
		s.peak = 0
		s.attack(ctx, part, i)
		peaks[i] = (float64(s.peak) - float64(idle.resident)) / mib
		if found[i], err = s.quiet(ctx, i > 0); err != nil {
			return err
		}
		fmt.Printf("after %v: %v; peak %.1f MiB above idle\n", part.Round(time.Second), found[i], peaks[i])
	}
	if err := s.failure.Load(); err != nil {
		return *err
	}
	slices.Sort(s.pings)
	n := func(op int) int64 { return s.did[op].Load() }
	fmt.Printf("soak: %v, %d requests, %d streams (%d ended), %d disconnects, %d kills and cancels, %d reloads, %d dials, %d partial requests, %d floods of 200 MB, %d events read, %d requests to the model\n",
		d, n(opRequests), n(opStreams), n(opEnded), n(opHangUps), n(opKills), n(opReloads), n(opDials), n(opHalves), n(opFloods), n(opEvents), s.model.Requests.Load())
	fmt.Printf("soak: %d new clients, response time %v (median), %v (99th percentile), %v (longest)\n",
		len(s.pings), s.pings[len(s.pings)/2].Round(time.Microsecond), s.pings[len(s.pings)*99/100].Round(time.Microsecond), s.pings[len(s.pings)-1].Round(time.Microsecond))
	l := &measure.Limits{}
	l.Least("dials", float64(n(opDials)), 10_000, "")
	// On a shared machine, even an idle listener responds late.
	fmt.Printf("soak: without steal time %v (longest); bare listener at the same time %v (longest)\n", s.longest.Round(time.Microsecond), s.bare.Round(time.Microsecond))
	l.Most("longest response to a new client, above a bare listener", (s.longest - s.bare).Seconds(), 1, "s")
	l.Most("memory above idle, external load only", peaks[0], 64, "MiB")
	l.Most("memory above idle, all load", peaks[2], 288, "MiB")
	l.Most("heap, since the second phase", (float64(found[2].heap)-float64(found[1].heap))/mib, 64, "MiB")
	leaks := &measure.Limits{}
	begin, end := found[1], found[2]
	leaks.Most("goroutines, since the second phase", float64(end.goroutines)-float64(begin.goroutines), 8, "")
	leaks.Most("goroutines, since the start", float64(end.goroutines)-float64(idle.goroutines), 16, "")
	leaks.Most("descriptors, since the second phase", float64(end.descriptors-begin.descriptors), 8, "")
	leaks.Most("descriptors, since the start", float64(end.descriptors-idle.descriptors), 24, "")
	if d := s.model.Dangling.Load(); d > 0 {
		return fmt.Errorf("%d requests to the model contained a call without a result", d)
	}
	return errors.Join(leaks.Verdict(true), l.Verdict(s.gate))
}

// start builds the daemon and starts it.
func (s *soak) start(ctx context.Context) error {
	exe := filepath.Join(s.home, "crabmem")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", exe, "crabmem/cmd/crabmem").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(s.home, "config.toml"), []byte(s.config()), 0o600); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.home, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(exe, "daemon", "--home", s.home)
	s.cmd.Stderr = log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.addr = wire.Addr{Network: "unix", Address: filepath.Join(s.home, "daemon.sock")}
	for began := time.Now(); time.Since(began) < hang; time.Sleep(10 * time.Millisecond) {
		if s.ping(ctx) == nil {
			return nil
		}
	}
	return errors.New("the daemon does not respond")
}

// config returns the daemon's configuration. With gate the timeouts of connections
// are short enough to expire within the run. Otherwise they are long, because a
// loaded machine may delay a reading client.
func (s *soak) config() string {
	limit := "60"
	if s.gate {
		limit = "4"
	}
	return `[provider.test]
kind = "openai-compatible"
base_url = "` + s.model.URL + `"
api_key = "none"
models = ["m"]
max_retries = 0
[limits]
frame_timeout = ` + limit + `
progress = ` + limit + `
sessions = 500
[tools.ask_user]
timeout = 5
[system.crab]
model = "m"
[agents.helper]
model = "m"
`
}

// stop interrupts the daemon and waits. The error contains the end of the log.
func (s *soak) stop() error {
	_ = s.cmd.Process.Signal(os.Interrupt)
	err := s.cmd.Wait()
	if err != nil {
		b, _ := os.ReadFile(filepath.Join(s.home, "log"))
		return fmt.Errorf("stop the daemon: %w: %s", err, b[max(0, len(b)-4096):])
	}
	return nil
}

func (s *soak) ping(ctx context.Context) error {
	c := &client.Client{Addr: s.addr}
	defer c.Close()
	return c.Ping(ctx)
}

// attack runs the clients of a phase for d and waits for them.
func (s *soak) attack(ctx context.Context, d time.Duration, part int) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var wg sync.WaitGroup
	clients := uint64(0)
	many := func(n int, f func(context.Context, *rand.Rand)) {
		for range n {
			r := rand.New(rand.NewPCG(s.seed, uint64(part)<<32|clients))
			clients++
			wg.Go(func() {
				for ctx.Err() == nil {
					f(ctx, r)
				}
			})
		}
	}
	if part > 0 {
		many(4, s.request)
		many(4, s.talk)
		many(1, s.kill)
		many(1, s.reload)
	}
	many(8, s.subscribeWithoutReading)
	many(1, s.listen)
	many(1, s.dials)
	many(30, s.half)
	many(1, s.flood)
	wg.Go(func() { s.probe(ctx) })
	wg.Go(func() { s.watch(ctx) })
	wg.Wait()
}

// probe dials the daemon and a bare listener repeatedly and measures the time
// until the response.
func (s *soak) probe(ctx context.Context) {
	l, err := net.Listen("unix", filepath.Join(s.home, "bare.sock"))
	if err != nil {
		s.odd(err)
		return
	}
	defer l.Close()
	go func() { // returns when the listener is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte{0})
			c.Close()
		}
	}()
	for ctx.Err() == nil {
		wait, ran := timed(func() {
			if err := s.ping(context.WithoutCancel(ctx)); err != nil {
				s.odd(fmt.Errorf("new client: %w", err))
			}
		})
		s.pings, s.longest = append(s.pings, wait), max(s.longest, ran)
		_, ran = timed(func() {
			if c, err := net.Dial("unix", l.Addr().String()); err == nil {
				_, _ = c.Read(make([]byte, 1))
				c.Close()
			}
		})
		s.bare = max(s.bare, ran)
		pause(ctx, 50*time.Millisecond)
	}
}

// odd records an unexpected error.
func (s *soak) odd(err error) { s.failure.CompareAndSwap(nil, &err) }

// over reports whether a context is done or past its deadline. A dial uses the
// clock and may fail shortly before the context's timer fires.
func over(ctx context.Context) bool {
	at, has := ctx.Deadline()
	return ctx.Err() != nil || has && !time.Now().Before(at)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
