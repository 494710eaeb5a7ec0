package format

import (
	"encoding/binary"
	"fmt"
)

// Verdict classifies the bytes after the last valid batch.
type Verdict uint8

const (
	Clean    Verdict = iota // there are no bytes
	TornTail                // the remains of a write that was never acknowledged
	Corrupt                 // corruption: a later frame has a synced_to after these bytes
)

func (v Verdict) String() string { return [...]string{"clean", "torn", "corrupt"}[v] }

// LogScan is the content of a log.
type LogScan struct {
	LogHeader
	Frames  []Frame // complete batches only, in order
	End     int64   // of the last of them
	Verdict Verdict // of the bytes from end on
	Why     string  // rule that the bytes at Bad break
	Bad     int64   // offset of the first byte that is not as it should be
}

// Ops returns how many operations the log holds.
func (s *LogScan) Ops() int {
	n := 0
	for i := range s.Frames {
		if s.Frames[i].Type != FrameCheckpoint {
			n++
		}
	}
	return n
}

// Writer returns a writer for the end of the log.
func (s *LogScan) Writer() LogWriter {
	w := s.LogHeader.Writer()
	w.End = s.End
	for i := range s.Frames {
		f := &s.Frames[i]
		w.prev = f.crc
		if f.Type != FrameCheckpoint {
			w.Seq++
			w.Last = Place{w.Epoch, f.Seq, 0}
		}
	}
	if w.Seq > s.Seq {
		w.Last.CRC = s.lastOp().RecordCRC()
	}
	return w
}

// Covers returns the sequence number that the snapshot of a digest covers, and
// false if no point of the log names it.
func (s *LogScan) Covers(dig Digest) (seq uint64, ok bool) {
	if s.Base == dig {
		seq, ok = s.Seq-1, true
	}
	for i := range s.Frames {
		f := &s.Frames[i]
		if f.Type == FrameCheckpoint && ReadDigest(f.Payload) == dig {
			seq, ok = binary.LittleEndian.Uint64(f.Payload[DigestSize:]), true
		}
	}
	return seq, ok
}

// lastOp returns the last operation of the log, or nil.
func (s *LogScan) lastOp() *Frame {
	for i := len(s.Frames) - 1; i >= 0; i-- {
		if f := &s.Frames[i]; f.Type != FrameCheckpoint {
			return f
		}
	}
	return nil
}

// ScanLog reads a log. It returns an error if the header is corrupt, or if a
// valid frame is not understood (W5). Such a log must not be truncated.
func ScanLog(b []byte) (*LogScan, error) {
	h, err := ReadLogHeader(b)
	if err != nil {
		return nil, err
	}
	s := &LogScan{LogHeader: h, End: LogHeaderSize, Bad: LogHeaderSize}
	w := s.Writer()
	batch := 0 // frames of s.frames that belong to complete batches
	for off := int64(LogHeaderSize); off < int64(len(b)); {
		f, why := h.ReadFrame(b, off)
		if why == "" {
			why = w.check(&f, b)
		}
		if why != "" {
			s.Why = why
			break
		}
		if err := f.checkType(); err != nil {
			return nil, err
		}
		if n := len(s.Frames); n > 0 && f.Type == FrameCheckpoint {
			s.Frames[n-1].More = false // a copy without the checkpoint ends the batch there
		}
		s.Frames = append(s.Frames, f)
		off = f.End()
		s.Bad = off
		if !f.More {
			batch, s.End = len(s.Frames), off
		}
	}
	if s.End == int64(len(b)) {
		return s, nil
	}
	if s.Why == "" {
		s.Why = "the log ends inside a batch"
	}
	s.Frames = s.Frames[:batch]
	s.Bad = s.End // a batch is atomic
	s.Verdict = TornTail
	if h.promised(b, s.End) {
		s.Verdict = Corrupt
	}
	return s, nil
}

// ScanPrefix is ScanLog, except that with an error it returns the scan of the
// bytes before the frame that is not understood. The scan is nil if b is not a
// log.
func ScanPrefix(b []byte) (*LogScan, error) {
	scan, err := ScanLog(b)
	if off := OffsetOf(err); err != nil && off >= LogHeaderSize {
		scan, _ = ScanLog(b[:off])
	}
	return scan, err
}

// ReadFrame reads the frame at b[off:] as far as it can be judged without its
// checksum. If it is invalid, why is the reason.
func (h *LogHeader) ReadFrame(b []byte, off int64) (f Frame, why string) {
	return h.parseFrame(b[off:], off)
}

