package crmem

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// The log beside the snapshot (FORMAT.md, "Log").
const (
	walMagic   = "CRWAL\x00"
	walVersion = 1

	walOffVersion  = 6
	walOffSalt     = 8
	walOffBase     = 16
	walOffSeq      = 32
	walOffReserved = 40
	walOffCRC      = 44
	walHeaderSize  = 48
)

// A frame of the log (FORMAT.md, "Frame").
const (
	frameOffLen    = 4
	frameOffSeq    = 8
	frameOffSynced = 16
	frameOffPrev   = 24
	frameOffCRC    = 28
	frameHeader    = 32
)

// Frame types. Zero is none, so that a hole in the file is never a frame.
const (
	framePut        = 1 // payload: a record, as in the snapshot
	frameAlias      = 2 // payload: id u64, count u32, aliases
	frameRemove     = 3 // payload: id u64
	frameCheckpoint = 4 // payload: digest, seq u64
	frameMore       = 0x80
)

// maxSeq is far above the number of any operation, and far from overflow.
const maxSeq = 1 << 62

// walHeader is the first 48 bytes of a log.
type walHeader struct {
	salt uint64
	base digest // of the snapshot that the log extends
	seq  uint64 // of the first operation in the log
	crc  uint32
}

func (h *walHeader) append(b []byte) []byte {
	start := len(b)
	b = append(b, walMagic...)
	b = binary.LittleEndian.AppendUint16(b, walVersion)
	b = binary.LittleEndian.AppendUint64(b, h.salt)
	b = h.base.append(b)
	b = binary.LittleEndian.AppendUint64(b, h.seq)
	b = binary.LittleEndian.AppendUint32(b, 0)
	h.crc = crc32.Checksum(b[start:], castagnoli)
	return binary.LittleEndian.AppendUint32(b, h.crc)
}

func readWALHeader(b []byte) (walHeader, error) {
	fail := func(off int, field, format string, args ...any) (walHeader, error) {
		return walHeader{}, &FormatError{Offset: int64(off), Entry: -1, Field: field, Msg: fmt.Sprintf(format, args...)}
	}
	if len(b) < walHeaderSize {
		return fail(len(b), "log header", "the log ends after %d of %d header bytes", len(b), walHeaderSize)
	}
	if string(b[:walOffVersion]) != walMagic {
		return fail(0, "log magic", "%q is not a log", b[:walOffVersion])
	}
	h := walHeader{
		salt: binary.LittleEndian.Uint64(b[walOffSalt:]),
		base: readDigest(b[walOffBase:]),
		seq:  binary.LittleEndian.Uint64(b[walOffSeq:]),
		crc:  binary.LittleEndian.Uint32(b[walOffCRC:]),
	}
	if got := crc32.Checksum(b[:walOffCRC], castagnoli); got != h.crc {
		return fail(walOffCRC, "log crc", "the header's checksum is %08x, its bytes give %08x", h.crc, got)
	}
	if v := binary.LittleEndian.Uint16(b[walOffVersion:]); v != walVersion {
		return fail(walOffVersion, "log version", "version %d, this program reads version %d", v, walVersion)
	}
	if r := binary.LittleEndian.Uint32(b[walOffReserved:]); r != 0 {
		return fail(walOffReserved, "log reserved", "reserved bytes are %#08x, not zero", r)
	}
	if h.seq == 0 || h.seq > maxSeq {
		return fail(walOffSeq, "log seq", "the first sequence number is %d", h.seq)
	}
	return h, nil
}

// walWriter makes frames for the end of a log. It does no I/O.
type walWriter struct {
	salt uint64
	prev uint32 // CRC of the last frame, or of the header
	end  int64  // where the next frame goes
	seq  uint64 // of the next operation
}

