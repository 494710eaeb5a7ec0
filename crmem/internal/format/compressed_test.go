package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// segmentOf returns a segment with operations of the given sizes, and its scan.
func segmentOf(t testing.TB, r *rand.Rand, sizes ...int) ([]byte, *LogScan) {
	t.Helper()
	h := LogHeader{Salt: r.Uint64(), Seq: 1, Store: NewID(), Epoch: NewID()}
	b := h.Append(nil)
	w := h.Writer()
	for i, n := range sizes {
		text := make([]byte, n)
		for k := range text {
			text[k] = 'a' + byte(r.IntN(3+i%20))
		}
		b = w.AppendFrame(b, FramePut, w.End, "", NewRecord(uint64(i+1), 0, KindNote, fmt.Sprint(i), string(text), nil))
	}
	scan, err := ScanLog(b)
	if err != nil || scan.Verdict != Clean {
		t.Fatal(err, scan)
	}
	return b, scan
}

func compressor(t testing.TB) *zstd.Encoder {
	t.Helper()
	w, err := NewCompressor()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func compressed(t testing.TB, b []byte, scan *LogScan) []byte {
	t.Helper()
	z, err := scan.Compress(compressor(t), b)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// readCompressed reads the content of a compressed file.
func readCompressed(z []byte) ([]byte, error) {
	c, err := OpenCompressed(bytes.NewReader(z), int64(len(z)))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	if err == nil && int64(len(b)) != c.Size() {
		err = fmt.Errorf("read %d of %d bytes", len(b), c.Size())
	}
	return b, err
}

// TestCompressed compresses segments. The library decodes the complete file to the
// segment, and a reader gets the same bytes at any offset.
func TestCompressed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	before := runtime.NumGoroutine()
	for _, sizes := range [][]int{nil, {1}, {100, 100}, {200_000}, {1000, 300_000, 50}, {131_072 - 112 - 60, 7}, slicesOf(700, 500), slicesOf(3, 131_072)} {
		b, scan := segmentOf(t, r, sizes...)
		z := compressed(t, b, scan)
		d, err := zstd.NewReader(bytes.NewReader(z))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(d); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%d operations: the library decodes %d of %d bytes: %v", len(sizes), len(got), len(b), err)
		}
		d.Close()
		c, err := OpenCompressed(bytes.NewReader(z), int64(len(z)))
		if err != nil || c.Size() != int64(len(b)) {
			t.Fatalf("%d operations: %v", len(sizes), err)
		}
		if sizes != nil && c.frames[0].content != LogHeaderSize {
			t.Errorf("the first frame has %d bytes", c.frames[0].content)
		}
		for range 200 {
			at := r.IntN(len(b) + 1)
			part := make([]byte, r.IntN(len(b)-at+3))
			n, err := c.ReadAt(part, int64(at))
			if want := min(len(part), len(b)-at); n != want || !bytes.Equal(part[:n], b[at:at+n]) || (err == io.EOF) != (n < len(part)) {
				t.Fatalf("%d of %d bytes at %d: %v", n, len(part), at, err)
			}
		}
		if _, err := c.ReadAt(make([]byte, 1), -1); err == nil {
			t.Error("read at offset -1")
		}
	}
	if now := runtime.NumGoroutine(); now > before {
		t.Errorf("%d goroutines, %d before", now, before)
	}
}

func slicesOf(n, size int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = size
	}
	return list
}

// TestCompressRefuses compresses segments that are not complete.
func TestCompressRefuses(t *testing.T) {
	b, _ := segmentOf(t, rand.New(rand.NewPCG(2, 1)), 100, 100)
	for _, cut := range [][]byte{b[:len(b)-1], append(bytes.Clone(b), 0)} {
		torn, err := ScanLog(cut)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := torn.Compress(compressor(t), cut); err == nil {
			t.Errorf("compressed %d of %d bytes", len(cut), len(b))
		}
	}
}

// TestCompressedBytes changes, removes, and appends bytes of a compressed file. A
// reader returns the bytes of the segment, or an error with an offset.
func TestCompressedBytes(t *testing.T) {
	b, scan := segmentOf(t, rand.New(rand.NewPCG(3, 1)), 400, 3000, 30)
	z := compressed(t, b, scan)
	unnoticed := 0
	check := func(what string, at int, z []byte) {
		t.Helper()
		got, err := readCompressed(z)
		e, ok := errors.AsType[*Error](err)
		switch {
		case err == nil && bytes.Equal(got, b):
			unnoticed++ // the file has the same content
		case !ok || e.Offset < 0 || e.Offset > int64(len(z)) || e.Entry != -1 || e.Field == "":
			t.Fatalf("%s %d: %d bytes, %v", what, at, len(got), err)
		case !bytes.HasPrefix(b, got):
			t.Fatalf("%s %d: %d bytes of another segment", what, at, len(got))
		}
	}
	for at := range z {
		if at > 300 && at < len(z)-300 && at%97 > 0 {
			continue
		}
		for _, bit := range []byte{1, 0x10, 0x80, 0xff} {
			c := bytes.Clone(z)
			c[at] ^= bit
			check("change", at, c)
		}
		check("truncate", at, z[:at])
		check("remove", at, append(bytes.Clone(z[:at]), z[at+1:]...))
	}
	if unnoticed > 60 {
		t.Errorf("%d changes have no effect", unnoticed)
	}
	for n := range 20 {
		check("append", n, append(bytes.Clone(z), make([]byte, n+1)...))
	}
}

