package refdec

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"unicode/utf8"
)

// head is the header length.
const head = 112

// Log is a log, read without the snapshot.
type Log struct {
	Store   [16]byte
	Salt    uint64
	Base    Digest
	Seq     uint64 // sequence number of the first operation
	Frames  []Frame
	Good    int64  // length of the header and of all complete batches
	Verdict string // clean, torn, or rotten: state of the bytes from Good
}

// Digest identifies a snapshot.
type Digest struct {
	Length     uint64
	Castagnoli uint32
	IEEE       uint32
}

// DigestOf returns the digest of a file.
func DigestOf(file []byte) Digest {
	return Digest{uint64(len(file)), crc32c(file), crc32.ChecksumIEEE(file)}
}

// Frame is one frame of a complete batch.
type Frame struct {
	Offset  int64
	Type    byte // 1 put, 2 alias, 3 remove, 4 checkpoint, 5 purge, 6 purged, 7 rename
	More    bool
	Seq     uint64
	Synced  uint64
	Context []byte
	Payload []byte

	prev, crc uint32
	size      int64
}

func crc32c(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

var le = binary.LittleEndian

// ReadLog reads a log. The error is a *Fault of the header, or of a complete frame
// that the version does not allow.
func ReadLog(file []byte) (*Log, error) {
	l, prev, err := readHeader(file)
	if err == nil {
		err = l.readFrames(file, prev)
	}
	if err != nil {
		return nil, err
	}
	l.Verdict = l.verdict(file)
	return l, nil
}

func logFault(class, field string, at int) error {
	return &Fault{Class: class, Field: field, Offset: int64(at), Entry: -1}
}

// readHeader returns a log without frames, and the checksum of the header.
func readHeader(file []byte) (l *Log, sum uint32, err error) {
	if len(file) < 48 { // the fields of every version
		return nil, 0, logFault("truncated", "log header", len(file))
	}
	if !bytes.HasPrefix(file, []byte("CRWAL\x00")) {
		return nil, 0, logFault("magic", "log magic", 0)
	}
	if crc32c(file[:44]) != le.Uint32(file[44:]) {
		return nil, 0, logFault("crc", "log crc", 44)
	}
	if le.Uint16(file[6:]) != 2 {
		return nil, 0, logFault("version", "log version", 6)
	}
	if le.Uint32(file[40:]) != 0 {
		return nil, 0, logFault("reserved", "log reserved", 40)
	}
	l = &Log{
		Salt: le.Uint64(file[8:]),
		Base: digestAt(file[16:]),
		Seq:  le.Uint64(file[32:]),
		Good: head,
	}
	if l.Seq == 0 || l.Seq > 1<<62 {
		return nil, 0, logFault("seq", "log seq", 32)
	}
	if at, field := l.second(file); field != "" {
		return nil, 0, logFault("header", field, at)
	}
	return l, le.Uint32(file[108:]), nil
}

// readFrames reads the batches up to the first frame that does not follow the one
// before it. prev is the checksum of the header.
func (l *Log) readFrames(file []byte, prev uint32) error {
	var batch []Frame
	seq := l.Seq
	for at := l.Good; at < int64(len(file)); {
		f, ok := l.frameAt(file, at)
		if !ok || f.prev != prev {
			break
		}
		// A checkpoint has the sequence number of the last operation before it.
		want := seq
		if f.Type == 4 {
			want--
		}
		if f.Seq != want {
			break
		}
		checkpoint := f.Type == 4 && (f.More || len(f.Context) > 0 || len(f.Payload) != 24 || le.Uint64(f.Payload[16:]) > f.Seq)
		if f.Type > 7 || checkpoint {
			return logFault("type", "frame type", int(at))
		}
		if !contextOK(f.Context) {
			return logFault("context", "context", int(at))
		}
		if f.Type != 4 {
			seq++
		}
		prev = f.crc
		at += f.size
		batch = append(batch, f)
		if !f.More {
			l.Frames = append(l.Frames, batch...)
			l.Good, batch = at, nil
		}
	}
	return nil
}

// verdict returns the state of the bytes after the last complete batch. They are
// rotten if a later frame proves that they were synced.
func (l *Log) verdict(file []byte) string {
	if l.Good == int64(len(file)) {
		return "clean"
	}
	for at := l.Good + 1; at < int64(len(file)); at++ {
		if f, ok := l.frameAt(file, at); ok && f.Synced > uint64(l.Good) {
			return "rotten"
		}
	}
	return "torn"
}

// second reads the header fields after the first checksum. It returns the offset and the name
// of the first invalid field, or "".
func (l *Log) second(file []byte) (at int, field string) {
	if len(file) < head {
		return len(file), "log header"
	}
	l.Store = [16]byte(file[48:])
	zero := make([]byte, 16)
	epoch, before := file[64:80], file[80:96]
	switch {
	case crc32c(file[:108]) != le.Uint32(file[108:]):
		return 108, "log crc2"
	case bytes.Equal(file[48:64], zero):
		return 48, "log store"
	case bytes.Equal(epoch, zero):
		return 64, "log epoch"
	case bytes.Equal(before, zero) && !bytes.Equal(file[96:108], zero[:12]):
		return 80, "log prev_epoch"
	case bytes.Equal(before, epoch) && le.Uint64(file[96:])+1 != l.Seq:
		return 96, "log prev_seq"
	}
	return 0, ""
}

// contextOK reports whether b is a valid context.
func contextOK(b []byte) bool {
	for last := 0; len(b) > 0; {
		if len(b) < 4 {
			return false
		}
		tag, n := int(b[0])+int(b[1])<<8, int(b[2])+int(b[3])<<8
		if tag <= last || 4+n > len(b) {
			return false
		}
		last, b = tag, b[4+n:]
	}
	return true
}

func digestAt(b []byte) Digest { return Digest{le.Uint64(b), le.Uint32(b[8:]), le.Uint32(b[12:])} }

// frameAt reads the frame at an offset. It ignores the frames before it, because
// the checksum covers the log's salt and the offset.
func (l *Log) frameAt(file []byte, at int64) (Frame, bool) {
	b := file[at:]
	if len(b) < 32 {
		return Frame{}, false
	}
	f := Frame{
		Offset: at,
		Type:   b[0] & 0x7f,
		More:   b[0] >= 0x80,
		Seq:    le.Uint64(b[8:]),
		Synced: le.Uint64(b[16:]),
		prev:   le.Uint32(b[24:]),
		crc:    le.Uint32(b[28:]),
		size:   32 + int64(le.Uint32(b[4:])),
	}
	context := 32 + int64(le.Uint16(b[2:]))
	if f.Type == 0 || b[1] != 0 || f.size > int64(len(b)) || context > f.size ||
		f.Synced < head || f.Synced > uint64(at) {
		return Frame{}, false
	}
	f.Context, f.Payload = b[32:context], b[context:f.size]
	covered := le.AppendUint64(nil, l.Salt)
	covered = le.AppendUint64(covered, uint64(at))
	covered = append(covered, b[:28]...)
	covered = append(covered, b[32:f.size]...)
	return f, crc32c(covered) == f.crc
}

// Recover reads a snapshot and a log as a read-only reader does. It returns the state
// before the first invalid frame and one of these verdicts:
//
//	clean          the complete log is valid
//	torn           the rest of the log was never acknowledged
//	rotten         the rest of the log was acknowledged
//	foreign        the log extends another snapshot and has operations
//	foreign-empty  the log extends another snapshot and has no operations
//
// The error is a *Fault, and inLog reports whether the fault is in the log.
func Recover(db, log []byte) (s *Store, verdict string, inLog bool, err error) {
	if s, err = Snapshot(db); err != nil {
		return nil, "", false, err
	}
	l, err := ReadLog(log)
	if err != nil {
		return nil, "", true, err
	}
	// Find the last header or checkpoint with the digest of this snapshot.
	is := DigestOf(db)
	known, covered := l.Base == is, l.Seq-1
	ops := 0
	for _, f := range l.Frames {
		if f.Type != 4 {
			ops++
		} else if digestAt(f.Payload) == is {
			known, covered = true, le.Uint64(f.Payload[16:])
		}
	}
	if !known {
		if ops > 0 {
			return s, "foreign", false, nil
		}
		return s, "foreign-empty", false, nil
	}
	for _, f := range l.Frames {
		if f.Type == 4 || f.Seq <= covered {
			continue
		}
		if !s.apply(f) {
			return nil, "", true, &Fault{Class: "frame", Field: "frame", Offset: f.Offset, Entry: -1}
		}
	}
	return s, l.Verdict, false, nil
}

// apply replays an operation. It returns false if the operation is invalid in this
// state.
func (s *Store) apply(f Frame) bool {
	switch f.Type {
	case 1:
		return s.applyPut(f.Payload)
	case 2:
		return s.applyAlias(f.Payload)
	case 3, 5:
		if len(f.Payload) != 8 {
			return false
		}
		i := s.find(f.Payload)
		if i >= 0 {
			s.Entries = slices.Delete(s.Entries, i, i+1)
		}
		return i >= 0 || f.Type == 5
	case 6:
		return len(f.Payload) == 8
	case 7:
		return s.applyRename(f.Payload)
	}
	return false
}

// find returns the index of the entry with the ID at the start of the payload, or -1.
func (s *Store) find(payload []byte) int {
	id := le.Uint64(payload)
	return slices.IndexFunc(s.Entries, func(e Entry) bool { return e.ID == id })
}

// entryOf decodes a payload as the only entry of a snapshot, so that every rule
// of snapshots applies.
func entryOf(payload []byte) (Entry, bool) {
	file := (&Store{NextID: 1<<64 - 1}).Bytes()
	file[24] = 1
	one, err := Snapshot(append(file, payload...))
	if err != nil {
		return Entry{}, false
	}
	return one.Entries[0], true
}

func (s *Store) applyPut(payload []byte) bool {
	e, ok := entryOf(payload)
	if !ok {
		return false
	}
	if i := s.find(payload); i >= 0 {
		old := s.Entries[i]
		if old.Name != e.Name || old.Kind != e.Kind || old.CreatedAt != e.CreatedAt {
			return false
		}
		s.Entries[i] = e
		return true
	}
	for _, old := range s.Entries {
		if old.Name == e.Name {
			return false
		}
	}
	s.Entries = append(s.Entries, e)
	slices.SortFunc(s.Entries, func(a, b Entry) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	s.NextID = max(s.NextID, e.ID+1)
	return true
}

func (s *Store) applyAlias(payload []byte) bool {
	if len(payload) < 8 {
		return false
	}
	i := s.find(payload)
	if i < 0 {
		return false
	}
	e := s.Entries[i]
	e.Aliases = nil
	one := Store{Entries: []Entry{e}}
	b := one.Bytes()[28:]
	e, ok := entryOf(append(b[:len(b)-4], payload[8:]...))
	if ok {
		s.Entries[i] = e
	}
	return ok
}

func (s *Store) applyRename(payload []byte) bool {
	if len(payload) < 12 || int64(le.Uint32(payload[8:])) != int64(len(payload)-12) || !utf8.Valid(payload[12:]) {
		return false
	}
	i, name := s.find(payload), string(payload[12:])
	for k, old := range s.Entries {
		if old.Name == name && k != i {
			return false
		}
	}
	if i >= 0 {
		s.Entries[i].Name = name
	}
	return i >= 0
}
