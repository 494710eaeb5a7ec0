package line

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"

	"crabmem/fuzz/race"
	"crabmem/fuzz/seed"
	"crabmem/sessionlog/record"
)

// found is a line as a scanner gives it.
type found struct {
	off, size int64
	raw       string
	over      bool
	torn      bool
}

func foundOf(l *Raw) found {
	return found{l.Offset, l.Size, string(l.Bytes), l.Bytes == nil, l.Torn}
}

// split returns the lines that the scanners must find, by a simple method.
func split(b []byte, limit int64) (fs []found) {
	for off := 0; off < len(b); {
		f := found{off: int64(off)}
		n := bytes.IndexByte(b[off:], '\n')
		if n < 0 {
			n, f.torn = len(b)-off, true
		}
		f.size = int64(n)
		if f.over = f.size > limit; !f.over {
			f.raw = string(b[off : off+n])
		}
		fs = append(fs, f)
		off += n + 1
	}
	return fs
}

// TestScan: both scanners find the lines there are, whatever the sizes of
// chunks and the limit.
func TestScan(t *testing.T) {
	g := seed.Random(t)
	var forward Scanner // one for all: it is used again
	total := 0
	for i := range 2 * codecRounds {
		b := make([]byte, g.IntN(1<<g.IntN(10)))
		every := 1 + g.IntN(40)
		for i := range b {
			if b[i] = "ab\x00\x0b\x8a\xff"[g.IntN(6)]; g.IntN(every) == 0 {
				b[i] = '\n'
			}
		}
		size := int64(len(b))
		limit := 1 + g.Int64N(80)
		want := split(b, limit)
		total += len(want)

		forward.chunk = 1 + g.IntN(64)
		forward.Reset(bytes.NewReader(b), 0, size, limit)
		var got []found
		for forward.Next() {
			got = append(got, foundOf(&forward.Line))
			if forward.Number != int64(len(got)) {
				t.Fatalf("file %d: line %d is number %d", i, len(got), forward.Number)
			}
			if int64(len(forward.buf)) > max(limit+int64(forward.chunk), 2*int64(forward.chunk)) {
				t.Fatalf("file %d: %d bytes of memory for a limit of %d, chunks of %d", i, len(forward.buf), limit, forward.chunk)
			}
		}
		if forward.Err != nil || !slices.Equal(got, want) {
			t.Fatalf("file %d %q, limit %d, chunk %d, forward (%v):\n got %v\nwant %v", i, b, limit, forward.chunk, forward.Err, got, want)
		}

		back := BackScanner{chunk: 1 + g.IntN(64)}
		back.Reset(bytes.NewReader(b), size, limit)
		got = got[:0]
		for back.Next() {
			got = append(got, foundOf(&back.Line))
			if int64(len(back.buf)) > max(limit+2*int64(back.chunk), 4*int64(back.chunk)) {
				t.Fatalf("file %d: %d bytes of memory for a limit of %d, chunks of %d", i, len(back.buf), limit, back.chunk)
			}
		}
		slices.Reverse(got)
		if back.Err != nil || !slices.Equal(got, want) {
			t.Fatalf("file %d %q, limit %d, chunk %d, backward (%v):\n got %v\nwant %v", i, b, limit, back.chunk, back.Err, got, want)
		}

		// From a line in the middle.
		if len(want) > 0 {
			n := g.IntN(len(want))
			forward.Reset(bytes.NewReader(b), want[n].off, size, limit)
			got = got[:0]
			for forward.Next() {
				got = append(got, foundOf(&forward.Line))
			}
			if !slices.Equal(got, want[n:]) {
				t.Fatalf("file %d %q from %d: got %v, want %v", i, b, want[n].off, got, want[n:])
			}
			for l, err := range lines(bytes.NewReader(b), want[n].off, size, limit) {
				if err != nil || l.Number != int64(n+1) || l.Offset != want[n].off || l.Size != want[n].size || l.Torn != want[n].torn {
					t.Fatalf("file %d %q: %+v (%v), want line %d %+v", i, b, l, err, n+1, want[n])
				}
				n++
			}
		}
	}
	t.Logf("lines found: %d", total)
}