// file returns a compressed file with frames and their declared contents.
func file(frames [][]byte, contents ...uint32) []byte {
	var out, table []byte
	for i, f := range frames {
		out = append(out, f...)
		table = binary.LittleEndian.AppendUint32(table, uint32(len(f)))
		table = binary.LittleEndian.AppendUint32(table, contents[i])
	}
	out = binary.LittleEndian.AppendUint32(out, tableMagic)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(table)+tableFoot))
	out = append(out, table...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(frames)))
	return binary.LittleEndian.AppendUint32(append(out, 0), tableEnd)
}

// TestCompressedHostile reads files that declare too much, or other sizes than they
// have. The errors come before memory is allocated.
func TestCompressedHostile(t *testing.T) {
	encode := func(n int, opts ...zstd.EOption) []byte {
		w, err := zstd.NewWriter(nil, append([]zstd.EOption{zstd.WithEncoderConcurrency(1)}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		return w.EncodeAll(make([]byte, n), nil)
	}
	bomb, small := encode(16<<20), encode(100)
	unsized := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x00, 0x01, 0, 0}, 0x99, 0xe9, 0xd8, 0x51) // no content size
	skippable := append([]byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0}, "skip"...)
	many := file([][]byte{small}, 100)
	binary.LittleEndian.PutUint32(many[len(many)-tableFoot:], 1<<32-1)
	flags := file([][]byte{small}, 100)
	flags[len(flags)-5] = 0x80
	for name, c := range map[string]struct {
		z     []byte
		field string
	}{
		"content over the limit":     {file([][]byte{bomb}, 16<<20), "frame size"},
		"content below the frame's":  {file([][]byte{encode(300)}, 100), "compressed frame"},
		"content above the frame's":  {file([][]byte{small}, 101), "compressed frame"},
		"empty content":              {file([][]byte{encode(0)}, 0), "frame size"},
		"empty frame":                {file([][]byte{nil}, 1), "frame size"},
		"frame over the limit":       {file([][]byte{append(bytes.Clone(small), make([]byte, 2000)...)}, 100), "frame size"},
		"frame and other bytes":      {file([][]byte{append(bytes.Clone(small), 1, 2, 3, 4, 5)}, 100), "compressed frame"},
		"two frames":                 {file([][]byte{append(bytes.Clone(small), small...)}, 100), "compressed frame"},
		"no checksum":                {file([][]byte{encode(100, zstd.WithEncoderCRC(false))}, 100), "compressed frame"},
		"no content size":            {file([][]byte{unsized}, 0x10000), "compressed frame"},
		"skippable frame":            {file([][]byte{skippable}, 4), "compressed frame"},
		"no frames":                  {file(nil), "frame count"},
		"frames beyond the file":     {many, "frame count"},
		"flags":                      {flags, "seek table flags"},
		"bytes before the frames":    {append([]byte("x"), file([][]byte{small}, 100)...), "frame sizes"},
		"a table without its header": {file([][]byte{small}, 100)[len(small)+8:], "frame count"},
		"other magic of the table":   {bytes.Replace(file([][]byte{small}, 100), []byte{0x5e, 0x2a, 0x4d, 0x18}, []byte{0x5d, 0x2a, 0x4d, 0x18}, 1), "seek table"},
		"no table":                   {[]byte(strings.Repeat("x", 100)), "seek table magic"},
		"short file":                 {[]byte("x"), "seek table"},
	} {
		var m1, m2 runtime.MemStats
		runtime.ReadMemStats(&m1)
		got, err := readCompressed(c.z)
		runtime.ReadMemStats(&m2)
		if e, ok := errors.AsType[*Error](err); !ok || e.Field != c.field || e.Offset < 0 || e.Offset > int64(len(c.z)) || len(got) > 0 {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if n := m2.TotalAlloc - m1.TotalAlloc; n > 2<<20 {
			t.Errorf("%s: allocated %d bytes", name, n)
		}
	}
	if _, err := OpenCompressed(bytes.NewReader(nil), 100); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("file shorter than its size: %v", err)
	}
	sections := file([][]byte{small}, 100)
	c, err := OpenCompressed(io.NewSectionReader(bytes.NewReader(sections), 0, int64(len(sections))), int64(len(sections)))
	if err != nil {
		t.Fatal(err)
	}
	c.r = bytes.NewReader(nil) // truncated after it was opened
	if _, err := c.ReadAt(make([]byte, 1), 0); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("truncated file: %v", err)
	}
}

// FuzzCompressed reads arbitrary bytes as a compressed file. The parts that it reads at
// random offsets agree with the complete content.
func FuzzCompressed(f *testing.F) {
	r := rand.New(rand.NewPCG(4, 1))
	for _, sizes := range [][]int{{1}, {300, 40}, {140_000, 30}} {
		b, scan := segmentOf(f, r, sizes...)
		z := compressed(f, b, scan)
		f.Add(z, uint32(7))
		f.Add(z[:len(z)-1], uint32(0))
	}
	f.Fuzz(func(t *testing.T, z []byte, at uint32) {
		c, err := OpenCompressed(bytes.NewReader(z), int64(len(z)))
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatal(err)
			}
			return
		}
		if c.Size() > 1<<20 {
			return
		}
		all, rerr := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
		if e, ok := errors.AsType[*Error](rerr); rerr != nil && (!ok || e.Offset > int64(len(z))) {
			t.Fatal(rerr)
		}
		off := int64(at) % c.Size()
		part := make([]byte, min(c.Size()-off, 5000))
		n, err := c.ReadAt(part, off)
		if rerr == nil && (err != nil || n != len(part)) {
			t.Fatalf("%d of %d bytes at %d: %v", n, len(part), off, err)
		}
		if end := min(off+int64(n), int64(len(all))); off < end && !bytes.Equal(part[:end-off], all[off:end]) {
			t.Fatalf("other bytes at %d", off)
		}
	})
}
