package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// Suffix of the index file of a search by words.
const indexFile = "-index-standard"

// commandLimits contains the most that the commands may take, by number of entries.
var commandLimits = map[int]struct{ recall, other, megabytes float64 }{
	10_000:    {recall: 20},
	100_000:   {recall: 40, other: 30, megabytes: 80},
	1_000_000: {recall: 150},
}

// commands measures commands as complete processes on stores of several sizes, with and
// without an index file. It also measures what an index file costs a checkpoint, and what
// it gains at the start of a daemon.
func commands(f *flag.FlagSet) func(*measure.Limits) error {
	sizes := f.String("n", "333,10000,100000", "numbers of entries")
	turns := f.Int("turns", 7, "runs of each command")
	return func(l *measure.Limits) error {
		return inTemp("", func(dir string) error {
			bare, err := buildBare(dir)
			if err != nil {
				return err
			}
			exe, err := buildRelease(filepath.Join(dir, "crabmem"), "crabmem/cmd/crabmem")
			if err != nil {
				return err
			}
			launch, err := buildLaunch(dir)
			if err != nil {
				return err
			}
			c := &commandBench{Limits: l, dir: dir, exe: exe, launch: launch, turns: *turns, query: corpus.NewZipf(1).Queries(1)[0], bare: &process{args: []string{bare}}}
			for size := range strings.SplitSeq(*sizes, ",") {
				if c.n, err = strconv.Atoi(size); err != nil {
					return err
				}
				if err := c.measure(); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

type commandBench struct {
	*measure.Limits
	dir, exe, launch string
	turns            int
	bare             *process
	query            string
	n                int
	path             string // of the store of n entries
}

func (c *commandBench) measure() error {
	home := filepath.Join(c.dir, strconv.Itoa(c.n))
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	c.path = filepath.Join(home, "memory.db")
	size, err := writeStore(c.path, c.n)
	if err != nil {
		return err
	}
	if err := c.run(); err != nil {
		return err
	}
	fi, err := os.Stat(c.path + indexFile)
	switch {
	case err == nil:
		c.Most("  index file, relative to the snapshot", float64(fi.Size())/float64(size), 0.6, "x")
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if c.n != 100_000 {
		return nil
	}
	return errors.Join(c.checkpoints(), c.startDaemon(home))
}

// run measures the commands.
func (c *commandBench) run() error {
	command := func(args ...string) *process {
		return &process{args: append([]string{c.exe, "--db", c.path}, args...)}
	}
	rebuild := command("recall", c.query)
	rebuild.before = func() error {
		if err := os.Remove(c.path + indexFile); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	recall, show := command("recall", c.query), command("show", name(c.n/2))
	remember := command("remember", "one-shot", "a text of some words to remember")
	// The first run creates files.
	if err := runTurns(c.launch, 1, remember, rebuild, recall, remember, show); err != nil {
		return err
	}
	*remember, *recall = process{args: remember.args}, process{args: recall.args}
	if err := runTurns(c.launch, c.turns, c.bare, recall, show, remember); err != nil {
		return err
	}
	// The first command that a person runs has no index file to read.
	if err := runTurns(c.launch, min(c.turns, 3), rebuild); err != nil {
		return err
	}
	if err := runTurns(c.launch, 1, recall); err != nil { // leaves an index file
		return err
	}
	fmt.Printf("%d entries, least of %d runs of complete processes:\n", c.n, c.turns)
	for _, row := range []struct {
		name string
		*process
	}{{"a bare Go program", c.bare}, {"recall", recall}, {"recall without an index file", rebuild}, {"show", show}, {"remember", remember}} {
		fmt.Printf("  %-30s CPU %8.1f ms (%5.1f bare programs), wall %8.1f ms, peak memory %6.1f MB\n", row.name,
			measure.Millis(row.cpu), measure.Ratio(row.cpu, c.bare.cpu), measure.Millis(row.wall), float64(row.peak)/1e6)
	}
	limit, ok := commandLimits[c.n]
	if !ok {
		return nil
	}
	c.Most("  recall, CPU", measure.Millis(recall.cpu), limit.recall, "ms")
	if limit.megabytes > 0 {
		c.Most("  recall, peak memory", float64(recall.peak)/1e6, limit.megabytes, "MB")
	}
	if limit.other > 0 {
		c.Most("  show, CPU", measure.Millis(show.cpu), limit.other, "ms")
		c.Most("  remember, CPU", measure.Millis(remember.cpu), limit.other, "ms")
	}
	return nil
}

// checkpoints compares checkpoints of a store with an index in memory, which write the
// index file, with checkpoints of a store without one.
func (c *commandBench) checkpoints() error {
	var stores [2]*crmem.Store
	for i := range stores {
		path := filepath.Join(c.dir, fmt.Sprintf("checkpoint%d.db", i))
		if _, err := writeStore(path, c.n); err != nil {
			return err
		}
		s, err := crmem.Open(path, &crmem.Options{CheckpointOnClose: crmem.CheckpointNever})
		if err != nil {
			return err
		}
		defer s.Close()
		stores[i] = s
	}
	if _, err := stores[1].Search(context.Background(), crmem.Query{Text: "build the index"}); err != nil {
		return err
	}
	next := 0
	checkpoint := func(s *crmem.Store) func() error {
		return func() error {
			next++
			if _, err := s.Remember("changed", fmt.Sprint("text ", next), nil); err != nil {
				return err
			}
			return s.Checkpoint()
		}
	}
	best, err := measure.Fastest(c.turns, checkpoint(stores[0]), checkpoint(stores[1]))
	if err != nil {
		return err
	}
	fmt.Printf("  checkpoint %.0f ms, with an index file %.0f ms\n", measure.Millis(best[0]), measure.Millis(best[1]))
	c.Most("  checkpoint with an index file, relative to one without", measure.Ratio(best[1], best[0]), 1.3, "x")
	return nil
}

// startDaemon measures the time from the start of a daemon's process to the response to a
// recall.
func (c *commandBench) startDaemon(home string) error {
	var best time.Duration
	for range c.turns {
		took, err := c.startOnce(home)
		if err != nil {
			return err
		}
		best = measure.Least(best, took)
	}
	c.Most("  start of a daemon to the first recall, wall", measure.Millis(best), 100, "ms")
	return nil
}

func (c *commandBench) startOnce(home string) (took time.Duration, err error) {
	cmd := exec.Command(c.exe, "daemon", "--home", home)
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		err = errors.Join(err, cmd.Wait())
	}()
	d := client.Client{Addr: wire.Addr{Network: "unix", Address: filepath.Join(home, "daemon.sock")}}
	defer d.Close()
	for err = errors.New("no attempt"); err != nil && time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
		var r *recall.Answer
		r, err = op.Recall.Do(context.Background(), &d, op.Question{Query: c.query, Limit: 5})
		if took = time.Since(began); err == nil && len(r.Hits) == 0 {
			return 0, errors.New("a recall finds nothing")
		}
	}
	return took, err
}
