package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
)

// TestProgress checks that a short operation prints nothing, that a long one
// displays its progress and erases the line, and that output that is not a
// terminal gets neither.
func TestProgress(t *testing.T) {
	var b bytes.Buffer
	p := &Progress{w: &b, what: "dumping", after: time.Hour, start: time.Now()}
	p.Step(1, 10)
	p.End()
	if b.Len() > 0 {
		t.Errorf("at once it says %q", b.String())
	}
	p.start = time.Now().Add(-time.Hour)
	p.Step(5, 10)
	p.Step(6, 10) // too soon after
	p.End()
	p.End()
	if want := "\rdumping: 5 of 10 (50%)\x1b[K\r\x1b[K"; b.String() != want {
		t.Errorf("it says %q, want %q", b.String(), want)
	}

	b.Reset()
	failed := errors.New("failed")
	p = &Progress{w: &b, what: "searching", after: 5 * time.Millisecond, start: time.Now()}
	err := p.During(func() error {
		shown := func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.shown }
		for began := time.Now(); !shown() && time.Since(began) < gate.Hang; {
			time.Sleep(time.Millisecond)
		}
		return failed
	})
	if err != failed || !strings.HasPrefix(b.String(), "\rsearching: 0s") || !strings.HasSuffix(b.String(), "\r\x1b[K") {
		t.Errorf("it says %q, %v", b.String(), err)
	}
	b.Reset()
	p = &Progress{w: &b, what: "searching", after: time.Minute, start: time.Now()}
	if err := p.During(func() error { return nil }); err != nil || b.Len() > 0 {
		t.Errorf("it says %q, %v", b.String(), err)
	}

	var diag bytes.Buffer
	if p := NewStreams(nil, nil, &diag).Progress("dumping"); p.w != nil {
		t.Error("a pipe gets progress")
	}
}
