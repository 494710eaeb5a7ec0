package main

import (
	"encoding/binary"
	"hash/crc32"
)

// wal is the state that a valid next frame of a log depends on. Vectors can
// set each number to a wrong value.
type wal struct {
	base []byte // snapshot whose digest is in the header
	db   []byte // snapshot of the vector
	prev uint32 // checksum of the frame or header before the next frame
	seq  uint64
}

const salt = 0x0123456789abcdef

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func id(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// digest returns the length, CRC-32C, and CRC-32 of a snapshot.
func digest(db []byte) []byte {
	d := binary.LittleEndian.AppendUint32(id(uint64(len(db))), crc32.Checksum(db, castagnoli))
	return binary.LittleEndian.AppendUint32(d, crc32.ChecksumIEEE(db))
}

// startLog starts the log of the snapshot base, without a header.
func startLog(base []byte) part {
	return func(p *page) {
		p.w = &wal{base: base, db: p.b, seq: 1}
		p.file("wal")
	}
}

// ownLog starts the log of the page's snapshot, without a header.
func ownLog(p *page) { startLog(p.b)(p) }

// nextSeq sets the sequence number of the next operation.
func nextSeq(n uint64) part { return func(p *page) { p.w.seq = n } }

// headerFields lists the end offsets of the header fields, and their comments.
var headerFields = []struct {
	end     int
	comment string
}{{6, `magic "CRWAL\0"`}, {8, "version"}, {16, "salt"}, {24, "base: length"}, {28, "base: CRC-32C"},
	{32, "base: CRC-32"}, {40, "seq"}, {44, "reserved"}, {48, "crc"},
	{64, "store"}, {80, "epoch"}, {96, "prev_epoch"}, {104, "prev_seq"}, {108, "prev_crc"}, {112, "crc2"}}

// logHeader adds a header. Each edit changes the bytes before their checksums are
// computed.
func logHeader(edits ...func(b []byte)) part {
	return func(p *page) {
		w := p.w
		b := make([]byte, 112)
		copy(b[48:], "store identity 1")
		copy(b[64:], "this log's epoch")
		copy(b, "CRWAL\x00")
		binary.LittleEndian.PutUint16(b[6:], 2)
		binary.LittleEndian.PutUint64(b[8:], salt)
		copy(b[16:], digest(w.base))
		binary.LittleEndian.PutUint64(b[32:], w.seq)
		for _, edit := range edits {
			edit(b)
		}
		binary.LittleEndian.PutUint32(b[44:], crc32.Checksum(b[:44], castagnoli))
		w.prev = crc32.Checksum(b[:108], castagnoli)
		binary.LittleEndian.PutUint32(b[108:], w.prev)
		for _, f := range headerFields {
			if n := len(p.b); n < len(b) {
				p.put(f.comment, b[n:f.end]...)
			}
		}
	}
}

// op is the operation of a frame.
type op struct {
	typ     byte
	payload []byte
	comment string
}

// frame is an operation and the fields of its frame. For an unset field, add writes
// the value of a valid frame.
type frame struct {
	op
	more    bool // not the last of its batch
	zero    byte
	len     uint32
	seq     uint64
	synced  uint64 // if 0, the frame's own offset, as in a batch of one frame
	prev    uint32 // bits to invert
	context []byte

	contextLen uint16

	badCRC    uint32 // bits to invert
	elsewhere int    // if not 0, the offset that the checksum covers
	otherSalt uint64 // bits to invert
}

func add(f frame) part { return func(p *page) { p.w.add(p, f) } }

func (w *wal) add(p *page, f frame) {
	at := uint64(len(p.b))
	if f.more {
		f.typ |= 0x80
	}
	if f.len == 0 {
		f.len = uint32(len(f.context) + len(f.payload))
	}
	if f.contextLen == 0 {
		f.contextLen = uint16(len(f.context))
	}
	checkpoint := f.typ&0x7f == 4
	if f.seq == 0 {
		f.seq = w.seq
		if checkpoint {
			f.seq--
		}
	}
	if !checkpoint {
		w.seq = f.seq + 1
	}
	if f.synced == 0 {
		f.synced = at
	}
	if f.elsewhere != 0 {
		at = uint64(f.elsewhere)
	}
	b := binary.LittleEndian.AppendUint16([]byte{f.typ, f.zero}, f.contextLen)
	b = binary.LittleEndian.AppendUint32(b, f.len)
	b = binary.LittleEndian.AppendUint64(b, f.seq)
	b = binary.LittleEndian.AppendUint64(b, f.synced)
	b = binary.LittleEndian.AppendUint32(b, w.prev^f.prev)
	place := binary.LittleEndian.AppendUint64(id(salt^f.otherSalt), at)
	all := append(append(append(place, b...), f.context...), f.payload...)
	w.prev = crc32.Checksum(all, castagnoli) ^ f.badCRC

	seq(put("type: "+f.comment, b[:4]...), u32("len", f.len), u64("seq", f.seq), u64("synced_to", f.synced), put("prev", b[24:28]...),
		put("crc", binary.LittleEndian.AppendUint32(nil, w.prev)...))(p)
	if len(f.context) > 0 {
		p.put("context", f.context...)
	}
	if len(f.payload) > 0 {
		p.put("payload", f.payload...)
	}
}

// batch adds the frames of one batch. All but the last have the batch bit.
func batch(frames ...frame) part {
	for i := range frames[:len(frames)-1] {
		frames[i].more = true
		frames[i].comment += ", more"
	}
	return group(frames...)
}

// group adds frames with the synced_to of the first.
func group(frames ...frame) part {
	return func(p *page) {
		synced := uint64(len(p.b))
		for _, f := range frames {
			f.synced = synced
			p.w.add(p, f)
		}
	}
}

// Operations and payloads

func ops(list ...op) part {
	parts := make([]part, len(list))
	for i, o := range list {
		parts[i] = add(frame{op: o})
	}
	return seq(parts...)
}

func entry(id uint64, kind uint32, name, content string, aliases ...string) []byte {
	return bytesOf(record(id, kind, name, content, aliases...))
}

func aliases(id uint64, list ...string) []byte {
	parts := []part{u64("id", id), u32("count", uint32(len(list)))}
	for _, a := range list {
		parts = append(parts, str("alias", a))
	}
	return bytesOf(parts...)
}

func newName(id uint64, name string) []byte { return bytesOf(u64("id", id), str("name", name)) }

// value returns a tag, a length, and a value of a context.
func value(tag uint16, text string) []byte {
	b := binary.LittleEndian.AppendUint16(nil, tag)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	return append(b, text...)
}

func putOp(id uint64, name, content string) op {
	return op{1, entry(id, 0, name, content), "put " + name}
}

func checkpointOp(db []byte, seq uint64) op {
	return op{4, append(digest(db), id(seq)...), "checkpoint"}
}

// ownCheckpoint adds the checkpoint frame of the vector's snapshot.
func ownCheckpoint(seq uint64) part { return func(p *page) { ops(checkpointOp(p.w.db, seq))(p) } }

var (
	putA, putB, putC = putOp(1, "a", "first"), putOp(2, "b", "second"), putOp(3, "c", "third")
	putD, putE       = putOp(4, "d", "fourth"), putOp(5, "e", "fifth")
	removeA, removeB = op{3, id(1), "remove a"}, op{3, id(2), "remove b"}
	unaliasA         = op{2, aliases(1), "alias a"}
	noteA, noteB     = note(1, "a", "first"), note(2, "b", "second")
)
