package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"

	"github.com/klauspost/compress/zstd"
)

// A compressed segment (FORMAT.md, "Compressed segment").
const (
	CompressedSuffix = ".zst"

	maxContent  = 128 << 10      // bytes of the segment in a frame
	maxOverhead = 1 << 10        // of a frame
	maxFrames   = 1<<15 + 3      // in a file
	tableMagic  = 0x184D2A5E     // of a skippable frame of zstd
	tableEnd    = 0x8F92EAB1     // last bytes of a file in the seekable format of zstd
	tableHead   = 8              // magic, length
	tableEntry  = 8              // sizes of a frame in the file and of its content
	tableFoot   = 9              // number of frames, flags, magic
	firstRead   = 4096           // bytes that contain most tables
	maxSegment  = math.MaxUint32 // bytes of a segment that may be compressed
)

// NewCompressor returns an encoder for Compress. It has no goroutine, so it needs no
// Close. Creating one takes 0.8 ms.
func NewCompressor() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithSingleSegment(true),
		zstd.WithWindowSize(maxContent), zstd.WithEncoderCRC(true))
}

// Compress returns the compressed file of a complete segment, of which s is the scan
// and b contains the bytes. The header and the last operation begin frames, because
// readers often need only those.
func (s *LogScan) Compress(w *zstd.Encoder, b []byte) ([]byte, error) {
	if s.Verdict != Clean || s.End != int64(len(b)) || s.End > maxSegment {
		return nil, errors.New("compress a segment: it is damaged or too large")
	}
	last := s.End
	if f := s.lastOp(); f != nil {
		last = f.Offset
	}
	out := make([]byte, 0, len(b)/2)
	var table []byte
	for at := int64(0); at < s.End; {
		end := s.End
		for _, cut := range []int64{last, LogHeaderSize} {
			if at < cut {
				end = cut
			}
		}
		end = min(end, at+maxContent)
		start := len(out)
		out = w.EncodeAll(b[at:end], out)
		table = binary.LittleEndian.AppendUint32(table, uint32(len(out)-start))
		table = binary.LittleEndian.AppendUint32(table, uint32(end-at))
		at = end
	}
	out = binary.LittleEndian.AppendUint32(out, tableMagic)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(table)+tableFoot))
	out = append(out, table...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(table)/tableEntry))
	out = append(out, 0)
	return binary.LittleEndian.AppendUint32(out, tableEnd), nil
}

// CompressedReader reads the bytes of a segment from its compressed file. It is not
// safe for concurrent use.
type CompressedReader struct {
	r       io.ReaderAt
	decoder *zstd.Decoder // has no goroutine, so it needs no Close
	frames  []frameEnd
	buf     []byte // of the frame that was decoded last
	loaded  int    // its number, or -1
	data    []byte // its content
}

// frameEnd contains the end offsets of a frame in the file and of its content in the
// segment.
type frameEnd struct{ file, content int64 }