// append appends a frame. Operations take the next sequence number; a
// checkpoint carries that of the last operation and takes none.
func (w *walWriter) append(b []byte, typ byte, syncedTo int64, payload record) []byte {
	seq := w.seq
	if typ&^frameMore == frameCheckpoint {
		seq--
	} else {
		w.seq++
	}
	start := len(b)
	b = append(b, typ, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint64(b, seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(syncedTo))
	b = binary.LittleEndian.AppendUint32(b, w.prev)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = append(b, payload...)
	w.prev = frameCRC(w.salt, w.end, b[start:])
	binary.LittleEndian.PutUint32(b[start+frameOffCRC:], w.prev)
	w.end += int64(len(b) - start)
	return b
}

// frameCRC is the checksum of a frame at its place: the same bytes elsewhere,
// or in another log, do not fit.
func frameCRC(salt uint64, off int64, frame []byte) uint32 {
	var at [16]byte
	binary.LittleEndian.PutUint64(at[:], salt)
	binary.LittleEndian.PutUint64(at[8:], uint64(off))
	c := crc32.Update(0, castagnoli, at[:])
	c = crc32.Update(c, castagnoli, frame[:frameOffCRC])
	return crc32.Update(c, castagnoli, frame[frameHeader:])
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
	payload  []byte
}

func (f *frame) end() int64 { return f.off + frameHeader + int64(len(f.payload)) }

// readFrame reads the frame at b[off:] as far as it can be judged without its
// checksum. When it is none, why says what is wrong.
func readFrame(b []byte, off int64) (f frame, why string) {
	p := b[off:]
	switch {
	case len(p) < frameHeader:
		return f, fmt.Sprintf("%d bytes, shorter than a frame's header", len(p))
	case p[0]&^frameMore == 0:
		return f, fmt.Sprintf("frame type %#02x", p[0])
	case p[1]|p[2]|p[3] != 0:
		return f, "the bytes after the frame type are not zero"
	}
	n := binary.LittleEndian.Uint32(p[frameOffLen:])
	synced := binary.LittleEndian.Uint64(p[frameOffSynced:])
	switch {
	case uint64(n) > uint64(len(p)-frameHeader):
		return f, fmt.Sprintf("a frame of %d bytes, %d left", n, len(p)-frameHeader)
	case synced < walHeaderSize || synced > uint64(off):
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
		payload:  p[frameHeader : frameHeader+int64(n) : frameHeader+int64(n)],
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
	w := walWriter{salt: s.salt, prev: s.crc, end: s.end, seq: s.seq}
	for i := range s.frames {
		w.prev = s.frames[i].crc
		if s.frames[i].typ != frameCheckpoint {
			w.seq++
		}
	}
	return w
}

// scanWAL reads a log. An error means that its header is damaged, or that a
// whole frame says what no version of this program writes: nothing is cut
// then.
func scanWAL(b []byte) (*walScan, error) {
	h, err := readWALHeader(b)
	if err != nil {
		return nil, err
	}
	s := &walScan{walHeader: h, end: walHeaderSize, bad: walHeaderSize}
	w := s.writer()
	batch := 0 // frames of s.frames that belong to whole batches
	for off := int64(walHeaderSize); off < int64(len(b)); {
		f, why := readFrame(b, off)
		if why == "" {
			why = w.check(&f, b)
		}
		if why != "" {
			s.why = why
			break
		}
		if err := f.known(); err != nil {
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
	if promised(b, s.salt, s.end) {
		s.verdict = rotten
	}
	return s, nil
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

// known refuses a whole frame that this version does not understand: a newer
// program wrote it, and to cut it off would lose what it says.
func (f *frame) known() error {
	if f.typ > frameCheckpoint || f.typ == frameCheckpoint && (f.more || len(f.payload) != digestSize+8 || le64(f.payload[digestSize:]) > f.seq) {
		return &FormatError{Offset: f.off, Entry: -1, Field: "frame type",
			Msg: fmt.Sprintf("frame type %d of %d bytes is not of log version %d", f.typ, len(f.payload), walVersion)}
	}
	return nil
}

// promised reports whether a frame behind offset bad says that the bytes up to
// beyond bad had been synced when it was written. Every offset is tried: what
// is wrong before a frame says nothing about where it begins.
func promised(b []byte, salt uint64, bad int64) bool {
	// A file made to look like frames at every offset would cost the square of
	// its length in checksums. No tear does; such a file counts as damaged.
	budget := 64 * (int64(len(b)) + 1<<20)
	for off := bad + 1; off+frameHeader <= int64(len(b)); off++ {
		p := b[off:]
		if p[0]&^frameMore == 0 || p[1]|p[2]|p[3] != 0 {
			continue
		}
		n := uint64(binary.LittleEndian.Uint32(p[frameOffLen:]))
		synced := binary.LittleEndian.Uint64(p[frameOffSynced:])
		if n > uint64(len(p)-frameHeader) || synced <= uint64(bad) || synced > uint64(off) {
			continue // as readFrame, which would word the reason
		}
		end := frameHeader + int64(n)
		if budget -= end; budget < 0 {
			return true
		}
		if frameCRC(salt, off, p[:end]) == binary.LittleEndian.Uint32(p[frameOffCRC:]) {
			return true
		}
	}
	return false
}

// apply replays one operation frame on a table. What a frame says must fit
// what is there; if it does not, the log is not this snapshot's.
func (f *frame) apply(t *table, nextID *uint64) error {
	fail := func(format string, args ...any) error {
		return &FormatError{Offset: f.off, Entry: -1, Field: "frame", Msg: fmt.Sprintf(format, args...)}
	}
	switch f.typ {
	case framePut:
		d := decoder{b: f.payload}
		r, err := d.entry(0, math.MaxUint64)
		if err == nil {
			err = d.end()
		}
		if err != nil {
			return fail("put: %v", err)
		}
		if old := t.byID(r.id()); old != "" {
			if old.name() != r.name() || old.kind() != r.kind() || old.u64(recCreated) != r.u64(recCreated) {
				return fail("put changes the name, kind or time of entry %d", r.id())
			}
		} else if t.find(r.name()) >= 0 {
			return fail("put of entry %d takes the name %.80q of another", r.id(), r.name())
		}
		t.put(r)
		*nextID = max(*nextID, r.id()+1)
	case frameAlias:
		if err := f.alias(t); err != nil {
			return err
		}
		t.put(t.byID(le64(f.payload)).withAliases(f.payload[8:]))
	case frameRemove:
		if len(f.payload) != 8 {
			return fail("remove of %d bytes", len(f.payload))
		}
		id := binary.LittleEndian.Uint64(f.payload)
		if t.byID(id) == "" {
			return fail("remove of entry %d, which is not there", id)
		}
		t.remove(id)
	}
	return nil
}

// alias checks an alias frame: an entry that is there, a list and nothing else.
func (f *frame) alias(t *table) error {
	fail := func(format string, args ...any) error {
		return &FormatError{Offset: f.off, Entry: -1, Field: "frame", Msg: fmt.Sprintf(format, args...)}
	}
	if len(f.payload) < 12 {
		return fail("alias of %d bytes", len(f.payload))
	}
	if id := le64(f.payload); t.byID(id) == "" {
		return fail("alias of entry %d, which is not there", id)
	}
	d := decoder{b: f.payload[8:]}
	err := d.aliases(0, 0)
	if err == nil {
		err = d.end()
	}
	if err != nil {
		return fail("alias: %v", err)
	}
	return nil
}

// withAliases returns the record with another alias list, given as encoded.
func (r record) withAliases(list []byte) record {
	_, i := r.content()
	b := make([]byte, 0, i+len(list))
	b = append(b, r[:i]...)
	return record(view(append(b, list...)))
}
