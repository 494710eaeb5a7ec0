package crmem

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
)

// The log (FORMAT.md, "Log").
const (
	walMagic      = "CRWAL\x00"
	walVersion    = 2 // of the logs that this program begins
	walOldVersion = 1 // of logs that it continues until a checkpoint

	walOffVersion   = 6
	walOffSalt      = 8
	walOffBase      = 16
	walOffSeq       = 32
	walOffReserved  = 40
	walOffCRC       = 44
	walOldHeader    = 48
	walOffStore     = 48
	walOffEpoch     = 64
	walOffPrevEpoch = 80
	walOffPrevSeq   = 96
	walOffPrevCRC   = 104
	walOffCRC2      = 108
	walHeaderSize   = 112
)

// A frame of the log (FORMAT.md, "Frame").
const (
	frameOffContext = 2 // u16; zero in version 1
	frameOffLen     = 4
	frameOffSeq     = 8
	frameOffSynced  = 16
	frameOffPrev    = 24
	frameOffCRC     = 28
	frameHeader     = 32
)

// Frame types. Zero is none, so that a hole in the file is never a frame.
const (
	framePut        = 1 // payload: a record, as in the snapshot
	frameAlias      = 2 // payload: id u64, count u32, aliases
	frameRemove     = 3 // payload: id u64
	frameCheckpoint = 4 // payload: digest, seq u64
	framePurge      = 5 // payload: id u64
	framePurged     = 6 // payload: id u64
	frameRename     = 7 // payload: id u64, len u32, name
	frameMore       = 0x80
)

// maxSeq is far above the number of any operation, and far from overflow.
const maxSeq = 1 << 62

// randomID is a random value that no other store or history has: the identity
// of a store, or an epoch. The zero value is unset.
type randomID [16]byte

func newRandomID() (id randomID) {
	for id == (randomID{}) {
		rand.Read(id[:]) // crypto/rand: never fails
	}
	return id
}

func (id randomID) String() string { return hex.EncodeToString(id[:]) }

// place identifies an operation in the history of a store. Zero is unknown.
type place struct {
	epoch randomID
	seq   uint64
	crc   uint32 // record checksum (FORMAT.md)
}

// walHeader is the header of a log.
type walHeader struct {
	version uint16
	salt    uint64
	base    digest // of the snapshot that the log extends
	seq     uint64 // of the first operation in the log
	store   randomID
	epoch   randomID
	before  place  // of the last operation before the log
	crc     uint32 // the first frame's prev
}

// size returns the offset of the first frame.
func (h *walHeader) size() int64 {
	if h.version == walOldVersion {
		return walOldHeader
	}
	return walHeaderSize
}

// append appends the header to b and sets h.crc.
func (h *walHeader) append(b []byte) []byte {
	start := len(b)
	b = append(b, walMagic...)
	b = binary.LittleEndian.AppendUint16(b, h.version)
	b = binary.LittleEndian.AppendUint64(b, h.salt)
	b = h.base.append(b)
	b = binary.LittleEndian.AppendUint64(b, h.seq)
	b = binary.LittleEndian.AppendUint32(b, 0)
	h.crc = crc32.Checksum(b[start:], castagnoli())
	b = binary.LittleEndian.AppendUint32(b, h.crc)
	if h.version == walOldVersion {
		return b
	}
	b = append(b, h.store[:]...)
	b = append(b, h.epoch[:]...)
	b = append(b, h.before.epoch[:]...)
	b = binary.LittleEndian.AppendUint64(b, h.before.seq)
	b = binary.LittleEndian.AppendUint32(b, h.before.crc)
	h.crc = crc32.Checksum(b[start:], castagnoli())
	return binary.LittleEndian.AppendUint32(b, h.crc)
}

// writer returns a writer for a log that has only this header.
func (h *walHeader) writer() walWriter {
	return walWriter{salt: h.salt, prev: h.crc, end: h.size(), seq: h.seq, version: h.version, epoch: h.epoch, last: h.before}
}

