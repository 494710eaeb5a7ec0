package history

import (
	"iter"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"crabmem/sessionlog"
	"crabmem/sessionlog/record"
)

// TestSessionWriterSkip resumes after each part, also within a write. No part may be
// repeated or omitted.
func TestSessionWriterSkip(t *testing.T) {
	reference := NewSessionWriter(1, 2, 3)
	var all []Part
	for len(all) < 60 {
		all = append(all, reference.Next()...)
		if reference.N() != len(all) {
			t.Fatalf("%d parts generated, but the last has number %d", len(all), reference.N())
		}
	}
	rests := 0
	for n := range len(all) - 10 {
		w := NewSessionWriter(1, 2, 3)
		got := w.Skip(n)
		if len(got) > 0 {
			rests++
		}
		for len(got) < 10 {
			got = append(got, w.Next()...)
		}
		if !reflect.DeepEqual(got[:10], all[n:n+10]) {
			t.Fatalf("after %d parts follow %+v, want %+v", n, got[:10], all[n:n+10])
		}
	}
	if rests == 0 {
		t.Error("no resumption was within a write")
	}
}

// TestSessionChecker changes the lines of a session. The checker must detect each
// change.
func TestSessionChecker(t *testing.T) {
	d, err := sessionlog.OpenDir(filepath.Join(t.TempDir(), "sessions"), &sessionlog.Options{Sync: sessionlog.SyncNone})
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.Create(SessionMeta(0))
	if err != nil {
		t.Fatal(err)
	}
	writers := []*SessionWriter{NewSessionWriter(1, 0, 0), NewSessionWriter(1, 0, 1)}
	for i := range 60 {
		if err := writers[i%2].Do(l, writers[i%2].Next()); err != nil {
			t.Fatal(err)
		}
	}
	c, err := l.Context()
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Read(SessionID(0))
	if err != nil {
		t.Fatal(err)
	}
	var lines []sessionlog.Line
	for l, err := range s.Lines(0) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	checker := NewSessionChecker(1, 2)
	parts := []int{writers[0].N(), writers[1].N()}
	f, err := checker.Read(0, each(lines))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Within(parts, parts); err != nil {
		t.Error(err)
	}
	if err := f.Context(c); err != nil {
		t.Error(err)
	}
	// Omit and repeat each line, except the meta record after a marker, which the
	// checker does not require.
	for i, l := range lines {
		if i == 0 {
			continue // the meta line
		}
		if l.Kind == record.KindMetaRecord && lines[i-1].Kind == record.KindMarker {
			continue
		}
		for what, changed := range map[string][]sessionlog.Line{
			"omitted":  append(append([]sessionlog.Line{}, lines[:i]...), lines[i+1:]...),
			"repeated": append(append([]sessionlog.Line{}, lines[:i+1]...), lines[i:]...),
		} {
			f, err := checker.Read(0, each(changed))
			if err == nil {
				err = f.Within(parts, parts)
			}
			if err == nil {
				t.Errorf("line %d (%v) %s: not detected", l.Number, l.Kind, what)
			}
		}
	}
	if err := f.Within([]int{parts[0] + 1, parts[1]}, []int{parts[0] + 1, parts[1]}); err == nil || !strings.Contains(err.Error(), "1 lost") {
		t.Errorf("a lost part: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func each(lines []sessionlog.Line) iter.Seq2[sessionlog.Line, error] {
	return func(yield func(sessionlog.Line, error) bool) {
		for _, l := range lines {
			if !yield(l, nil) {
				return
			}
		}
	}
}
