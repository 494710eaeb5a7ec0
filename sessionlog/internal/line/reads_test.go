package line

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestReadsOfLargeFiles compares the offsets and lengths of all reads of a file
// that is longer than the chunks.
func TestReadsOfLargeFiles(t *testing.T) {
	tail := `{"compact":"s"}` + "\n" + frameAfter
	file := parts{{frameMeta, 1}, {frameBefore, 20_000}, {tail, 1}}
	size := file.size()
	bad := parts{{frameMeta, 1}, {frameBefore, 20_000}, {"bad\n", 1}, {frameBefore, 1}}
	for _, c := range []struct {
		name string
		file parts
		read func(l *loggedReader, size int64) error
		want string
	}{
		{"forward", file, func(l *loggedReader, size int64) error {
			var s Scanner
			for s.Reset(l, 0, size, 0); s.Next(); {
			}
			return s.Err
		}, "0+262144 262144+262130 524274+75822"},
		{"backward", file, func(l *loggedReader, size int64) error {
			var s BackScanner
			for s.Reset(l, size, 0); s.Next(); {
			}
			return s.Err
		}, "534560+65536 469024+65536 403488+65536 337952+65536 272416+65536 206880+65536 141344+65536 75808+65536 10272+65536 0+10272"},
		{"context", file, func(l *loggedReader, size int64) error {
			_, err := ReadContext(l, size, nil)
			return err
		}, fmt.Sprintf("%d+65536 0+4096", size-BackwardChunk)},
		{"count", file, func(l *loggedReader, size int64) error {
			_, err := new(Counter).Count(l, size, 0)
			return err
		}, "0+262144 262144+262130 524274+75822"},
		{"bad line", bad, func(l *loggedReader, size int64) error {
			if _, err := ReadContext(l, size, nil); err == nil || err.Error() != "line 20003 (offset 600050): not JSON at byte 1: unexpected 'b'" {
				return fmt.Errorf("error %w", err)
			}
			return nil
		}, "534548+65536 0+262144 262144+262144 524288+75762"},
	} {
		l := &loggedReader{r: c.file}
		if err := c.read(l, c.file.size()); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := strings.Join(l.log, " "); got != c.want {
			t.Errorf("%s of %d bytes:\n got %s\nwant %s", c.name, c.file.size(), got, c.want)
		}
	}
}

// TestReadsAhead measures lines of which a part is read, for each limit and chunk.
// Up to the limit the length is exact, and above it is greater than the limit. No
// chunk is read twice, and none after the end of the line.
func TestReadsAhead(t *testing.T) {
	const known = 3 // bytes of the line in the buffer
	for _, rest := range []int64{0, 1, 5, 6, 7, 8, 9, 12} {
		for _, more := range []string{"", "\n", "\nabcdefghijkl"} {
			for limit := int64(known); limit < 20; limit++ {
				for _, chunk := range []int{1, 4, 5, 100} {
					text := strings.Repeat("x", known) + strings.Repeat("y", int(rest)) + more
					forward := &loggedReader{r: strings.NewReader(text)}
					s := Scanner{r: forward, pos: known, end: int64(len(text)), limit: limit, chunk: chunk, lo: 5, hi: 5 + known}
					checkAhead(t, forward, int64(s.ahead()), rest, limit-known, int64(chunk), int64(len(more)))
					mirrored := []byte(text)
					for i, j := 0, len(mirrored)-1; i < j; i, j = i+1, j-1 {
						mirrored[i], mirrored[j] = mirrored[j], mirrored[i]
					}
					backward := &loggedReader{r: bytes.NewReader(mirrored)}
					b := BackScanner{r: backward, pos: int64(len(text)) - known, limit: limit, chunk: chunk, lo: 5, hi: 5 + known}
					checkAhead(t, backward, int64(b.unreadBytes()), rest, limit-known, int64(chunk), int64(len(more)))
					if s.Err != nil || b.Err != nil || t.Failed() {
						t.Fatalf("%d bytes before %q, limit %d, chunk %d: %v, %v", rest, more, limit, chunk, s.Err, b.Err)
					}
				}
			}
		}
	}
	for n := range 3 { // the n-th read fails
		s := Scanner{r: &loggedReader{r: strings.NewReader("abcdefgh"), n: n + 1}, end: 8, limit: 20, chunk: 3}
		if got := s.ahead(); got != 0 || !errors.Is(s.Err, errRead) {
			t.Errorf("read %d fails: %d (%v)", n+1, got, s.Err)
		}
		b := BackScanner{r: &loggedReader{r: strings.NewReader("abcdefgh"), n: n + 1}, pos: 8, limit: 20, chunk: 3}
		if got := b.unreadBytes(); got != 0 || !errors.Is(b.Err, errRead) {
			t.Errorf("read %d backward fails: %d (%v)", n+1, got, b.Err)
		}
	}
}