// OpenCompressed reads the seek table of a compressed file of size bytes. The error is
// a *Error if the table is invalid.
func OpenCompressed(r io.ReaderAt, size int64) (*CompressedReader, error) {
	fail := func(off int64, field, format string, args ...any) (*CompressedReader, error) {
		return nil, &Error{Offset: off, Entry: -1, Field: field, Msg: fmt.Sprintf(format, args...)}
	}
	if size < tableHead+tableFoot {
		return fail(size, "seek table", "the file has %d bytes, less than a seek table", size)
	}
	b := make([]byte, min(size, firstRead))
	if err := readFull(r, b, size-int64(len(b))); err != nil {
		return nil, err
	}
	foot := b[len(b)-tableFoot:]
	n := int64(binary.LittleEndian.Uint32(foot))
	length := tableHead + n*tableEntry + tableFoot
	switch {
	case binary.LittleEndian.Uint32(foot[5:]) != tableEnd:
		return fail(size-4, "seek table magic", "the file does not end with a seek table")
	case foot[4] != 0:
		return fail(size-5, "seek table flags", "unknown flags %#02x", foot[4])
	case n == 0 || n > maxFrames || length > size:
		return fail(size-tableFoot, "frame count", "%d frames in a file of %d bytes", n, size)
	}
	if length > int64(len(b)) {
		b = make([]byte, length)
		if err := readFull(r, b, size-length); err != nil {
			return nil, err
		}
	}
	b = b[int64(len(b))-length:]
	start := size - length // of the table
	if magic, got := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]); magic != tableMagic || int64(got) != length-tableHead {
		return fail(start, "seek table", "a frame with magic %#08x and %d bytes, not %d", magic, got, length-tableHead)
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxContent),
		zstd.WithDecoderMaxWindow(maxContent), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	c := &CompressedReader{r: r, decoder: d, frames: make([]frameEnd, n), loaded: -1}
	var end frameEnd
	for i := range c.frames {
		e := b[tableHead+i*tableEntry:]
		file, content := int64(binary.LittleEndian.Uint32(e)), int64(binary.LittleEndian.Uint32(e[4:]))
		if content == 0 || content > maxContent || file == 0 || file > content+maxOverhead {
			return fail(start+tableHead+int64(i)*tableEntry, "frame size", "frame %d has %d bytes with a content of %d bytes", i, file, content)
		}
		end.file, end.content = end.file+file, end.content+content
		c.frames[i] = end
	}
	if end.file != start || end.content > maxSegment {
		return fail(start, "frame sizes", "the frames have %d bytes with a content of %d bytes, the table begins at %d", end.file, end.content, start)
	}
	return c, nil
}

// readFull reads len(b) bytes at an offset.
func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %d of %d bytes at %d: %w", n, len(b), off, err)
}

// Size returns the number of bytes of the segment.
func (c *CompressedReader) Size() int64 { return c.frames[len(c.frames)-1].content }

// ReadAt reads bytes of the segment. The error is a *Error with the offset of a frame
// in the file if that frame is invalid.
func (c *CompressedReader) ReadAt(b []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("read at %d: negative offset", off)
	}
	for n < len(b) {
		at := off + int64(n)
		i := sort.Search(len(c.frames), func(i int) bool { return c.frames[i].content > at })
		if i == len(c.frames) {
			return n, io.EOF
		}
		if err := c.load(i); err != nil {
			return n, err
		}
		n += copy(b[n:], c.data[at-c.begin(i).content:])
	}
	return n, nil
}

// begin returns the offsets at which frame i and its content begin.
func (c *CompressedReader) begin(i int) frameEnd {
	if i == 0 {
		return frameEnd{}
	}
	return c.frames[i-1]
}

// load decodes frame i, unless it was decoded last.
func (c *CompressedReader) load(i int) error {
	if i == c.loaded {
		return nil
	}
	begin, end := c.begin(i), c.frames[i]
	want := int(end.content - begin.content)
	fail := func(format string, args ...any) error {
		return &Error{Offset: begin.file, Entry: -1, Field: "compressed frame", Msg: fmt.Sprintf(format, args...)}
	}
	if cap(c.data) < want {
		c.data = make([]byte, 0, want)
		c.buf = make([]byte, want+maxOverhead)
	}
	c.loaded = -1
	b := c.buf[:end.file-begin.file]
	if err := readFull(c.r, b, begin.file); err != nil {
		return err
	}
	var h zstd.Header
	if err := h.Decode(b); err != nil {
		return fail("%v", err)
	}
	if h.Skippable || !h.HasFCS || h.FrameContentSize != uint64(want) || !h.HasCheckSum {
		return fail("the frame has no checksum, or a content of %d bytes, not %d", h.FrameContentSize, want)
	}
	data, err := c.decoder.DecodeAll(b, c.data[:0:want])
	if err != nil {
		return fail("%v", err)
	}
	if len(data) != want {
		return fail("the content has %d bytes, not %d", len(data), want)
	}
	c.data, c.loaded = c.data[:want], i
	copy(c.data, data) // no effect unless the decoder allocated
	return nil
}
