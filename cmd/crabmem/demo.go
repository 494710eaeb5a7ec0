package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/op"
	"crabmem/testdata"

	"github.com/spf13/cobra"
)

// demoNow is the time in the demo, so that its output is the same every day.
var demoNow = time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)

// demoQueries are the queries of the demo, in order. The last has no hit.
var demoQueries = []string{
	"how do I roll back quay during a migration?",
	"who filled the disk with a replication slot?",
	"which colleague is allergic to hazelnuts",
	"连接池",
	"xylophone zeppelin",
}

func demoCommand(c *app) *cobra.Command {
	var brain string
	cmd := &cobra.Command{
		Use:     "demo",
		GroupID: groupUse,
		Short:   "run the main commands on sample data",
		Long: `Load a sample tree, the invented memory of an agent with over 300 notes and
archives, into a temporary store. Then recall, remember, and forget entries,
verify the store, and dump it as an mdBook. demo prints each command before it
runs it. It needs no API key and no network, and writes only to a new directory,
whose path it prints. --brain loads another Markdown tree.`,
		Example: `  crabmem demo
  crabmem demo --json`,
	}
	cmd.Flags().StringVar(&brain, "brain", "", "load the tree in this `directory` instead")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir := filepath.Join(os.TempDir(), "crabmem-demo-"+rand.Text()[:8])
		if err := vfs.MkdirAll(c.fs, dir, 0o700); err != nil {
			return err
		}
		d := &demo{c: c, ctx: cmd.Context(), dir: dir}
		if err := d.copyBrain(brain); err != nil {
			return err
		}
		return d.play()
	}
	addCommands(cmd, demoWorkCommand(c))
	return c.outputs(cmd, of[demoAnswer]())
}

// demo is one run of the demo.
type demo struct {
	c   *app
	ctx context.Context
	dir string
}

func (d *demo) store() string { return filepath.Join(d.dir, "memory.db") }
func (d *demo) brain() string { return filepath.Join(d.dir, "brain") }
func (d *demo) book() string  { return filepath.Join(d.dir, "book") }

// copyBrain copies the pages of the sample brain, or of another tree, so that
// the demo writes only to the new directory.
func (d *demo) copyBrain(from string) error {
	list := func(sub string) ([]fs.DirEntry, error) { return testdata.Brain.ReadDir(path.Join("brain", sub)) }
	read := func(name string) ([]byte, error) { return testdata.Brain.ReadFile(path.Join("brain", name)) }
	if from != "" {
		list = func(sub string) ([]fs.DirEntry, error) { return d.c.fs.ReadDir(filepath.Join(from, sub)) }
		read = func(name string) ([]byte, error) {
			return vfs.ReadFile(d.c.fs, filepath.Join(from, name), 2*crmem.MaxContent)
		}
	}
	pages := 0
	for _, sub := range []string{"notes", "archives"} {
		entries, err := list(sub)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		if err := vfs.MkdirAll(d.c.fs, filepath.Join(d.brain(), sub), 0o700); err != nil {
			return err
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".md") {
				continue
			}
			b, err := read(path.Join(sub, e.Name()))
			if err != nil {
				return err
			}
			if err := d.write(filepath.Join(d.brain(), sub, e.Name()), b); err != nil {
				return err
			}
			pages++
		}
	}
	if pages == 0 {
		return &cli.Failure{Code: cli.ExitFailure, Kind: "tree", Path: from, Message: from + ": no pages in notes/ or archives/", Remedy: "use a directory that crabmem dump wrote"}
	}
	return nil
}

