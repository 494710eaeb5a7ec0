package format

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"time"
)

// The log (FORMAT.md, "Log").
const (
	LogMagic   = "CRWAL\x00"
	LogVersion = 2

	walOffVersion   = 6
	walOffSalt      = 8
	walOffBase      = 16
	LogOffSeq       = 32
	walOffReserved  = 40
	walOffCRC       = 44
	logHeaderStart  = 48 // end of the fields that every version has
	walOffStore     = 48
	walOffEpoch     = 64
	walOffPrevEpoch = 80
	walOffPrevSeq   = 96
	walOffPrevCRC   = 104
	walOffCRC2      = 108
	LogHeaderSize   = 112
)

// A frame of the log (FORMAT.md, "Frame").
const (
	frameOffContext = 2
	frameOffLen     = 4
	frameOffSeq     = 8
	frameOffSynced  = 16
	frameOffPrev    = 24
	frameOffCRC     = 28
	FrameHeader     = 32
)

// Frame types. Zero is not a type, so a hole in the file is never a valid
// frame.
const (
	FramePut        = 1 // payload: a record, as in the snapshot
	FrameAlias      = 2 // payload: id u64, count u32, aliases
	FrameRemove     = 3 // payload: id u64
	FrameCheckpoint = 4 // payload: digest, seq u64
	FramePurge      = 5 // payload: id u64
	FramePurged     = 6 // payload: id u64
	FrameRename     = 7 // payload: id u64, len u32, name
	FrameMore       = 0x80
)

// maxSeq is far above the number of any operation, and far from overflow.
const maxSeq = 1 << 62

// ID is a random value that no other store or history has: the identity
// of a store, or an epoch. The zero value is unset.
type ID [16]byte

func NewID() (id ID) {
	for id == (ID{}) {
		rand.Read(id[:]) // crypto/rand: never fails
	}
	return id
}

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Place identifies an operation in the history of a store. Zero is unknown.
type Place struct {
	Epoch ID
	Seq   uint64
	CRC   uint32 // record checksum (FORMAT.md)
}

// LogHeader is the header of a log.
type LogHeader struct {
	Salt   uint64
	Base   Digest // of the snapshot that the log extends
	Seq    uint64 // of the first operation in the log
	Store  ID
	Epoch  ID
	Before Place  // of the last operation before the log
	crc    uint32 // the first frame's prev
}

// Prune marks the header of a segment, so that readers ignore the operations before the
// segment (FORMAT.md, H13). If all is set, they also ignore its operations.
func (h *LogHeader) Prune(all bool) {
	h.Before = Place{Epoch: h.Store}
	if all {
		h.Before.Seq = h.Seq
	}
}

// Pruned returns the marks that Prune set.
func (h *LogHeader) Pruned() (before, all bool) {
	before = h.Before.Epoch == h.Store
	return before, before && h.Before.Seq == h.Seq
}

// Append appends the header to b and sets h.crc.
func (h *LogHeader) Append(b []byte) []byte {
	start := len(b)
	b = append(b, LogMagic...)
	b = binary.LittleEndian.AppendUint16(b, LogVersion)
	b = binary.LittleEndian.AppendUint64(b, h.Salt)
	b = h.Base.Append(b)
	b = binary.LittleEndian.AppendUint64(b, h.Seq)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], Castagnoli()))
	b = append(b, h.Store[:]...)
	b = append(b, h.Epoch[:]...)
	b = append(b, h.Before.Epoch[:]...)
	b = binary.LittleEndian.AppendUint64(b, h.Before.Seq)
	b = binary.LittleEndian.AppendUint32(b, h.Before.CRC)
	h.crc = crc32.Checksum(b[start:], Castagnoli())
	return binary.LittleEndian.AppendUint32(b, h.crc)
}

// Writer returns a writer for a log that has only this header.
func (h *LogHeader) Writer() LogWriter {
	return LogWriter{Salt: h.Salt, prev: h.crc, End: LogHeaderSize, Seq: h.Seq, Epoch: h.Epoch, Last: h.Before}
}

func headerError(off int, field, format string, args ...any) error {
	return &Error{Offset: int64(off), Entry: -1, Field: field, Msg: fmt.Sprintf(format, args...)}
}

