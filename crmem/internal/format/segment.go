package format

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// SegmentName and BaseName are the names of files of a history.
func SegmentName(n uint64) string { return fmt.Sprintf("%08d%s", n, segmentSuffix) }

// BaseName returns the name of the base with a digest.
func BaseName(d Digest) string { return hex.EncodeToString(d.Append(nil)) + baseSuffix }

const (
	segmentSuffix = ".log"
	baseSuffix    = ".crmem"
)

// ParseSegmentName returns the number of a segment, whether it is compressed or not. It
// returns false for any other name.
func ParseSegmentName(name string) (n uint64, ok bool) {
	name = strings.TrimSuffix(name, CompressedSuffix)
	n, err := strconv.ParseUint(strings.TrimSuffix(name, segmentSuffix), 10, 63)
	return n, err == nil && name == SegmentName(n)
}

// ParseBaseName returns the digest in the name of a base. It returns false for any
// other name.
func ParseBaseName(name string) (d Digest, ok bool) {
	digits, ok := strings.CutSuffix(name, baseSuffix)
	b, err := hex.DecodeString(digits)
	if !ok || err != nil || len(b) != DigestSize {
		return d, false
	}
	d = ReadDigest(b)
	return d, name == BaseName(d)
}

// Tail returns a writer for the end of a log, of which b is the last bytes, from
// offset at. It returns false unless the last frame is the operation last and ends
// a batch.
func (h *LogHeader) Tail(b []byte, at int64, last Place) (LogWriter, bool) {
	if h.Epoch != last.Epoch {
		return LogWriter{}, false
	}
	for off := len(b) - FrameHeader; off >= 0; off-- {
		p := b[off:]
		n := binary.LittleEndian.Uint32(p[frameOffLen:])
		if uint64(n) != uint64(len(p)-FrameHeader) || binary.LittleEndian.Uint64(p[frameOffSeq:]) != last.Seq {
			continue
		}
		context := int(binary.LittleEndian.Uint16(p[frameOffContext:]))
		typ := p[0]
		if context > int(n) || typ&FrameMore != 0 || typ == FrameCheckpoint {
			continue
		}
		crc := frameCRC(h.Salt, at+int64(off), p)
		if crc != binary.LittleEndian.Uint32(p[frameOffCRC:]) ||
			recordCRC(last.Seq, typ, Record(View(p[FrameHeader:FrameHeader+context])), Record(View(p[FrameHeader+context:]))) != last.CRC {
			continue
		}
		return LogWriter{Salt: h.Salt, prev: crc, End: at + int64(len(b)), Seq: last.Seq + 1, Epoch: h.Epoch, Last: last}, true
	}
	return LogWriter{}, false
}

// Find returns the index of the frame of the operation at a place, or -1.
func (s *LogScan) Find(p Place) int {
	for i := range s.Frames {
		f := &s.Frames[i]
		if f.Type != FrameCheckpoint && f.Seq == p.Seq && s.Epoch == p.Epoch && f.RecordCRC() == p.CRC {
			return i
		}
	}
	return -1
}

// EntryID returns the id of the entry that an operation changes.
func (f *Frame) EntryID() uint64 {
	if f.Type == FrameCheckpoint || len(f.Payload) < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(f.Payload)
}