// write writes a page of the copy. It is not worth a sync.
func (d *demo) write(name string, b []byte) error {
	f, err := d.c.fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// run runs a command on the demo's store, as a person would.
func (d *demo) run(asJSON bool, args ...string) ([]byte, error) {
	if err := context.Cause(d.ctx); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	child := newApp(strings.NewReader(""), &out, d.c.Stderr)
	child.fs, child.now = d.c.fs, func() time.Time { return demoNow }
	if asJSON {
		args = append(args, "--json")
	}
	err := child.execute(d.ctx, append(args, "--db", d.store()))
	return out.Bytes(), err
}

// step prints a command and its output.
func (d *demo) step(args ...string) error {
	out, err := d.run(false, args...)
	if err != nil {
		return err
	}
	shown := make([]string, len(args))
	for i, a := range args {
		shown[i] = strings.ReplaceAll(a, d.dir+string(filepath.Separator), "")
		if strings.ContainsAny(shown[i], " ?") {
			shown[i] = `"` + shown[i] + `"`
		}
	}
	c := d.c
	fmt.Fprintf(c.Out, "\n%s\n", c.Bold("$ crabmem "+strings.Join(shown, " ")))
	for line := range strings.Lines(string(out)) {
		c.Out.WriteString("  " + line)
	}
	return c.Out.Flush()
}

const demoNote = "Blackout on the staging gate: flip the breaker in rack seven, then ask Priya to re-seat the amber fuse."

func (d *demo) play() error {
	if d.c.JSON {
		return d.playJSON()
	}
	fmt.Fprintf(d.c.Out, "sample tree, the invented memory of an agent: %s\n", d.brain())
	steps := [][]string{{"load", d.brain()}}
	for i, q := range demoQueries {
		step := []string{"recall", q, "--limit", "2"}
		if i == 0 {
			step = append(step, "--explain")
		}
		steps = append(steps, step)
	}
	steps = append(steps,
		[]string{"remember", "rack-seven", demoNote, "--alias", "amber fuse"},
		[]string{"recall", "amber fuse", "--limit", "1"},
		[]string{"forget", "rack-seven"},
		[]string{"recall", "amber fuse rack seven breaker", "--limit", "1", "--why-not", "rack-seven"},
		[]string{"verify"},
		[]string{"dump", d.book()},
	)
	for _, s := range steps {
		if err := d.step(s...); err != nil {
			return err
		}
	}
	_, err := io.WriteString(d.c.Out, fmt.Sprintf(`
Files
  the store   %s
  the tree    %s  (run mdbook serve, or edit pages and run crabmem load)

Next
  crabmem --db %s recall "what wakes people at night?" --explain
  crabmem --db %s list --kind archive
  crabmem remember deploy "build, tag, push, then watch the canary" --alias ship
  crabmem --help
`, d.store(), d.book(), d.store(), d.store()))
	return err
}

// demoAnswer is demo --json.
type demoAnswer struct {
	Dir        string       `json:"dir"`
	Store      string       `json:"store"`
	Book       string       `json:"book"`
	Entries    int          `json:"entries"`
	Notes      int          `json:"notes"`
	Archives   int          `json:"archives"`
	Recalls    []demoRecall `json:"recalls"`
	Remembered string       `json:"remembered"`
	Forgot     string       `json:"forgot"`
	Problems   int          `json:"problems"`
	Pages      int          `json:"pages"`
}

type demoRecall struct {
	Query    string    `json:"query"`
	Total    int       `json:"total"`
	Searched int       `json:"searched"`
	Hits     []demoHit `json:"hits"`
}

type demoHit struct {
	Name  string     `json:"name"`
	Kind  crmem.Kind `json:"kind"`
	Score float64    `json:"score"`
}

func (d *demo) playJSON() error {
	a := demoAnswer{Dir: d.dir, Store: d.store(), Book: d.book()}
	// ask runs a command and decodes its output.
	ask := func(v any, args ...string) error {
		out, err := d.run(true, args...)
		if err != nil {
			return err
		}
		return json.Unmarshal(out, v)
	}
	var stats crmem.Stats
	if err := ask(new(any), "load", d.brain()); err != nil {
		return err
	}
	if err := ask(&stats, "stats"); err != nil {
		return err
	}
	a.Entries, a.Notes, a.Archives = stats.Entries, stats.Notes, stats.Archives
	var e crmem.Entry
	if err := ask(&e, "remember", "rack-seven", demoNote, "--alias", "amber fuse"); err != nil {
		return err
	}
	a.Remembered = e.Name
	for _, q := range append(demoQueries, "amber fuse") {
		r := demoRecall{Hits: []demoHit{}}
		if err := ask(&r, "recall", q); err != nil {
			return err
		}
		a.Recalls = append(a.Recalls, r)
	}
	var gone struct{ Forgot string }
	if err := ask(&gone, "forget", "rack-seven"); err != nil {
		return err
	}
	a.Forgot = gone.Forgot
	var report crmem.CheckReport
	if err := ask(&report, "verify"); err != nil {
		return err
	}
	a.Problems = len(report.Problems)
	var dumped op.DumpAnswer
	if err := ask(&dumped, "dump", d.book()); err != nil {
		return err
	}
	a.Pages = len(dumped.Written)
	return d.c.PrintJSON(a)
}
