package line

import (
	"fmt"
	"strings"
	"testing"

	"crabmem/fuzz/golden"
)

// TestReportsOfParts counts files of more than two parts, with lines of each kind
// at both ends.
func TestReportsOfParts(t *testing.T) {
	var r golden.Reports
	var c Counter
	meta, message := strings.TrimSuffix(reportLines[0], "\n"), reportLines[3]
	heads := []string{"", meta + "\n", meta + "\n" + message + "\n", meta + message + "\n", message + "\n", message + meta + "\n", message + message + "\n" + message + "\n", "\n" + meta + "\n", "bad\n" + meta + "\n",
		meta + "\nbad\n" + `{"meta":{"title":"first","uptime_secs":9}}` + "\n" + `{"compact":"s"}` + "\n"}
	tails := []string{"", "\n", "\n" + message + "\n", "\n" + message, "\n" + message + "\n{\"role", "\nbad\n" + `{"note":1}` + "\n", "\n" + message + message + "\n", "\n" + `{"meta":{"title":"last"}}` + "\n",
		"\n" + `{"compact":"s"}` + "\n" + `{"meta":{"title":"last"}}` + "\n", "\n" + `{"meta":{"title":"last"}}` + "\n" + `{"compact":"s"}` + "\n"}
	for i := range max(len(heads), len(tails)) {
		head, tail := heads[i%len(heads)], tails[i%len(tails)]
		file := parts{{head, 1}, {"x", 2*ListPart + 1}, {tail, 1}}
		tally, err := c.CountParts(file, file.size(), 1<<20)
		r.Addf(fmt.Sprintf("%q and %q", head, tail), "%+v %v", tally, err)
	}
	// Messages at the borders of the parts, after or before a line over the limit.
	size := int64(len(meta) + 1)
	for _, n := range []int64{-1, 0, 1} {
		file := parts{{meta + "\n", 1}, {"x", ListPart - size - int64(len(message)) - 2 + n}, {"\n" + message + "\n", 1}, {"x", ListPart}}
		tally, err := c.CountParts(file, file.size(), 1<<20)
		r.Addf(fmt.Sprintf("a message that ends %d bytes after the first part", n), "%+v %v", tally, err)
		file = parts{{meta + "\n", 1}, {"x", ListPart}, {"\n" + message + "\n", 1}, {"x", ListPart - 3 + n - int64(len(message))}, {"\n", 1}}
		tally, err = c.CountParts(file, file.size(), 1<<20)
		r.Addf(fmt.Sprintf("a message that begins %d bytes after the start of the last part", 1-n), "%+v %v", tally, err)
	}
	r.Compare(t, "testdata/reports/parts.txt.gz")
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