func headerError(off int, field, format string, args ...any) error {
	return &FormatError{Offset: int64(off), Entry: -1, Field: field, Msg: fmt.Sprintf(format, args...)}
}

func readWALHeader(b []byte) (h walHeader, err error) {
	if len(b) < walOldHeader {
		return h, headerError(len(b), "log header", "the log ends after %d of %d header bytes", len(b), walOldHeader)
	}
	if string(b[:walOffVersion]) != walMagic {
		return h, headerError(0, "log magic", "%q is not a log", b[:walOffVersion])
	}
	h = walHeader{
		version: binary.LittleEndian.Uint16(b[walOffVersion:]),
		salt:    binary.LittleEndian.Uint64(b[walOffSalt:]),
		base:    readDigest(b[walOffBase:]),
		seq:     binary.LittleEndian.Uint64(b[walOffSeq:]),
		crc:     binary.LittleEndian.Uint32(b[walOffCRC:]),
	}
	if got := crc32.Checksum(b[:walOffCRC], castagnoli()); got != h.crc {
		return h, headerError(walOffCRC, "log crc", "the header's checksum is %08x, its bytes give %08x", h.crc, got)
	}
	if h.version != walOldVersion && h.version != walVersion {
		return h, headerError(walOffVersion, "log version", "version %d, this program reads versions %d and %d", h.version, walOldVersion, walVersion)
	}
	if r := binary.LittleEndian.Uint32(b[walOffReserved:]); r != 0 {
		return h, headerError(walOffReserved, "log reserved", "reserved bytes are %#08x, not zero", r)
	}
	if h.seq == 0 || h.seq > maxSeq {
		return h, headerError(walOffSeq, "log seq", "the first sequence number is %d", h.seq)
	}
	if h.version == walVersion {
		err = h.extend(b)
	}
	return h, err
}

// extend reads what version 2 added to the header.
func (h *walHeader) extend(b []byte) error {
	if len(b) < walHeaderSize {
		return headerError(len(b), "log header", "the log ends after %d of %d header bytes", len(b), walHeaderSize)
	}
	h.store = randomID(b[walOffStore:])
	h.epoch = randomID(b[walOffEpoch:])
	h.before = place{
		epoch: randomID(b[walOffPrevEpoch:]),
		seq:   binary.LittleEndian.Uint64(b[walOffPrevSeq:]),
		crc:   binary.LittleEndian.Uint32(b[walOffPrevCRC:]),
	}
	h.crc = binary.LittleEndian.Uint32(b[walOffCRC2:])
	got := crc32.Checksum(b[:walOffCRC2], castagnoli())
	switch {
	case got != h.crc:
		return headerError(walOffCRC2, "log crc2", "the header's checksum is %08x, its bytes give %08x", h.crc, got)
	case h.store == randomID{}:
		return headerError(walOffStore, "log store", "the store's identity is zero")
	case h.epoch == randomID{}:
		return headerError(walOffEpoch, "log epoch", "the epoch is zero")
	case h.before.epoch == randomID{} && h.before != place{}:
		return headerError(walOffPrevEpoch, "log prev_epoch", "the epoch before is zero, its operation is number %d", h.before.seq)
	case h.before.epoch == h.epoch && h.before.seq != h.seq-1:
		return headerError(walOffPrevSeq, "log prev_seq", "the operation before is number %d, the first is %d", h.before.seq, h.seq)
	}
	return nil
}

// walWriter makes frames for the end of a log. It does no I/O.
type walWriter struct {
	salt uint64
	prev uint32 // CRC of the last frame, or of the header
	end  int64  // where the next frame goes
	seq  uint64 // of the next operation

	version uint16
	epoch   randomID
	last    place // of the operation before seq
}

// append appends a frame without a context. Operations take the next sequence
// number; a checkpoint carries that of the last operation and takes none.
func (w *walWriter) append(b []byte, typ byte, syncedTo int64, payload record) []byte {
	return w.appendFrame(b, typ, syncedTo, "", payload)
}

