package format

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// The change index of a segment (FORMAT.md, "Change index").
const (
	IndexBlock = 4096 // bytes; the last 4 are the checksum

	indexMagic    = "CRIDX\x00"
	indexVersion  = 2
	indexData     = IndexBlock - 4
	indexHead     = 72 // bytes of the header in block 0
	indexOpSize   = 32
	indexNameSize = 16
	indexSuffix   = ".idx"
)

// IndexName returns the name of the change index of a segment.
func IndexName(n uint64) string { return fmt.Sprintf("%08d%s", n, indexSuffix) }

// ParseIndexName returns the number of the segment of a change index. It returns
// false for any other name.
func ParseIndexName(name string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(strings.TrimSuffix(name, indexSuffix), 10, 63)
	return n, err == nil && name == IndexName(n)
}

// IndexHeader is the header of a change index. It identifies the segment.
type IndexHeader struct {
	Segment    uint64 // number
	Size       int64  // of the segment
	Salt       uint64
	head       uint32 // last checksum of the segment's header
	last       uint32 // checksum of the last operation's frame
	LastOffset int64  // of that frame
	LastSeq    uint64 // of the last operation
	Time       int64  // least time of an operation, in nanoseconds, or NoTime
	ops, names uint32
}

// IndexOp describes an operation of a segment.
type IndexOp struct {
	ID     uint64 // of the entry
	Time   int64  // least time of its batch and of later ones in the segment, or NoTime
	Seq    uint64
	Offset int64  // of the frame
	Length int    // of the frame
	Batch  uint64 // sequence number of the first operation of the batch
}

// NameSet returns the name that an operation gives to an entry.
func (f *Frame) NameSet() (name string, ok bool) {
	at := 0
	switch f.Type {
	case FramePut:
		at = recNameLen
	case FrameRename:
		at = 8
	}
	if at == 0 || len(f.Payload) < at+4 {
		return "", false
	}
	n := binary.LittleEndian.Uint32(f.Payload[at:])
	rest := f.Payload[at+4:]
	if uint64(n) > uint64(len(rest)) {
		return "", false
	}
	return View(rest[:n]), true
}

// NoTime is the time of an operation whose time is unknown.
const NoTime = math.MaxInt64

// Time returns the time in the context of f, or NoTime if the context contains none
// after 1970.
func (f *Frame) Time() int64 {
	if b := f.Context; len(b) >= 12 && binary.LittleEndian.Uint16(b) == tagTime && binary.LittleEndian.Uint16(b[2:]) == 8 {
		if at := int64(binary.LittleEndian.Uint64(b[4:])); at > 0 {
			return at
		}
	}
	return NoTime // the time is the first value
}

// EffectiveTimes returns the effective times of frames (FORMAT.md, H11): the least of
// the times of each frame and of all later ones, of which after is the least after the
// frames.
func EffectiveTimes(frames []Frame, after int64) []int64 {
	times := make([]int64, len(frames))
	for i := len(frames) - 1; i >= 0; i-- {
		after = min(after, frames[i].Time())
		times[i] = after
	}
	return times
}

// Batches calls do with the operations of each complete batch, in order, until do
// returns an error.
func Batches(frames []Frame, do func(batch []Frame) error) error {
	for from, i := 0, 0; i < len(frames); i++ {
		if frames[i].More {
			continue
		}
		if err := do(frames[from : i+1]); err != nil {
			return err
		}
		from = i + 1
	}
	return nil
}

// SameContext reports whether all frames of a batch have the context of the last.
func SameContext(batch []Frame) bool {
	last := batch[len(batch)-1].Context
	return !slices.ContainsFunc(batch, func(f Frame) bool { return !bytes.Equal(f.Context, last) })
}

// nameKey is the key of a name in a change index.
func nameKey(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return binary.LittleEndian.Uint64(sum[:])
}

type indexName struct{ key, id uint64 }