// parseFrame is ReadFrame for the bytes p of the log from offset off on.
func (h *LogHeader) parseFrame(p []byte, off int64) (f Frame, why string) {
	switch {
	case len(p) < FrameHeader:
		return f, fmt.Sprintf("%d bytes, shorter than a frame's header", len(p))
	case p[0]&^FrameMore == 0:
		return f, fmt.Sprintf("frame type %#02x", p[0])
	case p[1] != 0:
		return f, "the byte after the frame type is not zero"
	}
	n := binary.LittleEndian.Uint32(p[frameOffLen:])
	nc := uint32(binary.LittleEndian.Uint16(p[frameOffContext:]))
	synced := binary.LittleEndian.Uint64(p[frameOffSynced:])
	switch {
	case uint64(n) > uint64(len(p)-FrameHeader):
		return f, fmt.Sprintf("a frame of %d bytes, %d left", n, len(p)-FrameHeader)
	case nc > n:
		return f, fmt.Sprintf("a context of %d bytes in a frame of %d", nc, n)
	case synced < LogHeaderSize || synced > uint64(off):
		return f, fmt.Sprintf("synced_to %d, outside the log before the frame", synced)
	}
	return Frame{
		Offset:  off,
		Type:    p[0] &^ FrameMore,
		More:    p[0]&FrameMore != 0,
		Seq:     binary.LittleEndian.Uint64(p[frameOffSeq:]),
		prev:    binary.LittleEndian.Uint32(p[frameOffPrev:]),
		crc:     binary.LittleEndian.Uint32(p[frameOffCRC:]),
		Context: p[FrameHeader : FrameHeader+nc : FrameHeader+nc],
		Payload: p[FrameHeader+nc : FrameHeader+int64(n) : FrameHeader+int64(n)],
	}, ""
}

// check returns why a frame is not the next one of the log. If it is, check
// advances the writer past it and returns "".
func (w *LogWriter) check(f *Frame, b []byte) string {
	if got := frameCRC(w.Salt, f.Offset, b[f.Offset:f.End()]); got != f.crc {
		return fmt.Sprintf("the frame's checksum is %08x, its bytes give %08x", f.crc, got)
	}
	if f.prev != w.prev {
		return fmt.Sprintf("the frame follows one with checksum %08x, not %08x", f.prev, w.prev)
	}
	seq := w.Seq
	if f.Type == FrameCheckpoint {
		seq--
	}
	if f.Seq != seq {
		return fmt.Sprintf("sequence number %d, expected %d", f.Seq, seq)
	}
	if f.Type != FrameCheckpoint {
		w.Seq++
	}
	w.prev = f.crc
	return ""
}

// promised reports whether a valid frame after offset bad has a synced_to above
// bad. It tries every offset, because an invalid frame does not determine where
// the next one begins.
func (h *LogHeader) promised(b []byte, bad int64) bool {
	// A file made to look like frames at every offset would cost the square of
	// its length in checksums. No tear does; such a file counts as corrupt.
	budget := 64 * (int64(len(b)) + 1<<20)
	for off := bad; off+FrameHeader <= int64(len(b)); off++ {
		p := b[off:]
		if p[0]&^FrameMore == 0 || p[1] != 0 {
			continue
		}
		n := uint64(binary.LittleEndian.Uint32(p[frameOffLen:]))
		synced := binary.LittleEndian.Uint64(p[frameOffSynced:])
		if n > uint64(len(p)-FrameHeader) || uint64(binary.LittleEndian.Uint16(p[frameOffContext:])) > n ||
			synced <= uint64(bad) || synced > uint64(off) {
			continue // as readFrame, which would word the reason
		}
		end := FrameHeader + int64(n)
		if budget -= end; budget < 0 {
			return true
		}
		if frameCRC(h.Salt, off, p[:end]) == binary.LittleEndian.Uint32(p[frameOffCRC:]) {
			return true
		}
	}
	return false
}

// Precedes reports whether the snapshot that another log extends contains the
// operations of s up to that log's first: the other log names a snapshot of s,
// or continues its epoch.
func (s *LogScan) Precedes(other *LogScan) bool {
	if seq, ok := s.Covers(other.Base); ok && seq == other.Seq-1 {
		return true
	}
	if other.Before.Epoch != s.Epoch || other.Epoch != s.Epoch {
		return false
	}
	for i := range s.Frames {
		if f := &s.Frames[i]; f.Type != FrameCheckpoint && f.Seq == other.Before.Seq {
			return f.RecordCRC() == other.Before.CRC
		}
	}
	return true
}