func TestLastNewline(t *testing.T) {
	g := seed.Random(t)
	for range 10 * codecRounds {
		b := make([]byte, g.IntN(40))
		for i := range b {
			b[i] = "\n\n\x0b\x09\x8a\x00\xff\x0aab"[g.IntN(10)]
			if g.IntN(4) > 0 {
				b[i] = byte(g.Uint32())
			}
		}
		if got, want := lastNewline(b), bytes.LastIndexByte(b, '\n'); got != want {
			t.Fatalf("%q: %d, want %d", b, got, want)
		}
	}
}

// parts is a file of parts, each repeated, that is nowhere.
type parts []part

type part struct {
	text  string
	times int64
}

func (p parts) size() (n int64) {
	for _, q := range p {
		n += int64(len(q.text)) * q.times
	}
	return n
}

func (p parts) ReadAt(b []byte, off int64) (n int, err error) {
	for _, q := range p {
		size := int64(len(q.text)) * q.times
		if off >= size {
			off -= size
			continue
		}
		at := n
		for n < len(b) && off < size {
			if done := n - at; done >= len(q.text) {
				// Repeat the text that was already copied.
				c := copy(b[n:min(int64(len(b)), int64(n)+size-off)], b[at:at+done/len(q.text)*len(q.text)])
				n, off = n+c, off+int64(c)
				continue
			}
			c := copy(b[n:], q.text[off%int64(len(q.text)):])
			n, off = n+c, off+int64(c)
			if off%int64(len(q.text)) != 0 || at+len(q.text) > n {
				at = n
			}
		}
		off = 0
		if n == len(b) {
			return n, nil
		}
	}
	return n, io.EOF
}

func TestParts(t *testing.T) {
	g := seed.Random(t)
	for range 2000 {
		var p parts
		var whole strings.Builder
		for range g.IntN(4) {
			q := part{randomText(g), g.Int64N(50)}
			p = append(p, q)
			whole.WriteString(strings.Repeat(q.text, int(q.times)))
		}
		if p.size() != int64(whole.Len()) {
			t.Fatalf("size %d, want %d", p.size(), whole.Len())
		}
		for range 10 {
			b, c := make([]byte, g.IntN(200)), make([]byte, 200)
			off := g.Int64N(p.size() + 1)
			n, err := p.ReadAt(b, off)
			m, eof := strings.NewReader(whole.String()).ReadAt(c[:len(b)], off)
			if n != m || !bytes.Equal(b[:n], c[:m]) || (err == nil) != (eof == nil) && len(b) > 0 {
				t.Fatalf("%v at %d: %q (%v), want %q (%v)", p, off, b[:n], err, c[:m], eof)
			}
		}
	}
}

