package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress checks that a short operation prints nothing, that a long one
// displays its progress and erases the line, and that output that is not a
// terminal gets neither.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := &Progress{w: &b, what: "dumping", after: time.Hour, start: time.Now()}
		p.Step(1, 10)
		p.End()
		if b.Len() > 0 {
			t.Errorf("at once it says %q", b.String())
		}
		p.start = time.Now().Add(-time.Hour)
		p.ended = false
		p.Step(5, 10)
		p.Step(6, 10) // too soon after
		p.End()
		p.End()
		p.last = time.Time{}
		p.Step(7, 10) // after the end
		if want := "\rdumping: 5 of 10 (50%)\x1b[K\r\x1b[K"; b.String() != want {
			t.Errorf("it says %q, want %q", b.String(), want)
		}

		b.Reset()
		failed := errors.New("failed")
		p = &Progress{w: &b, what: "searching", after: 5 * time.Millisecond, start: time.Now()}
		err := p.During(func() error {
			time.Sleep(5 * time.Millisecond)
			synctest.Wait()
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
	})
}

// TestProgressNeverGoesBack reports steps out of order, of a repeated operation, and
// of another total, together with the clock, and checks the displayed lines.
func TestProgressNeverGoesBack(t *testing.T) {
	var b bytes.Buffer
	p := &Progress{w: &b, what: "loading", after: time.Hour, start: time.Now().Add(-2 * time.Hour)}
	step := func(done, total int) {
		p.last = time.Time{}
		p.Step(done, total)
	}
	p.show()
	for _, s := range [][2]int{{3, 10}, {2, 10}, {5, 10}, {1, 4}, {0, 10}, {-1, 10}, {11, 10}, {3, 4}, {7, 0}, {10, 10}} {
		step(s[0], s[1])
	}
	p.last = time.Time{}
	p.show() // the clock shows the steps, not the time
	p.last = time.Time{}
	p.Bytes(3<<20, 3<<20)
	want := "\rloading: 2h0m0s\x1b[K\rloading: 3 of 10 (30%)\x1b[K\rloading: 5 of 10 (50%)\x1b[K\rloading: 3 of 4 (75%)\x1b[K" +
		"\rloading: 10 of 10 (100%)\x1b[K\rloading: 10 of 10 (100%)\x1b[K\rloading: 3.0 MiB of 3.0 MiB (100%)\x1b[K"
	if b.String() != want {
		t.Errorf("it says\n%q, want\n%q", b.String(), want)
	}
}

// TestProgressEndsBeforeOutput writes a warning and an error while a progress is
// displayed.
func TestProgressEndsBeforeOutput(t *testing.T) {
	var b bytes.Buffer
	c := NewStreams(nil, nil, &b)
	p := c.Progress("importing")
	p.w, p.start = &b, time.Now().Add(-time.Hour)
	c.Step(1, 4)
	c.Warn("a line is empty")
	p.last = time.Time{}
	c.Step(2, 4)
	c.Note("reading")
	p.last = time.Time{}
	c.Step(3, 4)
	c.EndProgress()
	b.WriteString("error: x\n")
	p.last = time.Time{}
	c.Step(4, 4)
	want := "\rimporting: 1 of 4 (25%)\x1b[K\r\x1b[Kwarning: a line is empty\n\rimporting: 2 of 4 (50%)\x1b[K\r\x1b[Kreading\n" +
		"\rimporting: 3 of 4 (75%)\x1b[K\r\x1b[Kerror: x\n"
	if b.String() != want {
		t.Errorf("it says\n%q, want\n%q", b.String(), want)
	}
}