// checkAhead checks a length of rest unread bytes of a line, of which room bytes
// are below the limit. more bytes follow in the file, the first of them the line
// end.
func checkAhead(t *testing.T, l *loggedReader, got, rest, room, chunk, more int64) {
	t.Helper()
	if rest <= room && got != rest || rest > room && got <= room {
		t.Errorf("%d bytes, want %d, room for %d", got, rest, room)
	}
	need := min(rest+min(more, 1), room+1) // with the line end
	if reads := int64(len(l.log)); reads != (need+chunk-1)/chunk {
		t.Errorf("%d reads of %d bytes: %v", reads, need, l.log)
	}
}

// countLines calls next at most limit times and returns the number of lines.
func countLines(next func() bool, limit int) int {
	for n := range limit {
		if !next() {
			return n
		}
	}
	return limit
}

// TestScannerBytes reads bytes before, in, and after the buffer of a scanner. Only
// bytes outside the buffer are read from the file.
func TestScannerBytes(t *testing.T) {
	const text = "0123456\n89abcde\nghij"
	for off := range int64(len(text)) {
		for n := range int64(len(text)) - off + 2 {
			l := &loggedReader{r: strings.NewReader(text)}
			s := Scanner{chunk: 8}
			s.Reset(l, 0, int64(len(text)), 0)
			if countLines(s.Next, 2) != 2 || string(s.Line.Bytes) != "89abcde" {
				t.Fatalf("line %q", s.Line.Bytes)
			}
			from, to := s.pos-int64(s.hi), s.pos
			l.log = nil
			b, err := s.Bytes(l, off, n)
			if over := off+n > int64(len(text)); over {
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%d bytes at %d: %v", n, off, err)
				}
				continue
			}
			inside := from <= off && off+n <= to
			if err != nil || string(b) != text[off:off+n] || (len(l.log) == 0) != inside {
				t.Errorf("%d bytes at %d, the buffer has %d to %d: %q, %v, reads %v", n, off, from, to, b, err, l.log)
			}
		}
	}
}

// TestRoomBackward compares the buffer of a scanner, with chunks of 4 bytes, after it
// makes room for a chunk: the bytes of the line are at its end.
func TestRoomBackward(t *testing.T) {
	for _, c := range []struct {
		size, lo, n int
		pos, limit  int64
		made        bool
		want        int // buffer length
	}{
		{8, 4, 4, 40, 200, true, 8}, {8, 3, 5, 40, 200, true, 16}, {16, 2, 14, 40, 200, true, 32}, {16, 2, 14, 40, 20, true, 24}, {16, 3, 13, 3, 200, true, 16}, {16, 2, 14, 40, 13, false, 16},
		{40, 0, 4, 40, 200, true, 8}, {12, 4, 4, 40, 200, true, 12}, {8, 0, 8, 2, 200, true, 16},
	} {
		buf := make([]byte, c.size)
		for i := range c.n {
			buf[c.lo+i] = byte(i + 1)
		}
		s := BackScanner{pos: c.pos, limit: c.limit, chunk: 4, buf: buf, lo: c.lo, hi: c.lo + c.n}
		made := s.room()
		moved := s.lo != c.lo || len(s.buf) != c.size
		if made != c.made || len(s.buf) != c.want || s.hi-s.lo != c.n || moved && (s.hi != len(s.buf) || c.lo >= 4) || c.made && int64(s.lo) < min(4, c.pos) || s.buf[s.lo] != 1 || s.buf[s.hi-1] != byte(c.n) {
			t.Errorf("%+v: %v, a buffer of %d bytes with the line at %d to %d", c, made, len(s.buf), s.lo, s.hi)
		}
	}
}

// TestTruncatedEscapes decodes lines that end in an escape: a prefix of a valid one is
// truncated, others are errors.
func TestTruncatedEscapes(t *testing.T) {
	for end, want := range map[string]bool{
		`\`: true, `\u`: true, `\u0`: true, `\u00e`: true, `\ud83d`: true, `\ud83d\`: true, `\ud83d\u`: true, `\ud83d\ude0`: true, `\x`: false, `\u0g`: false, `\ud83dx`: false, `\ud83d\n`: false, `\ude00`: false,
	} {
		var r Record
		if r.Decode([]byte(`{"compact":"a`+end), false); r.Truncated != want {
			t.Errorf("%s: truncated %v, %s", end, r.Truncated, r.Reason())
		}
	}
}

// loggedReader logs its reads. The n-th fails.
type loggedReader struct {
	r   io.ReaderAt
	log []string
	n   int
}

var errRead = errors.New("read failed")

func (l *loggedReader) ReadAt(b []byte, off int64) (int, error) {
	l.log = append(l.log, fmt.Sprintf("%d+%d", off, len(b)))
	if len(l.log) == l.n {
		return 0, errRead
	}
	return l.r.ReadAt(b, off)
}