// appendFrame is append with an encoded context.
func (w *walWriter) appendFrame(b []byte, typ byte, syncedTo int64, context, payload record) []byte {
	seq := w.seq
	if typ&^frameMore == frameCheckpoint {
		seq--
	} else {
		w.seq++
		w.last = place{w.epoch, seq, recordCRC(seq, typ, context, payload)}
	}
	start := len(b)
	b = append(b, typ, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(context)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(context)+len(payload)))
	b = binary.LittleEndian.AppendUint64(b, seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(syncedTo))
	b = binary.LittleEndian.AppendUint32(b, w.prev)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = append(b, context...)
	b = append(b, payload...)
	w.prev = frameCRC(w.salt, w.end, b[start:])
	binary.LittleEndian.PutUint32(b[start+frameOffCRC:], w.prev)
	w.end += int64(len(b) - start)
	return b
}

// recordCRC is the record checksum (FORMAT.md): it identifies an operation
// apart from its place in a log.
func recordCRC(seq uint64, typ byte, context, payload record) uint32 {
	var b [11]byte
	binary.LittleEndian.PutUint64(b[:], seq)
	b[8] = typ &^ frameMore
	binary.LittleEndian.PutUint16(b[9:], uint16(len(context)))
	c := crc32.Update(0, castagnoli(), b[:])
	c = crc32.Update(c, castagnoli(), bytesOf(context))
	return crc32.Update(c, castagnoli(), bytesOf(payload))
}

// frameCRC is the checksum of a frame at its place: the same bytes elsewhere,
// or in another log, do not fit.
func frameCRC(salt uint64, off int64, frame []byte) uint32 {
	var at [16]byte
	binary.LittleEndian.PutUint64(at[:], salt)
	binary.LittleEndian.PutUint64(at[8:], uint64(off))
	c := crc32.Update(0, castagnoli(), at[:])
	c = crc32.Update(c, castagnoli(), frame[:frameOffCRC])
	return crc32.Update(c, castagnoli(), frame[frameHeader:])
}

// frame is a frame that was read and is whole.
type frame struct {
	off      int64
	typ      byte // without frameMore
	more     bool
	seq      uint64
	syncedTo int64
	prev     uint32
	crc      uint32
	context  []byte
	payload  []byte
}

func (f *frame) end() int64 { return f.off + frameHeader + int64(len(f.context)+len(f.payload)) }

// readFrame reads the frame at b[off:] as far as it can be judged without its
// checksum. If it is invalid, why is the reason.
func (h *walHeader) readFrame(b []byte, off int64) (f frame, why string) {
	p := b[off:]
	switch {
	case len(p) < frameHeader:
		return f, fmt.Sprintf("%d bytes, shorter than a frame's header", len(p))
	case p[0]&^frameMore == 0:
		return f, fmt.Sprintf("frame type %#02x", p[0])
	case p[1] != 0 || h.version == walOldVersion && p[2]|p[3] != 0:
		return f, "the bytes after the frame type are not zero"
	}
	n := binary.LittleEndian.Uint32(p[frameOffLen:])
	nc := uint32(binary.LittleEndian.Uint16(p[frameOffContext:]))
	synced := binary.LittleEndian.Uint64(p[frameOffSynced:])
	switch {
	case uint64(n) > uint64(len(p)-frameHeader):
		return f, fmt.Sprintf("a frame of %d bytes, %d left", n, len(p)-frameHeader)
	case nc > n:
		return f, fmt.Sprintf("a context of %d bytes in a frame of %d", nc, n)
	case synced < uint64(h.size()) || synced > uint64(off):
		return f, fmt.Sprintf("synced_to %d, outside the log before the frame", synced)
	}
	return frame{
		off:      off,
		typ:      p[0] &^ frameMore,
		more:     p[0]&frameMore != 0,
		seq:      binary.LittleEndian.Uint64(p[frameOffSeq:]),
		syncedTo: int64(synced),
		prev:     binary.LittleEndian.Uint32(p[frameOffPrev:]),
		crc:      binary.LittleEndian.Uint32(p[frameOffCRC:]),
		context:  p[frameHeader : frameHeader+nc : frameHeader+nc],
		payload:  p[frameHeader+nc : frameHeader+int64(n) : frameHeader+int64(n)],
	}, ""
}