// allocated returns the total memory that f allocates, an upper bound of its
// use at any time.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestHuge reads files that are larger than their reader may become, in every
// direction.
func TestHuge(t *testing.T) {
	race.Skip(t)
	meta := part{frameMeta, 1}
	one := part{`{"role":"user","content":"1"}` + "\n", 1}
	two := part{`{"role":"user","content":"2"}` + "\n", 1}
	const huge, mib = 96 << 20, 1 << 20
	for _, c := range []struct {
		name   string
		file   parts
		lines  int64
		damage string // the one there is
		says   string
		count  Tally
		memory int64
		limit  int64
	}{
		{
			name: "256 MiB line", file: parts{meta, one, {"x", 256 * mib}, {"\n", 1}, two},
			lines: 5, damage: "line 4 (offset 80): longer than the limit of 67108864 bytes", says: "user 1|user 2",
			count: Tally{Messages: 2, Damaged: 1}, memory: 200 * mib,
		},
		{
			name: "96 MiB line, a limit of 1 MiB", file: parts{meta, one, {"x", huge}, {"\n", 1}, two}, limit: 1 * mib,
			lines: 5, damage: "line 4 (offset 80): longer than the limit of 1048576 bytes", says: "user 1|user 2",
			count: Tally{Messages: 2, Damaged: 1}, memory: 4 * mib,
		},
		{
			name: "96 MiB of a message", file: parts{meta, one, {`{"role":"user","content":"`, 1}, {"0123456789abcdef", huge / 16}, {"\"}\n", 1}, two}, limit: 1 * mib,
			lines: 5, damage: "line 4 (offset 80): longer than the limit of 1048576 bytes", says: "user 1|user 2",
			count: Tally{Messages: 2, Damaged: 1}, memory: 4 * mib,
		},
		{
			name: "96 MiB torn", file: parts{meta, one, {"\x00", huge}}, limit: 1 * mib,
			lines: 4, says: "user 1", count: Tally{Messages: 1, Torn: huge}, memory: 4 * mib,
		},
		{
			name: "96 MiB first line", file: parts{{"{", huge}, {"\n", 1}, one}, limit: 1 * mib,
			lines: 2, damage: "line 1 (offset 0): longer than the limit of 1048576 bytes", says: "user 1",
			count: Tally{Messages: 1, Damaged: 1}, memory: 4 * mib,
		},
		{
			name: "96 MiB line before the marker", file: parts{meta, one, {"x", huge}, {"\n{\"compact\":\"s\"}\n", 1}, two}, limit: 1 * mib,
			lines: 6, says: "user s|user 2", count: Tally{Messages: 2, Damaged: 1}, memory: 4 * mib,
		},
		{
			name: "2 million empty lines", file: parts{meta, one, {"\n", 2_000_000}, two},
			lines: 2_000_004, says: "user 1|user 2", count: Tally{Messages: 2}, memory: 1 * mib,
		},
		{
			name: "2 million lines CRLF", file: parts{meta, one, {"\r\n", 2_000_000}, two},
			lines: 2_000_004, says: "user 1|user 2", count: Tally{Messages: 2}, memory: 1 * mib,
		},
		{
			name: "2 million empty lines at the end", file: parts{meta, one, {"\n", 2_000_000}},
			lines: 2_000_003, says: "user 1", count: Tally{Messages: 1}, memory: 1 * mib,
		},
		{
			name: "60 MiB of beginnings", file: parts{meta, one, {`{"role":`, 60 * mib / 8}, {"}\n", 1}, two},
			lines: 5, damage: "line 4 (offset 80): nested deeper than 128 at byte 1025", says: "user 1|user 2",
			count: Tally{Messages: 2, Damaged: 1}, memory: 200 * mib,
		},
		{
			name: "60 MiB of braces", file: parts{meta, one, {"x", 1}, {"{", 60 * mib}, {"}\n", 1}, two},
			lines: 5, damage: "line 4 (offset 80): not JSON at byte 1: unexpected 'x'", says: "user 1|user 2",
			count: Tally{Messages: 2, Damaged: 1}, memory: 200 * mib,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			size := c.file.size()
			o := &ReadOptions{Lenient: true, MaxLine: c.limit}
			check := func(what string, f func()) {
				if n := allocated(f); n > c.memory {
					t.Errorf("%s: %d bytes allocated, the bound is %d", what, n, c.memory)
				}
			}
			check("lines", func() {
				var n, at int64
				for l, err := range lines(c.file, 0, size, c.limit) {
					if n++; err != nil || l.Number != n || l.Offset != at {
						t.Fatalf("line %d at %d (%v), want %d at %d", l.Number, l.Offset, err, n, at)
					}
					if at += l.Size; !l.Torn {
						at++
					}
				}
				if n != c.lines || at != size {
					t.Errorf("%d lines of %d bytes, want %d of %d", n, at, c.lines, size)
				}
			})
			check("count", func() {
				var k Counter
				got, err := k.Count(c.file, size, c.limit)
				if got.Meta, got.identity = (Meta{}), false; err != nil || got != c.count {
					t.Errorf("counted %+v (%v), want %+v", got, err, c.count)
				}
			})
			check("context", func() {
				x, err := ReadContext(c.file, size, o)
				if err != nil {
					t.Fatal(err)
				}
				damage := ""
				for _, d := range x.Damage {
					damage += (&record.FormatError{Line: d.Line, Offset: d.Offset, Msg: d.Msg}).Error()
				}
				if damage != c.damage || said(x.Messages) != c.says || x.Torn != c.count.Torn {
					t.Errorf("context %q, %q, torn %d, want %q, %q", said(x.Messages), damage, x.Torn, c.says, c.damage)
				}
			})
		})
	}
}

