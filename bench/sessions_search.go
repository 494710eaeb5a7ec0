package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"crabmem/bench/corpus"
	"crabmem/bench/measure"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
	"crabmem/sessionlog/search"
)

// searches measures the build of an index of a session folder, and its searches.
func searches(t *measure.Limits, dir string, large bool) error {
	z := corpus.NewZipf(3)
	queries := z.Queries(1000)
	if err := searched(t, filepath.Join(dir, "500"), 100_000, "500-byte messages", z.Doc, queries, 1); err != nil {
		return err
	}
	synthetic := []string{corpus.SyntheticQuery, "memory session", "recall", "agent graph context"}
	if err := searched(t, filepath.Join(dir, "200"), 100_000, "200-byte messages", corpus.Synthetic, synthetic, 1); err != nil {
		return err
	}
	if !large {
		return nil
	}
	return searched(t, filepath.Join(dir, "million"), 1_000_000, "500-byte messages", z.Doc, queries, 10)
}

// searched measures an index of n messages. slower is the limit of p99 in ms if it
// is above 1; otherwise the default limits apply.
func searched(t *measure.Limits, dir string, n int, what string, doc func(int) string, queries []string, slower float64) error {
	if err := writeSessions(dir, n/50, 50, doc, record.RoleUser, record.RoleAssistant); err != nil {
		return err
	}
	d, err := sessionlog.OpenDir(dir, nil)
	if err != nil {
		return err
	}
	what = fmt.Sprintf("%d %s", n, what)
	var x *search.Index
	var cpu, wall time.Duration
	passes := 5
	if slower > 1 {
		passes = 1
	}
	var before, after runtime.MemStats
	for range passes {
		if x != nil {
			if err := x.Close(); err != nil {
				return err
			}
			x = nil
		}
		runtime.GC()
		runtime.ReadMemStats(&before)
		c, start := measure.CPU(), time.Now()
		if x, err = search.NewIndex(d, nil); err != nil {
			return err
		}
		wall, cpu = measure.Least(wall, time.Since(start)), measure.Least(cpu, measure.CPU()-c)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	fmt.Printf("%s: rebuilt in %.0f ms of CPU and %.0f ms; %.0f bytes of memory per message\n", what, measure.Millis(cpu), measure.Millis(wall),
		float64(after.HeapAlloc-before.HeapAlloc)/float64(n))
	if x.Len() < n {
		return fmt.Errorf("the index has %d documents, want at least %d", x.Len(), n)
	}
	if slower == 1 {
		t.Most(what+": rebuild, CPU", measure.Millis(cpu), 900, "ms")
		t.Most(what+": rebuild, wall, on 2 cores", measure.Millis(wall), 500, "ms")
	}
	for _, kind := range []struct {
		name  string
		q     search.Query
		limit float64
	}{
		{"ranking", search.Query{Limit: 20, Bare: true}, 1},
		{"20 windows of 16", search.Query{Limit: 20, Window: 16}, 3},
	} {
		p50, p99, err := timed(x, queries, kind.q)
		if err != nil {
			return err
		}
		fmt.Printf("%s: search, %s: p50 %v, p99 %v\n", what, kind.name, p50, p99)
		limit := kind.limit
		if slower > 1 {
			limit = slower
		}
		t.Most(fmt.Sprintf("%s: search, %s, p99", what, kind.name), measure.Millis(p99), limit, "ms")
	}
	if err := inserted(t, d, what, doc, n); err != nil {
		return err
	}
	return x.Close()
}

// timed returns percentiles over the queries. The time of a query is the least of
// five passes.
func timed(x *search.Index, queries []string, q search.Query) (p50, p99 time.Duration, err error) {
	hits := 0
	var best []time.Duration
	for range 5 {
		took, err := measure.Turns(1, len(queries), func(i int) error {
			q.Text = queries[i]
			r, err := x.Search(context.Background(), q)
			if err == nil {
				hits += len(r.Hits)
			}
			return err
		})
		if err != nil {
			return 0, 0, err
		}
		best = measure.LeastOf(best, took[0])
	}
	if hits == 0 {
		return 0, 0, fmt.Errorf("no query has a hit")
	}
	return measure.Percentile(best, 50), measure.Percentile(best, 99), nil
}

// inserted measures the additional time of an append to a session with an index.
func inserted(t *measure.Limits, d *sessionlog.Dir, what string, doc func(int) string, n int) error {
	l, err := d.Create(sessionlog.Meta{Agent: "crab", CreatedBy: "late"})
	if err != nil {
		return err
	}
	_, bare, err := session(d.Path()+"-bare", &sessionlog.Options{Sync: sessionlog.SyncNone})
	if err != nil {
		return err
	}
	// An assistant message with a tool call is not synced.
	messages := make([]sessionlog.Message, 4000)
	for i := range messages {
		messages[i] = sessionlog.Message{Role: record.RoleAssistant, Content: doc(n + i),
			ToolCalls: []sessionlog.ToolCall{{ID: "c", Function: sessionlog.Function{Name: "ls", Arguments: "{}"}}}}
	}
	took, err := measure.Turns(len(messages), 1, func(i int) error { return l.Append(messages[i]) }, func(i int) error { return bare.Append(messages[i]) })
	if err != nil {
		return err
	}
	with, without := measure.Percentile(took[0], 50), measure.Percentile(took[1], 50)
	fmt.Printf("%s: append with an index p50 %v, without %v\n", what, with, without)
	t.Most(what+": insert, p50", measure.Micros(with-without), 10, "µs")
	return errors.Join(l.Close(), bare.Close(), os.RemoveAll(d.Path()+"-bare"))
}

// writeSessions writes files of sessions with the given number of messages. The roles
// repeat.
func writeSessions(dir string, sessions, messages int, doc func(int) string, roles ...string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var b []byte
	for s := range sessions {
		meta := sessionlog.Meta{Agent: "crab", CreatedBy: "user", CreatedAt: "2026-04-14T12:00:00+00:00", Title: fmt.Sprint("session ", s)}
		b = meta.AppendLine(b[:0])
		for i := range messages {
			m := sessionlog.Message{Role: roles[i%len(roles)], Content: doc(s*messages + i)}
			b = m.AppendLine(b)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("crab_user_%d.jsonl", s+1)), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}