func ReadLogHeader(b []byte) (h LogHeader, err error) {
	if len(b) < logHeaderStart {
		return h, headerError(len(b), "log header", "the log ends after %d of %d header bytes", len(b), logHeaderStart)
	}
	if string(b[:walOffVersion]) != LogMagic {
		return h, headerError(0, "log magic", "%q is not a log", b[:walOffVersion])
	}
	h = LogHeader{
		Salt: binary.LittleEndian.Uint64(b[walOffSalt:]),
		Base: ReadDigest(b[walOffBase:]),
		Seq:  binary.LittleEndian.Uint64(b[LogOffSeq:]),
	}
	crc, got := binary.LittleEndian.Uint32(b[walOffCRC:]), crc32.Checksum(b[:walOffCRC], Castagnoli())
	if got != crc {
		return h, headerError(walOffCRC, "log crc", "the header's checksum is %08x, its bytes give %08x", crc, got)
	}
	if v := binary.LittleEndian.Uint16(b[walOffVersion:]); v != LogVersion {
		return h, &Error{Offset: walOffVersion, Entry: -1, Field: "log version", Msg: fmt.Sprintf("version %d, this program reads version %d", v, LogVersion),
			Newer: v > LogVersion, Older: v < LogVersion}
	}
	if r := binary.LittleEndian.Uint32(b[walOffReserved:]); r != 0 {
		return h, headerError(walOffReserved, "log reserved", "reserved bytes are %#08x, not zero", r)
	}
	if h.Seq == 0 || h.Seq > maxSeq {
		return h, headerError(LogOffSeq, "log seq", "the first sequence number is %d", h.Seq)
	}
	if len(b) < LogHeaderSize {
		return h, headerError(len(b), "log header", "the log ends after %d of %d header bytes", len(b), LogHeaderSize)
	}
	return h, h.readPlace(b)
}

// readPlace reads the fields after the first checksum: identity, epoch, and predecessor.
func (h *LogHeader) readPlace(b []byte) error {
	h.Store = ID(b[walOffStore:])
	h.Epoch = ID(b[walOffEpoch:])
	h.Before = Place{
		Epoch: ID(b[walOffPrevEpoch:]),
		Seq:   binary.LittleEndian.Uint64(b[walOffPrevSeq:]),
		CRC:   binary.LittleEndian.Uint32(b[walOffPrevCRC:]),
	}
	h.crc = binary.LittleEndian.Uint32(b[walOffCRC2:])
	got := crc32.Checksum(b[:walOffCRC2], Castagnoli())
	switch {
	case got != h.crc:
		return headerError(walOffCRC2, "log crc2", "the header's checksum is %08x, its bytes give %08x", h.crc, got)
	case h.Store == ID{}:
		return headerError(walOffStore, "log store", "the store's identity is zero")
	case h.Epoch == ID{}:
		return headerError(walOffEpoch, "log epoch", "the epoch is zero")
	case h.Before.Epoch == ID{} && h.Before != Place{}:
		return headerError(walOffPrevEpoch, "log prev_epoch", "the previous epoch is zero, but its operation has sequence number %d", h.Before.Seq)
	case h.Before.Epoch == h.Epoch && h.Before.Seq != h.Seq-1:
		return headerError(walOffPrevSeq, "log prev_seq", "the previous operation has sequence number %d, but the first has %d", h.Before.Seq, h.Seq)
	}
	return nil
}

// LogWriter makes frames for the end of a log. It does no I/O.
type LogWriter struct {
	Salt uint64
	prev uint32 // CRC of the last frame, or of the header
	End  int64  // where the next frame goes
	Seq  uint64 // of the next operation

	Epoch ID
	Last  Place // of the operation before seq
}

// Append appends a frame without a context. An operation takes the next
// sequence number; a checkpoint repeats the number of the last operation.
func (w *LogWriter) Append(b []byte, typ byte, syncedTo int64, payload Record) []byte {
	return w.AppendFrame(b, typ, syncedTo, "", payload)
}

// Sum returns the checksum of the last frame, or of the header.
func (w *LogWriter) Sum() uint32 { return w.prev }

// AppendFrame is append with an encoded context.
func (w *LogWriter) AppendFrame(b []byte, typ byte, syncedTo int64, context, payload Record) []byte {
	seq := w.Seq
	if typ&^FrameMore == FrameCheckpoint {
		seq--
	} else {
		w.Seq++
		w.Last = Place{w.Epoch, seq, recordCRC(seq, typ, context, payload)}
	}
	start := len(b)
	b = append(b, typ, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(context)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(context)+len(payload)))
	b = binary.LittleEndian.AppendUint64(b, seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(syncedTo))
	b = binary.LittleEndian.AppendUint64(b, uint64(w.prev)) // and zeros in place of the checksum
	b = append(b, context...)
	b = append(b, payload...)
	w.prev = frameCRC(w.Salt, w.End, b[start:])
	binary.LittleEndian.PutUint32(b[start+frameOffCRC:], w.prev)
	w.End += int64(len(b) - start)
	return b
}

// The first tags of a context (FORMAT.md, "Context"). The Actor fields
// follow in order.
const (
	tagTime     = 1
	tagActor    = 2
	tagRedacted = 8
)