// verdict is what the bytes after the last good frame are.
type verdict uint8

const (
	clean  verdict = iota // there are none
	torn                  // the remains of a write that was never acknowledged
	rotten                // damage: a later frame says that these bytes were synced
)

func (v verdict) String() string { return [...]string{"clean", "torn", "rotten"}[v] }

// walScan is what a log holds.
type walScan struct {
	walHeader
	frames  []frame // whole batches only, in order
	end     int64   // of the last of them
	verdict verdict // of the bytes from end on
	why     string  // what is wrong at bad
	bad     int64   // offset of the first byte that is not as it should be
}

// ops returns how many operations the log holds.
func (s *walScan) ops() int {
	n := 0
	for i := range s.frames {
		if s.frames[i].typ != frameCheckpoint {
			n++
		}
	}
	return n
}

// writer returns a writer for the end of the log.
func (s *walScan) writer() walWriter {
	w := s.walHeader.writer()
	w.end = s.end
	for i := range s.frames {
		f := &s.frames[i]
		w.prev = f.crc
		if f.typ != frameCheckpoint {
			w.seq++
			w.last = place{w.epoch, f.seq, 0}
		}
	}
	if w.seq > s.seq {
		w.last.crc = s.lastOp().recordCRC()
	}
	return w
}

// covers returns the sequence number that the snapshot of a digest covers, and
// false if no point of the log names it.
func (s *walScan) covers(dig digest) (seq uint64, ok bool) {
	if s.base == dig {
		seq, ok = s.seq-1, true
	}
	for i := range s.frames {
		f := &s.frames[i]
		if f.typ == frameCheckpoint && readDigest(f.payload) == dig {
			seq, ok = binary.LittleEndian.Uint64(f.payload[digestSize:]), true
		}
	}
	return seq, ok
}

// lastOp returns the last operation of the log, or nil.
func (s *walScan) lastOp() *frame {
	for i := len(s.frames) - 1; i >= 0; i-- {
		if f := &s.frames[i]; f.typ != frameCheckpoint {
			return f
		}
	}
	return nil
}

func (f *frame) recordCRC() uint32 {
	return recordCRC(f.seq, f.typ, record(view(f.context)), record(view(f.payload)))
}

// scanWAL reads a log. An error means that its header is damaged, or that a
// whole frame says what no version of this program writes: nothing is cut
// then.
func scanWAL(b []byte) (*walScan, error) {
	h, err := readWALHeader(b)
	if err != nil {
		return nil, err
	}
	s := &walScan{walHeader: h, end: h.size(), bad: h.size()}
	w := s.writer()
	batch := 0 // frames of s.frames that belong to whole batches
	for off := h.size(); off < int64(len(b)); {
		f, why := h.readFrame(b, off)
		if why == "" {
			why = w.check(&f, b)
		}
		if why != "" {
			s.why = why
			break
		}
		if err := f.known(h.version); err != nil {
			return nil, err
		}
		s.frames = append(s.frames, f)
		off = f.end()
		s.bad = off
		if !f.more {
			batch, s.end = len(s.frames), off
		}
	}
	if s.end == int64(len(b)) {
		return s, nil
	}
	if s.why == "" {
		s.why = "the log ends inside a batch"
	}
	s.frames = s.frames[:batch]
	s.bad = s.end // the batch is the unit: all of it or nothing
	s.verdict = torn
	if h.promised(b, s.end) {
		s.verdict = rotten
	}
	return s, nil
}

