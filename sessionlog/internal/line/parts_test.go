package line

import (
	"errors"
	"strings"
	"testing"
)

// TestCountPartsErrors fails a read in each of the two parts.
func TestCountPartsErrors(t *testing.T) {
	file := parts{{frameMeta, 1}, {frameBefore, 3 * ListPart / int64(len(frameBefore))}}
	for _, at := range []int64{0, ListPart - 1, file.size() - ListPart, file.size() - 1} {
		var c Counter
		tally, err := c.CountParts(&reads{ReaderAt: file, failAt: at, err: errRead}, file.size(), 0)
		if !errors.Is(err, errRead) || tally != (Tally{}) {
			t.Errorf("error at %d: %+v, %v", at, tally, err)
		}
	}
}

// TestResetKeepsBuffer resets a scanner to ranges around the size of its buffer.
func TestResetKeepsBuffer(t *testing.T) {
	for _, c := range []struct {
		buffer, from, to int64
		want             int64 // length of the buffer
		kept             bool
	}{
		{0, 0, 5, 5, false},
		{0, 10, 15, 5, false},
		{0, 10, 27, 16, false},
		{0, 10, 100, 16, false},
		{5, 0, 5, 5, true},
		{5, 10, 14, 5, true},
		{5, 10, 16, 6, false},
		{16, 0, 100, 16, true},
		{15, 0, 100, 16, false},
		{32, 0, 100, 32, true},
		{33, 0, 100, 16, false},
		{33, 7, 10, 3, false},
		{0, 7, 7, 0, true},
	} {
		s := Scanner{chunk: 16, buf: make([]byte, c.buffer)}
		before := s.buf
		s.Reset(strings.NewReader(""), c.from, c.to, 0)
		kept := len(s.buf) == len(before) && (len(before) == 0 || &s.buf[0] == &before[0])
		if int64(len(s.buf)) != c.want || kept != c.kept || s.pos != c.from || s.end != c.to || s.limit != lineLimit || s.chunk != 16 {
			t.Errorf("%+v: a buffer of %d bytes, kept %t", c, len(s.buf), kept)
		}
	}
	var s Scanner
	if s.Reset(strings.NewReader(""), 0, 1<<30, -1); s.chunk != forwardChunk || len(s.buf) != forwardChunk {
		t.Errorf("chunk %d, buffer %d", s.chunk, len(s.buf))
	}
	for n, want := range map[int64]int64{-1: lineLimit, 0: lineLimit, 1: 1, maxLineLimit: maxLineLimit, maxLineLimit + 1: maxLineLimit} {
		if got := LimitOf(n); got != want {
			t.Errorf("LimitOf(%d) = %d", n, got)
		}
	}
}