// NewIndex returns the change index of segment n, which has size bytes. It returns
// nil if the segment has no operation or an operation that an index does not
// describe.
func NewIndex(n uint64, size int64, scan *LogScan) []byte {
	frames := slices.DeleteFunc(slices.Clone(scan.Frames), func(f Frame) bool { return f.Type == FrameCheckpoint })
	if len(frames) == 0 || size > math.MaxUint32 {
		return nil
	}
	end := &frames[len(frames)-1]
	times := EffectiveTimes(frames, NoTime)
	h := IndexHeader{Segment: n, Time: times[0], Size: size, Salt: scan.Salt, head: scan.crc, last: end.crc, LastOffset: end.Offset, LastSeq: end.Seq}
	ops, names := make([]IndexOp, 0, len(frames)), make([]indexName, 0, len(frames))
	err := Batches(frames, func(batch []Frame) error {
		if !SameContext(batch) {
			return errNoIndex
		}
		for i := range batch {
			f := &batch[i]
			name, named := f.NameSet()
			if f.EntryID() == 0 || !named && (f.Type == FramePut || f.Type == FrameRename) {
				return errNoIndex
			}
			ops = append(ops, IndexOp{f.EntryID(), times[batch[0].Seq-frames[0].Seq], f.Seq, f.Offset, int(f.End() - f.Offset), batch[0].Seq})
			if named {
				names = append(names, indexName{nameKey(name), f.EntryID()})
			}
		}
		return nil
	})
	if err != nil {
		return nil
	}
	slices.SortFunc(ops, func(a, b IndexOp) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Seq, b.Seq)) })
	slices.SortFunc(names, func(a, b indexName) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id)) })
	names = slices.Compact(names)
	h.ops, h.names = uint32(len(ops)), uint32(len(names))
	return h.encode(scan.Seq, ops, names)
}

// errNoIndex reports an operation that a change index does not describe.
var errNoIndex = fmt.Errorf("no change index")

// encode returns the file. first is the sequence number of the segment.
func (h *IndexHeader) encode(first uint64, ops []IndexOp, names []indexName) []byte {
	b := make([]byte, 0, h.FileSize())
	b = append(b, indexMagic...)
	b = binary.LittleEndian.AppendUint16(b, indexVersion)
	b = binary.LittleEndian.AppendUint64(b, h.Segment)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Size))
	b = binary.LittleEndian.AppendUint64(b, h.Salt)
	b = binary.LittleEndian.AppendUint32(b, h.head)
	b = binary.LittleEndian.AppendUint32(b, h.last)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.LastOffset))
	b = binary.LittleEndian.AppendUint64(b, h.LastSeq)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Time))
	b = binary.LittleEndian.AppendUint32(b, h.ops)
	b = binary.LittleEndian.AppendUint32(b, h.names)
	b = h.endBlock(b)
	for i, o := range ops {
		b = binary.LittleEndian.AppendUint64(b, o.ID)
		b = binary.LittleEndian.AppendUint64(b, uint64(o.Time))
		b = binary.LittleEndian.AppendUint32(b, uint32(o.Seq-first))
		b = binary.LittleEndian.AppendUint32(b, uint32(o.Batch-first))
		b = binary.LittleEndian.AppendUint32(b, uint32(o.Offset))
		b = binary.LittleEndian.AppendUint32(b, uint32(o.Length))
		if i == len(ops)-1 || (i+1)%(indexData/indexOpSize) == 0 {
			b = h.endBlock(b)
		}
	}
	for i, n := range names {
		b = binary.LittleEndian.AppendUint64(b, n.key)
		b = binary.LittleEndian.AppendUint64(b, n.id)
		if i == len(names)-1 || (i+1)%(indexData/indexNameSize) == 0 {
			b = h.endBlock(b)
		}
	}
	return b
}

