package main

import (
	"encoding/binary"
	"hash/crc32"
)

// wal lays a log: it keeps what the next frame needs to be a good one, and
// lets each number be set wrong.
type wal struct {
	p    *page
	salt uint64
	base []byte // the snapshot whose digest the header has
	prev uint32
	seq  uint64

	version uint16 // 0: 1
}

const salt = 0x0123456789abcdef

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// digest is length, CRC-32C and CRC-32 of a snapshot.
func digest(db []byte) []byte {
	d := binary.LittleEndian.AppendUint64(nil, uint64(len(db)))
	d = binary.LittleEndian.AppendUint32(d, crc32.Checksum(db, castagnoli))
	return binary.LittleEndian.AppendUint32(d, crc32.ChecksumIEEE(db))
}

// log begins the log of the snapshot that p holds: its header is whole.
func (p *page) log() *wal {
	w := &wal{p: p, salt: salt, base: p.b, seq: 1}
	p.file("wal")
	w.header()
	return w
}

// headerFields are the ends of the fields of a header, and their comments.
var headerFields = []struct {
	end     int
	comment string
}{{6, `magic "CRWAL\0"`}, {8, "version"}, {16, "salt"}, {24, "base: length"}, {28, "base: CRC-32C"},
	{32, "base: CRC-32"}, {40, "seq"}, {44, "reserved"}, {48, "crc"},
	{64, "store"}, {80, "epoch"}, {96, "prev_epoch"}, {104, "prev_seq"}, {108, "prev_crc"}, {112, "crc2"}}

// header lays a header of the log's version. Each edit changes the bytes before
// their checksums are taken.
func (w *wal) header(edits ...func(b []byte)) {
	b := make([]byte, 48)
	if w.version == 2 {
		b = make([]byte, 112)
		copy(b[48:], "store identity 1")
		copy(b[64:], "this log's epoch")
	}
	copy(b, "CRWAL\x00")
	binary.LittleEndian.PutUint16(b[6:], max(1, w.version))
	binary.LittleEndian.PutUint64(b[8:], w.salt)
	copy(b[16:], digest(w.base))
	binary.LittleEndian.PutUint64(b[32:], w.seq)
	for _, edit := range edits {
		edit(b)
	}
	w.prev = crc32.Checksum(b[:44], castagnoli)
	binary.LittleEndian.PutUint32(b[44:], w.prev)
	if w.version == 2 {
		w.prev = crc32.Checksum(b[:108], castagnoli)
		binary.LittleEndian.PutUint32(b[108:], w.prev)
	}
	for _, f := range headerFields {
		if n := len(w.p.b); n < len(b) {
			w.p.put(f.comment, b[n:f.end]...)
		}
	}
}

// A frame as it is to be laid. Zero fields are filled in as a good one has
// them.
type frame struct {
	typ     byte
	more    bool // not the last of its batch
	zero    [3]byte
	len     uint32
	seq     uint64
	synced  uint64 // 0: the frame's own offset, as a batch of one has it
	prev    uint32
	context []byte // version 2
	payload []byte
	comment string

	contextLen uint16

	badCRC    uint32 // flips these bits
	elsewhere int    // the offset that the checksum is taken for, when not 0
	otherSalt uint64
}

func (w *wal) frame(f frame) {
	p := w.p
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
	if f.prev == 0 {
		f.prev = w.prev
	}
	b := append([]byte{f.typ}, f.zero[:]...)
	if w.version == 2 {
		binary.LittleEndian.PutUint16(b[2:], f.contextLen)
	}
	b = binary.LittleEndian.AppendUint32(b, f.len)
	b = binary.LittleEndian.AppendUint64(b, f.seq)
	b = binary.LittleEndian.AppendUint64(b, f.synced)
	b = binary.LittleEndian.AppendUint32(b, f.prev)
	place := binary.LittleEndian.AppendUint64(nil, w.salt^f.otherSalt)
	if f.elsewhere != 0 {
		place = binary.LittleEndian.AppendUint64(place, uint64(f.elsewhere))
	} else {
		place = binary.LittleEndian.AppendUint64(place, at)
	}
	all := append(append(append(place, b...), f.context...), f.payload...)
	w.prev = crc32.Checksum(all, castagnoli) ^ f.badCRC

	p.put("type: "+f.comment, b[:4]...)
	p.u32("len", f.len)
	p.u64("seq", f.seq)
	p.u64("synced_to", f.synced)
	p.put("prev", b[24:28]...)
	p.put("crc", binary.LittleEndian.AppendUint32(nil, w.prev)...)
	if len(f.context) > 0 {
		p.put("context", f.context...)
	}
	if len(f.payload) > 0 {
		p.put("payload", f.payload...)
	}
}

// payloads

func entry(id uint64, kind uint32, name, content string, aliases ...string) []byte {
	var p page
	p.record(id, kind, name, content, aliases...)
	return p.b
}

func aliases(id uint64, list ...string) []byte {
	var p page
	p.u64("id", id)
	p.u32("count", uint32(len(list)))
	for _, a := range list {
		p.str("alias", a)
	}
	return p.b
}

// rename is the payload of a rename.
func rename(id uint64, name string) []byte {
	var p page
	p.u64("id", id)
	p.str("name", name)
	return p.b
}

// value is a value of a context.
func value(tag uint16, text string) []byte {
	b := binary.LittleEndian.AppendUint16(nil, tag)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	return append(b, text...)
}

func id(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

func (w *wal) put(id uint64, name, content string) {
	w.frame(frame{typ: 1, payload: entry(id, 0, name, content), comment: "put " + name})
}

func (w *wal) checkpoint(db []byte, seq uint64) {
	w.frame(frame{typ: 4, payload: append(digest(db), id(seq)...), comment: "checkpoint"})
}