// TestManyBadLines checks that a file of only bad lines is read in bounded
// memory.
func TestManyBadLines(t *testing.T) {
	race.Skip(t)
	file := parts{{frameMeta, 1}, {"x\n", 1_000_000}, {`{"role":"user"}` + "\n", 1}}
	n := allocated(func() {
		c, err := ReadContext(file, file.size(), &ReadOptions{Lenient: true})
		if err != nil || c.Damaged != 1_000_000 || len(c.Damage) != MaxDamage || len(c.Messages) != 1 {
			t.Fatalf("%d damaged, %d listed, %d messages (%v)", c.Damaged, len(c.Damage), len(c.Messages), err)
		}
		if first, last := c.Damage[0], c.Damage[MaxDamage-1]; first.Line != 1_000_002-MaxDamage+1 || last.Line != 1_000_002 {
			t.Errorf("listed from line %d to %d", first.Line, last.Line)
		}
	})
	if n > 1<<20 {
		t.Errorf("%d bytes allocated to read a million bad lines", n)
	}
	var c Counter
	n = allocated(func() {
		got, err := c.Count(file, file.size(), 0)
		if err != nil || got.Damaged != 1_000_000 || got.Messages != 1 {
			t.Fatalf("%+v (%v)", got, err)
		}
	})
	if n > 1<<19 {
		t.Errorf("%d bytes allocated to count a million bad lines", n)
	}
}

// mostRoom counts the lines of a scan, and the bytes of its buffer when it is
// longest.
func mostRoom(next func() bool, buf *[]byte) (lines, most int) {
	for ; next(); lines++ {
		most = max(most, len(*buf))
	}
	return lines, most
}

// TestLongLinesReleased checks that memory shrinks after a long line.
func TestLongLinesReleased(t *testing.T) {
	race.Skip(t)
	file := parts{{frameBefore, 1_000_000}, {`{"role":"user","content":"`, 1}, {"x", 8 << 20}, {"\"}\n", 1}, {frameBefore, 1_000_000}}
	var s Scanner
	s.Reset(file, 0, file.size(), 0)
	n, peak := mostRoom(s.Next, &s.buf)
	if n != 2_000_001 || peak < 8<<20 || len(s.buf) > 2*forwardChunk {
		t.Errorf("forward: %d lines, %d bytes at the peak, %d at the end", n, peak, len(s.buf))
	}
	var b BackScanner
	b.Reset(file, file.size(), 0)
	n, peak = mostRoom(b.Next, &b.buf)
	if n != 2_000_001 || peak < 8<<20 || len(b.buf) > 4*BackwardChunk {
		t.Errorf("backward: %d lines, %d bytes at the peak, %d at the end", n, peak, len(b.buf))
	}
}

// TestLongLineRoom checks that a long line gets exactly the memory it needs,
// and a line over the limit gets none.
func TestLongLineRoom(t *testing.T) {
	const long = 40 << 20
	file := parts{{frameBefore, 1}, {"x", long}, {"\n", 1}, {frameBefore, 1}}
	for limit, most := range map[int64]int{long: long, long - 1: 0} {
		var s Scanner
		s.Reset(file, 0, file.size(), limit)
		n, peak := mostRoom(s.Next, &s.buf)
		if n != 3 || peak > max(most+2, 2*farChunks*forwardChunk) {
			t.Errorf("forward, limit %d: %d lines, %d bytes at the peak", limit, n, peak)
		}
		var b BackScanner
		b.Reset(file, file.size(), limit)
		n, peak = mostRoom(b.Next, &b.buf)
		if n != 3 || peak > max(most+2*BackwardChunk, 2*farChunks*BackwardChunk) {
			t.Errorf("backward, limit %d: %d lines, %d bytes at the peak", limit, n, peak)
		}
	}
}

// TestDecodeDoesNotAllocate checks that classifying a line allocates no memory.
func TestDecodeDoesNotAllocate(t *testing.T) {
	for _, line := range []string{
		strings.TrimSpace(frameMeta), `{"compact":"\u0041"}`, `{"meta":{"title":"x","uptime_secs":5}}`, ``, `{"x":[1,{}]}`,
		`{"role":"assistant","content":"a\nb","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}},{}]}`,
		`{"role":"us{"role":"user"}`, `{"role":5}`, "\xff", `{"role":"user","content":"\ud800"}`, `{"\u0072ole":"user"}`, `{"\u0072` + strings.Repeat("x", 110) + `":"user"}`,
		`{"tool_calls":[` + strings.Repeat(`{},`, 10_000) + `{}],"role":"user"}`,
	} {
		var r Record
		b := []byte(line)
		if n := testing.AllocsPerRun(100, func() { r.Decode(b, false); r.Decode(b, true) }); n > 0 {
			t.Errorf("%.60s: %v allocations", line, n)
		}
	}
}

