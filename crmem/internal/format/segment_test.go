package format

import (
	"bytes"
	"strings"
	"testing"
)

// TestSegmentNames parses the names of segments.
func TestSegmentNames(t *testing.T) {
	for _, n := range []uint64{1, 12345678, 123456789, 1<<63 - 1} {
		if got, ok := ParseSegmentName(SegmentName(n)); !ok || got != n {
			t.Errorf("%s: %d, %t", SegmentName(n), got, ok)
		}
		if got, ok := ParseSegmentName(SegmentName(n) + CompressedSuffix); !ok || got != n {
			t.Errorf("compressed %s: %d, %t", SegmentName(n), got, ok)
		}
	}
	for _, name := range []string{SegmentName(1 << 63), "00000001.zst", "00000001.log.zst.zst", "1.log.zst", "00000001.log.zs", "1.log", "000000001.log", "00000001.log2", "00000001", "x.log", "-0000001.log", "", "99999999999999999999999.log"} {
		if n, ok := ParseSegmentName(name); ok {
			t.Errorf("%s: %d", name, n)
		}
	}
}

// TestBaseNames parses the names of bases.
func TestBaseNames(t *testing.T) {
	d := DigestOf([]byte("a snapshot"))
	name := BaseName(d)
	if got, ok := ParseBaseName(name); !ok || got != d {
		t.Errorf("%s: %v, %t", name, got, ok)
	}
	for _, name := range []string{strings.ToUpper(name[:32]) + name[32:], name[2:], "00" + name, "zz" + name[2:], name[:32], name + "x", ".crmem", ""} {
		if d, ok := ParseBaseName(name); ok {
			t.Errorf("%s: %v", name, d)
		}
	}
}

// TestTail looks for the last operation in the last bytes of a log.
func TestTail(t *testing.T) {
	h := LogHeader{Salt: 1, Seq: 1, Store: NewID(), Epoch: NewID()}
	b := h.Append(nil)
	w := h.Writer()
	r := NewRecord(1, 0, KindNote, "name", "content", nil)
	b = w.AppendFrame(b, FramePut, w.End, "", r)
	before := int64(len(b))
	beforeLast := w
	b = w.AppendFrame(b, FramePut, w.End, "", r)
	for _, at := range []int64{LogHeaderSize, LogHeaderSize + 1, before} {
		if got, ok := h.Tail(b[at:], at, w.Last); !ok || got != w {
			t.Errorf("from offset %d: %+v, %t, want %+v", at, got, ok, w)
		}
	}
	wrong := func(name string, b []byte, at int64, last Place) {
		t.Helper()
		if got, ok := h.Tail(b[at:], at, last); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
	wrong("earlier operation", b, before, beforeLast.Last)
	wrong("half a frame", b, before+1, w.Last)
	wrong("other offset", append([]byte{0}, b...), before+1, w.Last)
	wrong("more bytes", append(bytes.Clone(b), 0), before, w.Last)
	other := w.Last
	other.CRC++
	wrong("other checksum", b, before, other)
	other = w.Last
	other.Epoch = NewID()
	wrong("other epoch", b, before, other)
	for at := before; at < int64(len(b)); at++ {
		c := bytes.Clone(b)
		c[at]++
		wrong("changed byte", c, before, w.Last)
	}
	more := beforeLast
	wrong("incomplete batch", more.AppendFrame(bytes.Clone(b[:before]), FramePut|FrameMore, more.End, "", r), before, more.Last)
}