// endBlock appends zeros and the checksum of the last block of b.
func (h *IndexHeader) endBlock(b []byte) []byte {
	n := int64(len(b) / IndexBlock)
	b = append(b, make([]byte, indexData-len(b)%IndexBlock)...)
	return binary.LittleEndian.AppendUint32(b, blockCRC(h.Salt, n, b[n*IndexBlock:]))
}

// blockCRC is the checksum of the first bytes of block n.
func blockCRC(salt uint64, n int64, b []byte) uint32 {
	var at [16]byte
	binary.LittleEndian.PutUint64(at[:], salt)
	binary.LittleEndian.PutUint64(at[8:], uint64(n))
	return crc32.Update(crc32.Update(0, Castagnoli(), at[:]), Castagnoli(), b[:indexData])
}

// CheckBlock reports whether b is block n of the index.
func (h *IndexHeader) CheckBlock(n int64, b []byte) bool {
	return len(b) == IndexBlock && blockCRC(h.Salt, n, b) == binary.LittleEndian.Uint32(b[indexData:])
}

// FileSize returns the size of the index.
func (h *IndexHeader) FileSize() int64 {
	o, n := h.opTable(), h.nameTable()
	return IndexBlock * (1 + o.blocks() + n.blocks())
}

// ReadIndexHeader reads block 0 of an index. It returns false if the block is invalid.
func ReadIndexHeader(b []byte) (h IndexHeader, ok bool) {
	if len(b) != IndexBlock || string(b[:6]) != indexMagic || binary.LittleEndian.Uint16(b[6:]) != indexVersion {
		return h, false
	}
	h = IndexHeader{
		Segment:    binary.LittleEndian.Uint64(b[8:]),
		Size:       int64(binary.LittleEndian.Uint64(b[16:])),
		Salt:       binary.LittleEndian.Uint64(b[24:]),
		head:       binary.LittleEndian.Uint32(b[32:]),
		last:       binary.LittleEndian.Uint32(b[36:]),
		LastOffset: int64(binary.LittleEndian.Uint64(b[40:])),
		LastSeq:    binary.LittleEndian.Uint64(b[48:]),
		Time:       int64(binary.LittleEndian.Uint64(b[56:])),
		ops:        binary.LittleEndian.Uint32(b[64:]),
		names:      binary.LittleEndian.Uint32(b[68:]),
	}
	return h, h.CheckBlock(0, b)
}

// IsOf reports whether the index is that of segment n, whose file has size bytes and
// the header g.
func (h *IndexHeader) IsOf(n uint64, size int64, g *LogHeader) bool {
	return h.Segment == n && h.Size == size && h.Salt == g.Salt && h.head == g.crc && h.LastSeq >= g.Seq &&
		h.LastOffset >= LogHeaderSize && h.LastOffset <= size-FrameHeader
}

// EndsWith reports whether b is the beginning of the last frame of the segment.
func (h *IndexHeader) EndsWith(b []byte) bool {
	return len(b) == FrameHeader && binary.LittleEndian.Uint64(b[frameOffSeq:]) == h.LastSeq && binary.LittleEndian.Uint32(b[frameOffCRC:]) == h.last
}

// indexTable is a table of records that begin with a key, in ascending order.
type indexTable struct {
	first       int64 // block
	count, size int   // of the records
}

func (h *IndexHeader) opTable() indexTable { return indexTable{1, int(h.ops), indexOpSize} }

func (h *IndexHeader) nameTable() indexTable {
	o := h.opTable()
	return indexTable{1 + o.blocks(), int(h.names), indexNameSize}
}

func (t *indexTable) perBlock() int { return indexData / t.size }

func (t *indexTable) blocks() int64 {
	return (int64(t.count) + int64(t.perBlock()) - 1) / int64(t.perBlock())
}

// A BlockReader returns a block of an index, which is valid until the next call.
type BlockReader func(n int64) ([]byte, error)

