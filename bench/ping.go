package main

import (
	"flag"
	"fmt"
	"path/filepath"
	"time"

	"crabmem/bench/measure"

	"golang.org/x/sync/errgroup"
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

// ping measures the daemon's protocol against an echo with the same framing. Each
// server is a separate process, and each figure a ratio.
func ping(f *flag.FlagSet) func(*measure.Limits) error {
	serve := f.String("serve", "", "run a `server`: echo or wire")
	return func(t *measure.Limits) error {
		if *serve != "" {
			return runServer(*serve, f.Arg(0))
		}
		return inTemp("", func(dir string) error {
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
			for _, f := range []func(*measure.Limits, [2]side) error{latency, throughput, streaming} {
				if err := f(t, sides); err != nil {
					return err
				}
			}
			return nil
		})
	}
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
	var calls []func(int) error
	for _, c := range []pinger{echo, bare, ours} {
		calls = append(calls, func(int) error { return c.ping() })
	}
	took, err := measure.Turns(turns, turn, calls...)
	if err != nil {
		return err
	}
	var p50 [3]float64
	for i := range took {
		p50[i] = measure.Micros(measure.Percentile(took[i], 50))
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
	var g errgroup.Group
	for range clients {
		c, err := s.dial()
		if err != nil {
			return err
		}
		defer c.close()
		g.Go(func() error { return f(c) })
	}
	return g.Wait()
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
	t.Most("a stream, of one raw write per frame's", measure.Ratio(best[1], best[0]), 2, "x")
	return nil
}
