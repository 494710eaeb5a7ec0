package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crabmem/bench/measure"
	"crabmem/crmem/vfs"
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
	const n = 5000
	ours, theirs := make([]time.Duration, 0, n), make([]time.Duration, 0, n)
	for i := range n {
		start := time.Now()
		if err := l.Append(m); err != nil {
			return err
		}
		mid := time.Now()
		if err := writeStep(filepath.Join(dir, fmt.Sprintf("step-%06d", i+1)), &m); err != nil {
			return err
		}
		ours, theirs = append(ours, mid.Sub(start)), append(theirs, time.Since(mid))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	fmt.Printf("append p50 %v, p99 %v; a file by temporary name and rename p50 %v\n", ours[n/2], ours[n*99/100], theirs[n/2])
	t.Most("append of 500 bytes, not synced, p50", micros(ours[n/2]), 4, "µs")
	t.Least("a file a message by rename, in appends", ratio(theirs[n/2], ours[n/2]), 8, "x")

	d, l, err = session(filepath.Join(dir, "durable"), nil)
	if err != nil {
		return err
	}
	defer d.Close()
	raw, err := vfs.OS{}.OpenFile(filepath.Join(dir, "raw"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer raw.Close()
	line := sessionlog.AppendMessage(nil, &m)
	ours, theirs = ours[:0], theirs[:0]
	const each = 2000
	for range each {
		start := time.Now()
		if _, err := raw.Write(line); err != nil {
			return err
		}
		if err := raw.Datasync(); err != nil {
			return err
		}
		mid := time.Now()
		if err := l.Append(m); err != nil {
			return err
		}
		theirs, ours = append(theirs, mid.Sub(start)), append(ours, time.Since(mid))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	fmt.Printf("durable append p50 %v, raw append and fdatasync %v\n", ours[each/2], theirs[each/2])
	t.Most("durable append, in raw append and fdatasync", ratio(ours[each/2], theirs[each/2]), 1.2, "x")
	return nil
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
