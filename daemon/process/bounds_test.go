package process

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestShapeCountsValues compares the limit with messages that have exactly as
// many values, and one more.
func TestShapeCountsValues(t *testing.T) {
	for _, more := range []int{0, 1} {
		s := Shape{}
		err := s.Add([]byte("[" + strings.Repeat("0,", MaxValues-1+more) + "0"))
		if (err != nil) != (more > 0) {
			t.Errorf("%d values: %v", MaxValues+more, err)
		}
	}
	events := Shape{Events: true}
	for range 3 {
		if err := events.Add([]byte("data: [" + strings.Repeat("0,", MaxValues/2) + "\"[[{\\\",\"]\r\n\r\n")); err != nil {
			t.Errorf("a stream of messages below the limit: %v", err)
		}
	}
}

// TestShapeOfTexts compares the number of values of messages.
func TestShapeOfTexts(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "7": 0, "[]": 1, "{}": 1, "[1,2]": 2, `{"a":[{}]}`: 3, `"[{,"`: 0, `["a",",",","]`: 3, `["\",",2]`: 2, `["\\",2]`: 2, `["\\\",",2]`: 2, "\\[": 1, `["a\`: 1,
		"\"\n[": 1, "\"\\\n[": 1, "\n[": 1, "[\n[": 2, "[\n\n[": 2,
	} {
		var s Shape
		if err := s.Add([]byte(text)); s.values != want || err != nil {
			t.Errorf("%q: %d values, %v, want %d", text, s.values, err, want)
		}
		s = Shape{}
		for i := range text {
			s.Add([]byte(text[i : i+1]))
		}
		if s.values != want {
			t.Errorf("%q, byte by byte: %d values, want %d", text, s.values, want)
		}
	}
	full := "[" + strings.Repeat(",", MaxValues-1)
	for text, fails := range map[string]bool{
		full + "\n\n" + full: false, full + "\r\n\r\n" + full: false, full + "\n \n[": true, full + "\n[": true, full + "\n\n" + full + ",": true,
	} {
		s := Shape{Events: true}
		if err := s.Add([]byte(text)); (err != nil) != fails {
			t.Errorf("%.3q %d bytes, ends in %q: %v", text, len(text), text[len(text)-3:], err)
		}
	}
}

// TestPaceWaitsExactly waits for times at the bounds: of a server that is early, in
// time, and late.
func TestPaceWaitsExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			at              time.Duration // of the pace, from now
			messages, bytes int
			waits, left     time.Duration
		}{
			{at: 0}, {at: 1, waits: 1}, {at: -1, left: -1}, {at: -ahead, left: -ahead}, {at: -ahead - 1, left: -ahead},
			{at: -perMessage, messages: 1}, {at: -perMessage + 1, messages: 1, waits: 1}, {at: 0, messages: 3, waits: 3 * perMessage},
			{at: 0, bytes: 1 << 20, waits: perMiB}, {at: -ahead - time.Hour, messages: 4, bytes: 2 << 20, left: -ahead + 4*perMessage + 2*perMiB},
		} {
			began := time.Now()
			p := Pace{at: began.Add(c.at)}
			if !p.Wait(c.messages, c.bytes, nil) {
				t.Errorf("%+v: ended", c)
			}
			if waited, left := time.Since(began), time.Until(p.at); waited != c.waits || left != c.left {
				t.Errorf("%+v: waited %v, %v left", c, waited, left)
			}
		}
		done := make(chan struct{})
		close(done)
		p := Pace{at: time.Now().Add(time.Second)}
		if p.Wait(0, 0, done) {
			t.Error("a wait without an end")
		}
	})
}

// TestPace checks how long a server waits for its messages and bytes.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		var p Pace
		for i, c := range []struct {
			pause           time.Duration
			messages, bytes int
			want            time.Duration
		}{
			{0, 4000, 0, 0}, {0, 1, 0, perMessage}, {0, 0, 1 << 20, perMiB}, {0, 2, 1 << 19, 2*perMessage + perMiB/2}, {0, 0, 0, 0},
			{time.Second, 2000, 0, 0}, {0, 1, 0, perMessage}, {time.Hour, 0, 32 << 20, 0}, {0, 0, 1 << 10, perMiB >> 10},
		} {
			time.Sleep(c.pause)
			began := time.Now()
			if ok := p.Wait(c.messages, c.bytes, nil); !ok || time.Since(began) != c.want {
				t.Errorf("wait %d: %v after %v, want %v", i, ok, time.Since(began), c.want)
			}
		}
		done := make(chan struct{})
		close(done)
		if p.Wait(1, 0, done) {
			t.Error("it waited although the connection had ended")
		}
	})
}

// TestReadLine compares lines at the limit and above it, in one part or several.
func TestReadLine(t *testing.T) {
	for n := 1; n < 70; n++ {
		text := strings.Repeat("x", n-1) + "\n"
		r := bufio.NewReaderSize(strings.NewReader(text+text), 16)
		line, err := ReadLine(r, n)
		if again, aerr := ReadLine(r, n); string(line) != text || string(again) != text || err != nil || aerr != nil {
			t.Errorf("%d bytes: %q, %v; %q, %v", n, line, err, again, aerr)
		}
		if line, err := ReadLine(bufio.NewReaderSize(strings.NewReader(text), 16), n-1); line != nil || err == nil || err.Error() != "message exceeds 0 MiB" {
			t.Errorf("%d bytes, one too many: %q, %v", n, line, err)
		}
		if line, err := ReadLine(bufio.NewReaderSize(strings.NewReader(text[:n-1]), 16), n-1); string(line) != text[:n-1] || err != io.EOF {
			t.Errorf("%d bytes without an end: %q, %v", n-1, line, err)
		}
	}
}
