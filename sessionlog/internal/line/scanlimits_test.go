package line

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// TestLongLinesMemory checks that a scan passes over lines that exceed the limit
// with a small buffer, which it allocates once.
func TestLongLinesMemory(t *testing.T) {
	for _, c := range []struct {
		size        int
		lines       int64
		limit, most int64 // bytes
	}{{8 << 20, 1, 64, 1 << 15}, {8 << 20, 1, 4 << 20, 1 << 18}, {3 << 10, 4000, 64, 1 << 15}} {
		file := parts{{strings.Repeat("x", c.size-1) + "\n", c.lines}}
		lines := int64(0)
		n := allocated(func() {
			s := Scanner{chunk: 1 << 10}
			for s.Reset(file, 0, file.size(), c.limit); s.Next() && s.Line.Bytes == nil; lines++ {
			}
		})
		if lines != c.lines || n > c.most {
			t.Errorf("%+v: %d lines, %d bytes allocated", c, lines, n)
		}
		lines = 0
		n = allocated(func() {
			s := BackScanner{chunk: 1 << 10}
			for s.Reset(file, file.size(), c.limit); s.Next() && s.Line.Bytes == nil; lines++ {
			}
		})
		if lines != c.lines || n > c.most {
			t.Errorf("%+v backward: %d lines, %d bytes allocated", c, lines, n)
		}
	}
}

// TestLongLinesShrinkBuffer passes over a line that exceeds the limit. Then the
// buffer has its initial length.
func TestLongLinesShrinkBuffer(t *testing.T) {
	const chunk = 16
	text := "short\n" + strings.Repeat("x", 300) + "\nshort\n"
	for limit := int64(6); limit < 290; limit++ {
		s := Scanner{chunk: chunk}
		s.Reset(strings.NewReader(text), 0, int64(len(text)), limit)
		if n := countLines(s.Next, 2); n != 2 || s.Line.Bytes != nil || len(s.buf) != chunk {
			t.Errorf("forward, limit %d: a buffer of %d bytes", limit, len(s.buf))
		}
		b := BackScanner{chunk: chunk}
		b.Reset(strings.NewReader(text), int64(len(text)), limit)
		if n := countLines(b.Next, 2); n != 2 || b.Line.Bytes != nil || len(b.buf) != 2*chunk {
			t.Errorf("backward, limit %d: a buffer of %d bytes", limit, len(b.buf))
		}
	}
}

// TestNewlines counts line ends with one read per chunk. An error returns no count.
func TestNewlines(t *testing.T) {
	for size, calls := range map[int64]int64{-1: 0, 0: 0, 1: 1, forwardChunk: 1, forwardChunk + 1: 2, 2 * forwardChunk: 2, 2*forwardChunk + 1: 3} {
		r := &reads{ReaderAt: strings.NewReader(strings.Repeat("x\n", 2*forwardChunk))}
		n, err := newlines(r, 3, 3+size)
		if want := (max(size, 0) + 1) / 2; n != want || err != nil || r.calls != calls || r.bytes != max(size, 0) {
			t.Errorf("%d bytes: %d line ends, want %d (%v), %d calls, %d bytes read", size, n, want, err, r.calls, r.bytes)
		}
	}
	if n, err := newlines(strings.NewReader("x\n"), 0, 3); n != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("beyond the end: %d (%v)", n, err)
	}
}
