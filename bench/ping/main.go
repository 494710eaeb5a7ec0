// Ping measures the wire of the daemon against a bare echo in Go with the same
// framing, each a process of its own, and prints a table:
//
//	go run ./bench/ping [-gate]
//
// Every figure is a ratio to something measured beside it, in turns: of the
// medians, or of the best, which is what is left when nobody else had the
// machine.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"crabmem/bench/measure"
)

const (
	rounds  = 15
	turns   = 150  // of one client
	turn    = 300  // pings
	pings   = 4000 // of a round of many clients
	clients = 8
	chunks  = 1000
	streams = 20 // for a round
)

func main() {
	gate := flag.Bool("gate", false, "exit 1 when a figure misses what is required")
	serve := flag.String("serve", "", "be a `server`: echo or wire")
	flag.Parse()
	var err error
	if *serve != "" {
		err = beServer(*serve, flag.Arg(0))
	} else {
		err = run(*gate)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/ping:", err)
		os.Exit(1)
	}
}

func run(gate bool) error {
	dir, err := os.MkdirTemp("", "ping")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var sides [2]side
	for i, name := range []string{"echo", "wire"} {
		path := filepath.Join(dir, name+".sock")
		stop, err := startServer(name, path)
		if err != nil {
			return err
		}
		defer stop()
		sides[i] = side{name, path}
	}
	t := &measure.Limits{}
	for _, f := range []func(*measure.Limits, [2]side) error{latency, throughput, streaming} {
		if err := f(t, sides); err != nil {
			return err
		}
	}
	return t.Verdict(gate)
}

// latency compares the median round trip of one client.
func latency(t *measure.Limits, sides [2]side) error {
	echo, err := sides[0].dial()
	if err != nil {
		return err
	}
	defer echo.close()
	bare, err := sides[1].dial()
	if err != nil {
		return err
	}
	defer bare.close()
	ours, err := sides[1].dialWire()
	if err != nil {
		return err
	}
	defer ours.close()
	var times [3][]time.Duration
	for range turns {
		for i, c := range []client{echo, bare, ours} {
			for range turn {
				start := time.Now()
				if err := c.ping(); err != nil {
					return err
				}
				times[i] = append(times[i], time.Since(start))
			}
		}
	}
	var p50 [3]float64
	for i := range times {
		slices.Sort(times[i])
		p50[i] = float64(times[i][len(times[i])/2]) / 1e3
	}
	fmt.Printf("ping p50: echo %.1f µs, wire %.1f µs, wire and our client %.1f µs\n", p50[0], p50[1], p50[2])
	t.Most("ping p50, of a bare echo's", p50[1]/p50[0], 1.3, "x")
	return nil
}

// throughput compares the round trips a second of eight clients at once.
func throughput(t *measure.Limits, sides [2]side) error {
	var best [2]float64
	for range rounds {
		for i, s := range sides {
			start := time.Now()
			if err := s.together(func(c *echoClient) error {
				for range pings {
					if err := c.ping(); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				return err
			}
			best[i] = max(best[i], clients*pings/time.Since(start).Seconds())
		}
	}
	fmt.Printf("round trips a second, %d clients: echo %.0f, wire %.0f\n", clients, best[0], best[1])
	t.Least("round trips a second, of a bare echo's", best[1]/best[0], 0.7, "x")
	return nil
}

// together runs f with all clients at once.
func (s side) together(f func(*echoClient) error) error {
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for i := range errs {
		c, err := s.dial()
		if err != nil {
			return err
		}
		defer c.close()
		wg.Go(func() { errs[i] = f(c) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// streaming compares the time in which 1,000 chunks arrive with that of one raw
// write for each equal frame.
func streaming(t *measure.Limits, sides [2]side) error {
	var cs [2]*echoClient
	for i, s := range sides {
		c, err := s.dial()
		if err != nil {
			return err
		}
		defer c.close()
		cs[i] = c
	}
	best, err := measure.Fastest(rounds*streams, cs[0].stream, cs[1].stream)
	if err != nil {
		return err
	}
	fmt.Printf("a stream of %d chunks: raw writes %v, wire %v\n", chunks, best[0], best[1])
	t.Most("a stream, of one raw write per frame's", float64(best[1])/float64(best[0]), 2, "x")
	return nil
}