// find calls each with the records of a key.
func (t *indexTable) find(key uint64, read BlockReader, each func(rec []byte)) (err error) {
	from := sort.Search(int(t.blocks()), func(i int) bool {
		b, rerr := read(t.first + int64(i))
		if rerr != nil {
			err = rerr
			return true
		}
		return binary.LittleEndian.Uint64(b) >= key
	})
	if err != nil {
		return err
	}
	return t.scan(max(from-1, 0), read, func(rec []byte) bool {
		k := binary.LittleEndian.Uint64(rec)
		if k == key {
			each(rec)
		}
		return k <= key
	})
}

// scan calls each with the records from block i of the table on, until it returns
// false.
func (t *indexTable) scan(i int, read BlockReader, each func(rec []byte) bool) error {
	for ; i < int(t.blocks()); i++ {
		b, err := read(t.first + int64(i))
		if err != nil {
			return err
		}
		for k := range min(t.perBlock(), t.count-i*t.perBlock()) {
			if !each(b[k*t.size : (k+1)*t.size]) {
				return nil
			}
		}
	}
	return nil
}

// IDs calls each with the IDs of the entries to which operations of the segment give a
// name. An entry may have got another name with the same key instead.
func (h *IndexHeader) IDs(name string, read BlockReader, each func(id uint64)) error {
	t := h.nameTable()
	return t.find(nameKey(name), read, func(rec []byte) { each(binary.LittleEndian.Uint64(rec[8:])) })
}

// manyIDs is the number of IDs for which Ops reads the complete table.
const manyIDs = 32

// Ops returns the operations of entries in a segment with the header g, ascending by
// sequence number. It returns false if the index is invalid.
func (h *IndexHeader) Ops(g *LogHeader, ids map[uint64]bool, read BlockReader) (ops []IndexOp, ok bool) {
	t := h.opTable()
	add := func(rec []byte) {
		ops = append(ops, IndexOp{
			ID:     binary.LittleEndian.Uint64(rec),
			Time:   int64(binary.LittleEndian.Uint64(rec[8:])),
			Seq:    g.Seq + uint64(binary.LittleEndian.Uint32(rec[16:])),
			Batch:  g.Seq + uint64(binary.LittleEndian.Uint32(rec[20:])),
			Offset: int64(binary.LittleEndian.Uint32(rec[24:])),
			Length: int(binary.LittleEndian.Uint32(rec[28:])),
		})
	}
	var err error
	if len(ids) > manyIDs {
		err = t.scan(0, read, func(rec []byte) bool {
			if ids[binary.LittleEndian.Uint64(rec)] {
				add(rec)
			}
			return true
		})
	} else {
		for id := range ids {
			err = cmp.Or(err, t.find(id, read, add))
		}
	}
	slices.SortFunc(ops, func(a, b IndexOp) int { return cmp.Compare(a.Seq, b.Seq) })
	before := IndexOp{Seq: g.Seq - 1}
	for _, o := range ops {
		if o.Seq <= before.Seq || o.Seq > h.LastSeq || o.Batch > o.Seq || o.Batch != before.Batch && o.Batch <= before.Seq || o.Time < max(before.Time, h.Time) ||
			o.Offset < LogHeaderSize || o.Length < FrameHeader+8 || o.Offset+int64(o.Length) > h.Size {
			return nil, false
		}
		before = o
	}
	return ops, err == nil
}

// Frame checks the bytes p of an operation of the index and returns its frame. It
// returns false if p is not that operation.
func (g *LogHeader) Frame(p []byte, o *IndexOp) (f Frame, ok bool) {
	f, why := g.parseFrame(p, o.Offset)
	ok = why == "" && f.End() == o.Offset+int64(len(p)) && frameCRC(g.Salt, o.Offset, p) == f.crc &&
		f.checkType() == nil && f.Type != FrameCheckpoint && f.Seq == o.Seq && f.EntryID() == o.ID
	return f, ok
}
