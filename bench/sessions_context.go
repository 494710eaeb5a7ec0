package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"crabmem/bench/corpus"
	"crabmem/bench/measure"
	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

const tail = 400 << 10 // bytes after the last compaction marker

// contexts measures the resume of long sessions. It compares one with decoding the
// file from the start. It also compares sessions of different sizes with the same
// tail.
func contexts(t *measure.Limits, dir string, large bool) error {
	sizes := []int64{1 << 20, 10 << 20, 100 << 20}
	if large {
		sizes = append(sizes, 1<<30)
	}
	best := make([]time.Duration, len(sizes))
	var sessions []*sessionlog.Session
	for i, size := range sizes {
		s, err := longSession(filepath.Join(dir, fmt.Sprint(i)), size)
		if err != nil {
			return err
		}
		defer s.Close()
		sessions = append(sessions, s)
	}
	for round := range 15 {
		for k := range sessions {
			i := (k + round) % len(sessions) // rotate the order, because the previous session affects the caches
			s := sessions[i]
			start := time.Now()
			c, err := s.Context()
			if err != nil {
				return err
			}
			best[i] = measure.Least(best[i], time.Since(start))
			if c.Meta.Title != "a long session" || c.Meta.UptimeSecs != 60 || !c.Compacted || s.Size-c.Start > tail+(2<<10) {
				return fmt.Errorf("%s: context has %+v and starts at %d", s.Path, c.Meta, c.Start)
			}
		}
	}
	forward, err := measure.Fastest(2, func() error { return decodeForward(sessions[2].Path) })
	if err != nil {
		return err
	}
	for i, size := range sizes {
		fmt.Printf("context of a file of %4d MB: %v\n", size>>20, best[i])
	}
	fmt.Printf("decoding 100 MB from the start: %v\n", forward[0])
	t.Most("context of 100 MB with a tail of 400 kB", measure.Millis(best[2]), 10, "ms")
	t.Least("decoding the file, relative to context", measure.Ratio(forward[0], best[2]), 60, "x")
	lo, hi := slices.Min(best), slices.Max(best)
	t.Most(fmt.Sprintf("slowest over fastest, 1 MB to %d MB", sizes[len(sizes)-1]>>20), measure.Ratio(hi, lo), 1.5, "x")
	return nil
}

// longSession writes a session of the given size, with a title, an uptime, and a
// compaction marker before the last 400 kB.
func longSession(dir string, size int64) (*sessionlog.Session, error) {
	d, l, err := session(dir, &sessionlog.Options{Sync: sessionlog.SyncNone})
	if err != nil {
		return nil, err
	}
	z := corpus.NewZipf(2)
	docs := z.Docs(2000)
	written := int64(0)
	fill := func(to int64) error {
		for i := 0; written < to; {
			var step []sessionlog.Message
			for range 64 {
				role := record.RoleUser
				if i%2 == 1 {
					role = record.RoleAssistant
				}
				text := docs[i%len(docs)]
				step = append(step, sessionlog.Message{Role: role, Content: text})
				i++
				if written += int64(len(text)) + 40; written >= to {
					break
				}
			}
			if err := l.Append(step...); err != nil {
				return err
			}
		}
		return nil
	}
	if err := l.SetTitle("a long session"); err != nil {
		return nil, err
	}
	if err := l.AddUptime(60); err != nil {
		return nil, err
	}
	if err := fill(size - tail); err != nil {
		return nil, err
	}
	if err := l.Compact("what was said so far"); err != nil {
		return nil, err
	}
	if err := fill(written + tail); err != nil {
		return nil, err
	}
	id := l.ID()
	if err := l.Close(); err != nil {
		return nil, err
	}
	return d.Read(id)
}

// decodeForward decodes every line from the start and keeps the lines after the last
// compaction marker.
func decodeForward(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	type message struct {
		Role    string  `json:"role"`
		Content string  `json:"content"`
		Compact *string `json:"compact"`
	}
	var context []message
	r := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return err
		}
		if m.Compact != nil {
			context = context[:0]
		}
		context = append(context, m)
	}
	if len(context) < 100 {
		return fmt.Errorf("%s: only %d messages after the marker", path, len(context))
	}
	return nil
}
