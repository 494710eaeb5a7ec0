package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"crabmem/bench/corpus"
	"crabmem/bench/measure"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// sessions compares package sessionlog with alternatives. With -large it also
// measures a file of 1 GB and an index of a million messages.
func sessions(f *flag.FlagSet) func(*measure.Limits) error {
	dir := f.String("dir", "", "write to a new directory in this `directory`, which should be on a disk (default: the temporary directory)")
	large := f.Bool("large", false, "also measure a file of 1 GB and a million messages")
	return func(t *measure.Limits) error {
		return inTemp(*dir, func(dir string) error {
			for i, f := range []func(*measure.Limits, string, bool) error{appends, contexts, searches, lists} {
				sub := filepath.Join(dir, fmt.Sprint(i))
				if err := os.Mkdir(sub, 0o700); err != nil {
					return err
				}
				if err := f(t, sub, *large); err != nil {
					return err
				}
				if err := os.RemoveAll(sub); err != nil {
					return err
				}
				fmt.Println()
			}
			return nil
		})
	}
}

// session creates a session.
func session(dir string, o *sessionlog.Options) (*sessionlog.Dir, *sessionlog.Log, error) {
	d, err := sessionlog.OpenDir(dir, o)
	if err != nil {
		return nil, nil, err
	}
	l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "user"})
	return d, l, err
}

// lists measures crabmem sessions list with 50,000 sessions.
func lists(t *measure.Limits, dir string, _ bool) error {
	const n = 50_000
	home := filepath.Join(dir, "home")
	if err := writeSessions(filepath.Join(home, "sessions"), n, 4, corpus.NewZipf(4).Doc, record.RoleUser); err != nil {
		return err
	}
	bin, err := buildCommand(dir)
	if err != nil {
		return err
	}
	best, err := measure.Fastest(5, func() error {
		out, err := exec.Command(bin, "--home", home, "sessions", "list", "--json").Output()
		if err == nil && len(out) < n*100 {
			err = fmt.Errorf("the list has only %d bytes", len(out))
		}
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("sessions list of %d: %v\n", n, best[0])
	t.Most("sessions list of 50,000, warm", best[0].Seconds(), 1, "s")
	return nil
}

// appends measures the append of a message of 500 bytes. It compares an append
// without a sync with one file per message, as in the reference implementation. It
// compares a durable append with the necessary system calls.
func appends(t *measure.Limits, dir string, _ bool) error {
	m := sessionlog.Message{Role: "assistant", Content: strings.Repeat("a few words that say it ", 21)[:500]}
	d, l, err := session(filepath.Join(dir, "sessions"), &sessionlog.Options{Sync: sessionlog.SyncNone})
	if err != nil {
		return err
	}
	defer d.Close()
	took, err := measure.Turns(5000, 1, func(int) error { return l.Append(m) }, func(i int) error {
		return writeStep(filepath.Join(dir, fmt.Sprintf("step-%06d", i+1)), &m)
	})
	if err != nil {
		return err
	}
	logged, renamed := measure.Percentile(took[0], 50), measure.Percentile(took[1], 50)
	fmt.Printf("append p50 %v, p99 %v; temporary file and rename p50 %v\n", logged, measure.Percentile(took[0], 99), renamed)
	t.Most("append of 500 bytes, not synced, p50", measure.Micros(logged), 4, "µs")
	t.Least("one file per message, relative to append", measure.Ratio(renamed, logged), 8, "x")

	d, l, err = session(filepath.Join(dir, "durable"), nil)
	if err != nil {
		return err
	}
	defer d.Close()
	return inRawAppends(t, dir, "append", m.AppendLine(nil), func(int) error { return l.Append(m) })
}

// writeStep writes a message to a separate file: a temporary file and a rename,
// without a sync.
func writeStep(name string, m *sessionlog.Message) error {
	type step struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	b, err := json.Marshal(step{m.Role, m.Content})
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".tmp", b, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".tmp", name)
}
