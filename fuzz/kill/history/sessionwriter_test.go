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

// TestTalkSkip resumes after every part, also within a write: no part is
// written twice or omitted.
func TestTalkSkip(t *testing.T) {
	whole := NewSessionWriter(1, 2, 3)
	var all []Part
	for len(all) < 60 {
		all = append(all, whole.Next()...)
		if whole.N() != len(all) {
			t.Fatalf("%d parts drawn, and the last is number %d", len(all), whole.N())
		}
	}
	rests := 0
	for n := range len(all) - 10 {
		talk := NewSessionWriter(1, 2, 3)
		got := talk.Skip(n)
		if len(got) > 0 {
			rests++
		}
		for len(got) < 10 {
			got = append(got, talk.Next()...)
		}
		if !reflect.DeepEqual(got[:10], all[n:n+10]) {
			t.Fatalf("after %d parts follow %+v, want %+v", n, got[:10], all[n:n+10])
		}
	}
	if rests == 0 {
		t.Error("no write was gone on with in its middle")
	}
}

// TestTalkChecker changes the lines of a session, which the checker must see.
func TestTalkChecker(t *testing.T) {
	d, err := sessionlog.OpenDir(filepath.Join(t.TempDir(), "sessions"), &sessionlog.Options{Sync: sessionlog.SyncNone})
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.Create(SessionMeta(0))
	if err != nil {
		t.Fatal(err)
	}
	talks := []*SessionWriter{NewSessionWriter(1, 0, 0), NewSessionWriter(1, 0, 1)}
	for i := range 60 {
		if err := talks[i%2].Do(l, talks[i%2].Next()); err != nil {
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
	parts := []int{talks[0].N(), talks[1].N()}
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
	// Every line left out or doubled is seen, but that of a marker's own record.
	for i, l := range lines {
		if i == 0 {
			continue // the meta line: its number tells
		}
		if l.Kind == record.KindMetaRecord && lines[i-1].Kind == record.KindMarker {
			continue
		}
		for what, changed := range map[string][]sessionlog.Line{
			"left out": append(append([]sessionlog.Line{}, lines[:i]...), lines[i+1:]...),
			"doubled":  append(append([]sessionlog.Line{}, lines[:i+1]...), lines[i:]...),
		} {
			f, err := checker.Read(0, each(changed))
			if err == nil {
				err = f.Within(parts, parts)
			}
			if err == nil {
				t.Errorf("line %d (%v) %s: not seen", l.Number, l.Kind, what)
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