// scanPrefix is scanWAL, except that with an error it returns the scan of what
// comes before the frame that is not understood, or nil if that is not a log.
func scanPrefix(b []byte) (*walScan, error) {
	scan, err := scanWAL(b)
	if off := offsetOf(err); err != nil && off >= walOldHeader {
		scan, _ = scanWAL(b[:off])
	}
	return scan, err
}

// check reports why a frame is not the next one of the log, and takes it.
func (w *walWriter) check(f *frame, b []byte) string {
	if got := frameCRC(w.salt, f.off, b[f.off:f.end()]); got != f.crc {
		return fmt.Sprintf("the frame's checksum is %08x, its bytes give %08x", f.crc, got)
	}
	if f.prev != w.prev {
		return fmt.Sprintf("the frame follows one with checksum %08x, not %08x", f.prev, w.prev)
	}
	seq := w.seq
	if f.typ == frameCheckpoint {
		seq--
	}
	if f.seq != seq {
		return fmt.Sprintf("sequence number %d, expected %d", f.seq, seq)
	}
	if f.typ != frameCheckpoint {
		w.seq++
	}
	w.prev = f.crc
	return ""
}

// known returns a *FormatError for a valid frame that this version does not
// understand. A newer program wrote it, so it must not be truncated as torn.
func (f *frame) known(version uint16) error {
	top := byte(frameRename)
	if version == walOldVersion {
		top = frameCheckpoint
	}
	checkpoint := f.typ == frameCheckpoint &&
		(f.more || len(f.context) > 0 || len(f.payload) != digestSize+8 || binary.LittleEndian.Uint64(f.payload[digestSize:]) > f.seq)
	if f.typ > top || checkpoint {
		return &FormatError{Offset: f.off, Entry: -1, Field: "frame type",
			Msg: fmt.Sprintf("frame type %d of %d bytes is not of log version %d", f.typ, len(f.payload), version)}
	}
	if why := checkContext(f.context); why != "" {
		return &FormatError{Offset: f.off, Entry: -1, Field: "context", Msg: why}
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

// promised reports whether a frame after offset bad says that the bytes up to
// beyond bad had been synced when it was written. Every offset is tried: what
// is wrong before a frame says nothing about where it begins.
func (h *walHeader) promised(b []byte, bad int64) bool {
	// A file made to look like frames at every offset would cost the square of
	// its length in checksums. No tear does; such a file counts as corrupt.
	budget := 64 * (int64(len(b)) + 1<<20)
	for off := bad + 1; off+frameHeader <= int64(len(b)); off++ {
		p := b[off:]
		if p[0]&^frameMore == 0 || p[1] != 0 || h.version == walOldVersion && p[2]|p[3] != 0 {
			continue
		}
		n := uint64(binary.LittleEndian.Uint32(p[frameOffLen:]))
		synced := binary.LittleEndian.Uint64(p[frameOffSynced:])
		if n > uint64(len(p)-frameHeader) || uint64(binary.LittleEndian.Uint16(p[frameOffContext:])) > n ||
			synced <= uint64(bad) || synced > uint64(off) {
			continue // as readFrame, which would word the reason
		}
		end := frameHeader + int64(n)
		if budget -= end; budget < 0 {
			return true
		}
		if frameCRC(h.salt, off, p[:end]) == binary.LittleEndian.Uint32(p[frameOffCRC:]) {
			return true
		}
	}
	return false
}

// precedes reports whether the snapshot that another log extends contains the
// operations of s up to that log's first: the other log names a snapshot of s,
// or continues its epoch.
func (s *walScan) precedes(other *walScan) bool {
	if seq, ok := s.covers(other.base); ok && seq == other.seq-1 {
		return true
	}
	if s.version == walOldVersion || other.before.epoch != s.epoch || other.epoch != s.epoch {
		return false
	}
	for i := range s.frames {
		if f := &s.frames[i]; f.typ != frameCheckpoint && f.seq == other.before.seq {
			return f.recordCRC() == other.before.crc
		}
	}
	return true
}
