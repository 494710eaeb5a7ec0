package format

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// indexed returns a segment with the put operations of names, in batches of two, and its
// size.
func indexed(t *testing.T, contexts []Record, names ...string) (*LogScan, int64) {
	t.Helper()
	h := LogHeader{Salt: 7, Seq: 5, Store: NewID(), Epoch: NewID()}
	b := h.Append(nil)
	w := h.Writer()
	for i, name := range names {
		typ := byte(FramePut)
		if i%2 == 0 && i < len(names)-1 {
			typ |= FrameMore
		}
		b = w.AppendFrame(b, typ, w.End, contexts[i%len(contexts)], NewRecord(uint64(i+1), 0, KindNote, name, "text", nil))
	}
	scan, err := ScanLog(b)
	if err != nil || scan.Verdict != Clean || len(scan.Frames) != len(names) {
		t.Fatalf("%v, %+v", err, scan)
	}
	return scan, int64(len(b))
}

func manyNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("name ", i))
	}
	return names
}

// TestIndexNames parses names of change indexes.
func TestIndexNames(t *testing.T) {
	for name, want := range map[string]bool{
		"00000001.idx": true, "123456789.idx": true, "9223372036854775807.idx": true,
		"9223372036854775808.idx": false, "1.idx": false, "00000001.idx1": false, "00000001.log": false, "x.idx": false, "": false,
	} {
		if n, ok := ParseIndexName(name); ok != want || ok && IndexName(n) != name {
			t.Errorf("%q: %d, %t", name, n, ok)
		}
	}
}

// TestIndexBlocks checks the size of indexes whose tables fill whole blocks or not.
func TestIndexBlocks(t *testing.T) {
	for _, c := range []struct{ names, blocks int }{{1, 3}, {127, 3}, {128, 4}, {254, 4}, {255, 5}, {256, 6}, {510, 8}, {512, 9}} {
		scan, size := indexed(t, []Record{""}, manyNames(c.names)...)
		b := NewIndex(3, size, scan)
		h, ok := ReadIndexHeader(b[:IndexBlock])
		if !ok || len(b) != c.blocks*IndexBlock || h.FileSize() != int64(len(b)) || !h.IsOf(3, size, &scan.LogHeader) {
			t.Errorf("%d names: %d bytes, %+v", c.names, len(b), h)
		}
		read := func(n int64) ([]byte, error) {
			if !h.CheckBlock(n, b[n*IndexBlock:][:IndexBlock]) {
				t.Errorf("%d names: block %d is invalid", c.names, n)
			}
			return b[n*IndexBlock:][:IndexBlock], nil
		}
		for i, name := range manyNames(c.names) {
			var ids []uint64
			err := h.IDs(name, read, func(id uint64) { ids = append(ids, id) })
			if err != nil || len(ids) != 1 || ids[0] != uint64(i+1) {
				t.Fatalf("%d names: ids of %s: %v, %v", c.names, name, ids, err)
			}
		}
	}
}

// TestIndexNameOnce puts an entry twice: the index contains its name once.
func TestIndexNameOnce(t *testing.T) {
	scan, size := indexed(t, []Record{""}, "a", "b", "a")
	scan.Frames[2].Payload = scan.Frames[0].Payload
	b := NewIndex(1, size, scan)
	if ops, names := binary.LittleEndian.Uint32(b[64:]), binary.LittleEndian.Uint32(b[68:]); ops != 3 || names != 2 {
		t.Errorf("%d operations, %d names", ops, names)
	}
}

// TestNoIndex makes an index of operations that an index does not describe.
func TestNoIndex(t *testing.T) {
	time := Record("\x01\x00\x08\x00\x02\x00\x00\x00\x00\x00\x00\x00")
	scan, size := indexed(t, []Record{time, ""}, "a", "b")
	if b := NewIndex(1, size, scan); b != nil {
		t.Error("a batch with two contexts has an index")
	}
	if got := [2]int64{scan.Frames[0].Time(), scan.Frames[1].Time()}; got != [2]int64{2, NoTime} {
		t.Errorf("times %v", got)
	}
	scan, size = indexed(t, []Record{""}, "a", "b")
	for _, typ := range []byte{FramePut, FrameRename} {
		scan.Frames[1].Type, scan.Frames[1].Payload = typ, make([]byte, 8)
		scan.Frames[1].Payload[0] = 9
		if b := NewIndex(1, size, scan); b != nil {
			t.Errorf("an operation %d without a name has an index", typ)
		}
	}
}

// TestIndexOps reads indexes whose operations do not belong to the segment.
func TestIndexOps(t *testing.T) {
	scan, size := indexed(t, []Record{""}, "a", "b", "c")
	ids := map[uint64]bool{1: true, 2: true, 3: true}
	good := func() []IndexOp {
		return []IndexOp{{1, 0, 5, 112, 60, 5}, {2, 0, 6, 172, 60, 5}, {3, 0, 7, 232, 60, 7}}
	}
	try := func(ops []IndexOp) bool {
		h := IndexHeader{Segment: 1, Size: size, Salt: scan.Salt, LastSeq: 7, ops: uint32(len(ops))}
		b := h.encode(scan.Seq, ops, nil)
		_, ok := h.Ops(&scan.LogHeader, ids, func(n int64) ([]byte, error) { return b[n*IndexBlock:][:IndexBlock], nil })
		return ok
	}
	if !try(good()) {
		t.Fatal("a valid index is invalid")
	}
	for what, change := range map[string]func(o []IndexOp){
		"a sequence number twice":   func(o []IndexOp) { o[1].Seq = 5 },
		"a later sequence number":   func(o []IndexOp) { o[2].Seq = 8 },
		"a batch after its end":     func(o []IndexOp) { o[2].Batch = 8 },
		"a batch in another":        func(o []IndexOp) { o[2].Batch = 6 },
		"an earlier time":           func(o []IndexOp) { o[0].Time = 1 },
		"a time before the least":   func(o []IndexOp) { o[0].Time = -1 },
		"an offset in the header":   func(o []IndexOp) { o[0].Offset = 111 },
		"a frame that is too short": func(o []IndexOp) { o[0].Length = FrameHeader + 7 },
		"an end after the segment":  func(o []IndexOp) { o[2].Offset = size },
	} {
		ops := good()
		change(ops)
		if try(ops) {
			t.Errorf("%s: the index is valid", what)
		}
	}
}
