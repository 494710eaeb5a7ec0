package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"crabmem/bench/measure"
	"crabmem/sessionlog"
)

// appends compares writing a message of 500 bytes with one file a message, as
// the reference implementation came to do it, and a durable one with the system
// calls it cannot do without.
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
	ours, theirs := measure.Percentile(took[0], 50), measure.Percentile(took[1], 50)
	fmt.Printf("append p50 %v, p99 %v; a file by temporary name and rename p50 %v\n", ours, measure.Percentile(took[0], 99), theirs)
	t.Most("append of 500 bytes, not synced, p50", measure.Micros(ours), 4, "µs")
	t.Least("a file a message by rename, in appends", measure.Ratio(theirs, ours), 8, "x")

	d, l, err = session(filepath.Join(dir, "durable"), nil)
	if err != nil {
		return err
	}
	defer d.Close()
	return inRawAppends(t, dir, "append", m.AppendLine(nil), func(int) error { return l.Append(m) })
}

// writeStep writes a message to a file of its own: a temporary file, and a
// rename, without a sync.
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