// NewContext encodes the context of a change. It omits a zero time and empty fields.
func NewContext(at time.Time, a Actor) Record {
	b := make([]byte, 0, 64)
	if !at.IsZero() {
		b = binary.LittleEndian.AppendUint16(b, tagTime)
		b = binary.LittleEndian.AppendUint16(b, 8)
		b = binary.LittleEndian.AppendUint64(b, uint64(at.UnixNano()))
	}
	for i, field := range a.Fields() {
		if *field != "" {
			b = binary.LittleEndian.AppendUint16(b, uint16(tagActor+i))
			b = binary.LittleEndian.AppendUint16(b, uint16(len(*field)))
			b = append(b, *field...)
		}
	}
	return Record(View(b))
}

// Origin returns the time and the actor in the context of f. The time is 0 if the
// context contains none.
func (f *Frame) Origin() (nanoseconds int64, a Actor) {
	fields := a.Fields()
	for b := f.Context; len(b) >= 4; {
		tag, n := int(binary.LittleEndian.Uint16(b)), int(binary.LittleEndian.Uint16(b[2:]))
		value := b[4 : 4+n]
		b = b[4+n:]
		switch {
		case tag == tagTime && n == 8:
			nanoseconds = int64(binary.LittleEndian.Uint64(value))
		case tag >= tagActor && tag < tagActor+len(fields):
			*fields[tag-tagActor] = string(value)
		}
	}
	return nanoseconds, a
}

// AppendCopy appends the operation of f, which is from another log.
func (w *LogWriter) AppendCopy(b []byte, f *Frame, syncedTo int64) []byte {
	typ := f.Type
	if f.More {
		typ |= FrameMore
	}
	return w.AppendFrame(b, typ, syncedTo, Record(View(f.Context)), Record(View(f.Payload)))
}

// recordCRC is the record checksum (FORMAT.md): it identifies an operation
// apart from its place in a log.
func recordCRC(seq uint64, typ byte, context, payload Record) uint32 {
	var b [11]byte
	binary.LittleEndian.PutUint64(b[:], seq)
	b[8] = typ &^ FrameMore
	binary.LittleEndian.PutUint16(b[9:], uint16(len(context)))
	c := crc32.Update(0, Castagnoli(), b[:])
	c = crc32.Update(c, Castagnoli(), bytesOf(context))
	return crc32.Update(c, Castagnoli(), bytesOf(payload))
}

// frameCRC is the checksum of a frame at its place: the same bytes elsewhere,
// or in another log, do not fit.
func frameCRC(salt uint64, off int64, frame []byte) uint32 {
	var at [16]byte
	binary.LittleEndian.PutUint64(at[:], salt)
	binary.LittleEndian.PutUint64(at[8:], uint64(off))
	c := crc32.Update(0, Castagnoli(), at[:])
	c = crc32.Update(c, Castagnoli(), frame[:frameOffCRC])
	return crc32.Update(c, Castagnoli(), frame[FrameHeader:])
}

// Frame is a valid frame of a log.
type Frame struct {
	Offset  int64
	Type    byte // without frameMore
	More    bool
	Seq     uint64
	prev    uint32
	crc     uint32
	Context []byte
	Payload []byte
}

func (f *Frame) End() int64 { return f.Offset + FrameHeader + int64(len(f.Context)+len(f.Payload)) }

// Sum returns the checksum of the frame. It depends on all earlier frames of the log.
func (f *Frame) Sum() uint32 { return f.crc }

func (f *Frame) RecordCRC() uint32 {
	return recordCRC(f.Seq, f.Type, Record(View(f.Context)), Record(View(f.Payload)))
}

// checkType returns a *Error for a valid frame that this version does not
// understand. A newer program wrote it, so it must not be truncated as torn.
func (f *Frame) checkType() error {
	checkpoint := f.Type == FrameCheckpoint &&
		(f.More || len(f.Context) > 0 || len(f.Payload) != DigestSize+8 || binary.LittleEndian.Uint64(f.Payload[DigestSize:]) > f.Seq)
	if f.Type > FrameRename || checkpoint {
		return &Error{Offset: f.Offset, Entry: -1, Field: "frame type",
			Msg: fmt.Sprintf("frame type %d of %d bytes is not of log version %d", f.Type, len(f.Payload), LogVersion)}
	}
	if why := checkContext(f.Context); why != "" {
		return &Error{Offset: f.Offset, Entry: -1, Field: "context", Msg: why}
	}
	return nil
}

// checkContext returns why bytes are not a context (FORMAT.md, "Context"), or "".
func checkContext(b []byte) string {
	for last := uint16(0); len(b) > 0; {
		if len(b) < 4 {
			return fmt.Sprintf("%d bytes, shorter than a tag and a length", len(b))
		}
		tag, n := binary.LittleEndian.Uint16(b), int(binary.LittleEndian.Uint16(b[2:]))
		switch {
		case tag <= last:
			return fmt.Sprintf("tag %d follows tag %d", tag, last)
		case n > len(b)-4:
			return fmt.Sprintf("tag %d has %d bytes, %d are left", tag, n, len(b)-4)
		}
		last, b = tag, b[4+n:]
	}
	return ""
}
