package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"crabmem/bench/corpus"
	"crabmem/bench/measure"
	"crabmem/crmem"
	"crabmem/crmem/recall"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
)

const (
	loadedSessions = 1000
	mib            = 1 << 20
)

// daemons measures the daemon in a separate process. It compares a recall with a
// ping, and the memory of loaded sessions with the memory of an idle daemon.
func daemons(f *flag.FlagSet) func(*measure.Limits) error {
	n := f.Int("n", 100_000, "number of entries")
	turns := f.Int("turns", 10, "number of turns of 1,000 recalls")
	return func(l *measure.Limits) error {
		return errors.Join(recalls(l, *n, *turns), measureLoadedSessions(l))
	}
}

// daemon is a running daemon process and its client.
type daemon struct {
	*client.Client
	cmd  *exec.Cmd
	home string
}

// start starts a daemon on a new home, which prepare fills first.
func start(ctx context.Context, prepare func(home string) error) (d *daemon, err error) {
	d = &daemon{}
	if d.home, err = os.MkdirTemp("", "bench"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(d.home)
		}
	}()
	if err := prepare(d.home); err != nil {
		return nil, err
	}
	exe, err := buildCommand(d.home)
	if err != nil {
		return nil, err
	}
	d.cmd = exec.Command(exe, "daemon", "--home", d.home)
	d.cmd.Stderr = os.Stderr
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	d.Client = &client.Client{Addr: wire.Addr{Network: "unix", Address: filepath.Join(d.home, "daemon.sock")}}
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
		if d.Ping(ctx) == nil {
			return d, nil
		}
	}
	return nil, errors.Join(errors.New("the daemon does not respond"), d.stop())
}

func (d *daemon) stop() error {
	d.Close()
	_ = d.cmd.Process.Signal(os.Interrupt)
	return errors.Join(d.cmd.Wait(), os.RemoveAll(d.home))
}

// recalls compares the median time of recalls with the median time of pings.
func recalls(l *measure.Limits, n, turns int) (err error) {
	z := corpus.NewZipf(1)
	d, err := start(context.Background(), func(home string) error { return fillStore(home, z.Docs(n)) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	ctx := context.Background()
	queries := z.Queries(1000)
	hits := 0
	ask := func(q string) error {
		a, err := op.Recall.Do(ctx, d, op.Question{Query: q, Limit: 5})
		if err == nil {
			hits += len(a.Hits)
		}
		return err
	}
	for _, q := range queries[:100] {
		if err := ask(q); err != nil { // builds the index and warms the caches
			return err
		}
	}
	hits = 0
	// The same search in this process shows the share of the search.
	here, err := crmem.Open(filepath.Join(d.home, "memory.db"), &crmem.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer here.Close()
	search := func(q string) error {
		_, err := recall.Search(ctx, here, crmem.Query{Text: q, Limit: 5}, recall.Options{})
		return err
	}
	if err := search(queries[0]); err != nil {
		return err
	}
	kinds := []timedKind{
		{name: "ping", do: func(string) error { return d.Ping(ctx) }},
		{name: "recall over the socket", do: ask},
		{name: "recall in one process", do: search},
		// A daemon waits for each request, so its caches are colder.
		{name: "recall after a pause", pause: 20 * time.Microsecond, do: search},
	}
	if err := timeTurns(kinds, queries, turns); err != nil {
		return err
	}
	us := measure.Micros
	fmt.Printf("%d entries, %d recalls per kind, %d hits over the socket:\n", n, turns*len(queries), hits)
	for _, k := range kinds {
		fmt.Printf("  %-24s p50 %7.1f µs, p99 %7.1f µs; p50 of the best turn %7.1f µs\n", k.name,
			us(measure.Percentile(k.all, 50)), us(measure.Percentile(k.all, 99)), us(k.best))
	}
	l.Most("recall over the socket p50, above ping", us(kinds[1].best-kinds[0].best), 100, "µs")
	l.Most("recall over the socket p50, above ping and the search after a pause", us(kinds[1].best-kinds[0].best-kinds[3].best), 50, "µs")
	return nil
}

// fillStore creates the store of a home with an entry for each text.
func fillStore(home string, texts []string) error {
	s, err := crmem.Open(filepath.Join(home, "memory.db"), nil)
	if err != nil {
		return err
	}
	ops := make([]crmem.Op, 0, len(texts))
	for i, text := range texts {
		ops = append(ops, crmem.Add{Name: fmt.Sprintf("note-%06d", i), Content: text})
	}
	return errors.Join(s.Apply(ops...), s.Close())
}

// timedKind is a kind of request, with the measured times.
type timedKind struct {
	name  string
	pause time.Duration // pause before each request
	do    func(query string) error

	all  []time.Duration
	best time.Duration // median of the best turn
}

// timeTurns runs all queries of all kinds in each turn. The median of the best
// turn excludes most of the load of other processes.
func timeTurns(kinds []timedKind, queries []string, turns int) error {
	for range turns {
		for i := range kinds {
			k := &kinds[i]
			part := make([]time.Duration, len(queries))
			for i, q := range queries {
				if k.pause > 0 {
					time.Sleep(k.pause)
				}
				began := time.Now()
				if err := k.do(q); err != nil {
					return err
				}
				part[i] = time.Since(began)
			}
			k.best = measure.Least(k.best, measure.Percentile(part, 50))
			k.all = append(k.all, part...)
		}
	}
	return nil
}

// measureLoadedSessions compares the memory of a daemon with loaded sessions to the
// memory of an idle daemon.
func measureLoadedSessions(l *measure.Limits) (err error) {
	d, err := start(context.Background(), func(string) error { return nil })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	ctx := context.Background()
	time.Sleep(time.Second)
	idle, err := measure.Resident(d.cmd.Process.Pid)
	if err != nil {
		return err
	}
	for i := range loadedSessions {
		who := fmt.Sprintf("sender %d", i)
		for range 2 {
			if _, err := op.SendMessage.Do(ctx, d, op.Message{Agent: "crab", Content: "what did we say of the deployment? " + strings.Repeat("some more words ", 30), Sender: who}); err != nil {
				return err
			}
		}
	}
	full, err := measure.Resident(d.cmd.Process.Pid)
	if err != nil {
		return err
	}
	st, err := op.ReadDaemonStats.Do(ctx, d, op.None{})
	if err != nil {
		return err
	}
	if st.LoadedSessions != loadedSessions {
		return fmt.Errorf("%d loaded sessions, want %d", st.LoadedSessions, loadedSessions)
	}
	fmt.Printf("%d loaded sessions of 4 messages: %.1f MiB, idle %.1f MiB, heap %.1f MiB, %d goroutines\n",
		loadedSessions, float64(full)/mib, float64(idle)/mib, float64(st.MemoryBytes)/mib, st.Goroutines)
	l.Most("1,000 loaded sessions, above idle", (float64(full)-float64(idle))/mib, 64, "MiB")
	return nil
}