// reads counts the bytes read of a file, and fails at an offset.
type reads struct {
	io.ReaderAt
	bytes, calls int64
	failAt       int64
	err          error
}

func (r *reads) ReadAt(b []byte, off int64) (int, error) {
	r.bytes += int64(len(b))
	r.calls++
	if r.err != nil && off <= r.failAt && r.failAt < off+int64(len(b)) {
		return 0, r.err
	}
	return r.ReaderAt.ReadAt(b, off)
}

// TestContextReads: a context costs its tail, not its file.
func TestContextReads(t *testing.T) {
	body := `{"role":"user","content":"` + strings.Repeat("x", 470) + "\"}\n"
	file := parts{{frameMeta, 1}, {body, 1 << 40}, {"{\"compact\":\"s\"}\n", 1}, {body, 800}}
	r := &reads{ReaderAt: file}
	c, err := ReadContext(r, file.size(), nil)
	if err != nil || len(c.Messages) != 801 || !c.Compacted {
		t.Fatalf("%d messages (%v)", len(c.Messages), err)
	}
	tail := file.size() - c.Start
	if r.bytes > tail+2*BackwardChunk || r.calls > tail/BackwardChunk+4 {
		t.Errorf("%d bytes read in %d calls, for a tail of %d", r.bytes, r.calls, tail)
	}
}

// TestReadErrors: an error of the file is returned, from wherever it comes, and
// so is its end when it comes too early.
func TestReadErrors(t *testing.T) {
	broken := errors.New("broken")
	file := frameMeta + strings.Repeat(frameBefore, 10_000) + "bad\n" + `{"meta":{"title":"x"}}` + "\n" +
		strings.Repeat(frameBefore, 10_000) + `{"compact":"s"}` + "\n"
	size := int64(len(file))
	read := map[string]func(io.ReaderAt, int64) error{
		"lines": func(r io.ReaderAt, size int64) (last error) {
			for _, err := range lines(r, 0, size, 0) {
				last = err
			}
			return last
		},
		"count": func(r io.ReaderAt, size int64) error {
			var c Counter
			_, err := c.Count(r, size, 0)
			return err
		},
		"context": func(r io.ReaderAt, size int64) error {
			_, err := ReadContext(r, size, nil)
			return err
		},
		"lenient": func(r io.ReaderAt, size int64) error {
			_, err := ReadContext(r, size-16, &ReadOptions{Lenient: true})
			return err
		},
		"strict": func(r io.ReaderAt, size int64) error {
			_, err := ReadContext(r, size-16, nil)
			if _, ok := errors.AsType[*record.FormatError](err); ok {
				return nil
			}
			return err
		},
	}
	for name, f := range read {
		if err := f(strings.NewReader(file), size); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, at := range []int64{0, size / 4, size - 20} {
			r := &reads{ReaderAt: strings.NewReader(file), failAt: at, err: broken}
			if name == "context" && at == size/4 {
				continue // it is not read
			}
			if err := f(r, size); !errors.Is(err, broken) {
				t.Errorf("%s: error at %d: %v", name, at, err)
			}
		}
		err := f(strings.NewReader(file[:size/2]), size)
		if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "shrank") {
			t.Errorf("%s of half a file: %v", name, err)
		}
	}
	// The reader of numbers alone.
	for off := range int64(3) {
		r := &reads{ReaderAt: strings.NewReader("x\nx\nx\n"), failAt: off, err: broken}
		if _, err := newlines(r, off, 6); !errors.Is(err, broken) {
			t.Errorf("newlines from %d: %v", off, err)
		}
	}
}

// lines are numbered from the beginning of r.
func lines(r io.ReaderAt, from, to, limit int64) iter.Seq2[Line, error] {
	return Numbered(r, from, 0, to, limit)
}
