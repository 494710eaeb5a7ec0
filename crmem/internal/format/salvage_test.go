package format

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestSalvage reads entries between bytes that are not an entry.
func TestSalvage(t *testing.T) {
	entry := func(id uint64, name string) string {
		return string(NewRecord(id, 7, KindNote, name, "content", []string{"alias"}))
	}
	header := func(next uint64) string { return string(SnapshotHeader(next, 3)) }
	damaged := strings.Replace(header(9), "CR", "cr", 1)
	kind := []byte(entry(4, "kind"))
	kind[OffKind] = KindArchive + 1
	for _, c := range []struct {
		name, file string
		ids        []uint64
		next       uint64
		headers    int64 // number of headers in the size
	}{
		{"complete", header(9) + entry(1, "a") + entry(2, "b"), []uint64{1, 2}, 9, 1},
		{"in descending order", header(9) + entry(2, "b") + entry(1, "a"), []uint64{1, 2}, 9, 1},
		{"bytes between", header(9) + "text" + entry(2, "b") + "\x00\x00\x00" + entry(5, "e"), []uint64{2, 5}, 9, 1},
		{"id twice", header(9) + entry(2, "b") + entry(2, "c"), []uint64{2}, 9, 1},
		{"name twice", header(9) + entry(2, "b") + entry(3, "b") + entry(4, "d"), []uint64{2, 4}, 9, 1},
		{"next ID too low", header(2) + entry(3, "c"), []uint64{3}, 4, 0},
		{"next ID of the last entry", header(3) + entry(3, "c"), []uint64{3}, 4, 0},
		{"corrupt header", damaged + entry(3, "c"), []uint64{3}, 4, 0},
		{"id 0", header(9) + entry(0, "a") + entry(2, "b"), []uint64{2}, 9, 1},
		{"unknown kind", header(9) + string(kind) + entry(2, "b"), []uint64{2}, 9, 1},
		{"longest name", header(9) + entry(2, strings.Repeat("n", 1<<16)), []uint64{2}, 9, 1},
		{"name too long", header(9) + entry(2, strings.Repeat("n", 1<<16+1)), nil, 9, 1},
		{"cut entry, so the count is too high", header(9) + entry(1, "a") + entry(2, "b")[:30], []uint64{1}, 2, 0},
		{"no entries", header(9), nil, 1, 0},
		{"short file", header(9)[:20], nil, 1, 0},
	} {
		recs, next, size := Salvage([]byte(c.file))
		want := c.headers * HeaderSize
		var ids []uint64
		for _, r := range recs {
			ids = append(ids, r.ID())
			want += int64(len(r))
		}
		if !slices.Equal(ids, c.ids) || next != c.next || size != want {
			t.Errorf("%s: entries %v, next ID %d, %d bytes; want %v, %d, %d", c.name, ids, next, size, c.ids, c.next, want)
		}
	}
}

// TestWasStore checks the guess about files without an entry.
func TestWasStore(t *testing.T) {
	crabdb := func(at, n uint64, size int) string {
		b := append(SnapshotHeader(at, 0), make([]byte, size)...)
		binary.LittleEndian.PutUint64(b[24:], n)
		return string(b[:size])
	}
	for _, c := range []struct {
		file  string
		store bool
	}{
		{"", true}, {"CR", true}, {"XX", false}, {string(SnapshotHeader(9, 1)), true},
		{crabdb(0, 0, 31), true}, {crabdb(0, 0, 32), false}, {crabdb(0, 1, 40), true},
		{crabdb(32, 8, 40), false}, {crabdb(32, 9, 40), true}, {crabdb(31, 1, 40), true}, {crabdb(40, 0, 40), false}, {crabdb(41, 0, 40), true},
	} {
		if got := WasStore([]byte(c.file)); got != c.store {
			t.Errorf("%x: %v, want %v", c.file, got, c.store)
		}
		d := NewDecoder([]byte(c.file))
		err := d.Explain(&Error{Field: "entry_count", Msg: "m"})
		if guessed := strings.Contains(err.Error(), "looks like a crabdb store"); len(c.file) > 2 && guessed == c.store {
			t.Errorf("%x: %v", c.file, err)
		}
	}
}

// TestRecordCRC compares the checksum of an operation with the one that FORMAT.md
// defines.
func TestRecordCRC(t *testing.T) {
	h := LogHeader{Salt: 1, Seq: 0x1122334455, Store: ID{1}, Epoch: ID{2}}
	b := h.Append(nil)
	w := h.Writer()
	context := "\x02\x00\x01\x00x"
	b = w.AppendFrame(b, FrameRemove|FrameMore, w.End, Record(context), "12345678")
	b = w.AppendFrame(b, FrameRemove, LogHeaderSize, Record(context), "12345678")
	scan, err := ScanLog(b)
	if err != nil || len(scan.Frames) != 2 {
		t.Fatalf("%+v, %v", scan, err)
	}
	for i := range scan.Frames {
		seq := string([]byte{0x55 + byte(i), 0x44, 0x33, 0x22, 0x11, 0, 0, 0})
		want := crc32.Checksum([]byte(seq+"\x03\x05\x00"+context+"12345678"), crc32.MakeTable(crc32.Castagnoli))
		if got := scan.Frames[i].RecordCRC(); got != want {
			t.Errorf("operation %d: %08x, want %08x", i, got, want)
		}
	}
}

// TestLogHeaderErrors checks the texts for invalid headers.
func TestLogHeaderErrors(t *testing.T) {
	h := LogHeader{Salt: 1, Seq: 1, Store: ID{1}, Epoch: ID{2}}
	complete := h.Append(nil)
	version := func(v byte) []byte {
		b := slices.Clone(complete)
		b[walOffVersion] = v
		binary.LittleEndian.PutUint32(b[walOffCRC:], crc32.Checksum(b[:walOffCRC], Castagnoli()))
		return b
	}
	for _, c := range []struct {
		file []byte
		want string
	}{
		{complete[:5], fmt.Sprintf("the log ends after 5 of %d header bytes", logHeaderStart)},
		{complete[:111], fmt.Sprintf("the log ends after 111 of %d header bytes", LogHeaderSize)},
		{slices.Concat([]byte("XX"), complete[2:]), `"XXWAL\x00" is not a log`},
		{version(1), "version 1, this program reads version 2"},
		{version(3), "version 3, this program reads version 2"},
		{slices.Concat(complete[:45], []byte{complete[45] ^ 1}, complete[46:]), "the header's checksum is"},
		{func() []byte { h := h; h.Seq = 0; return h.Append(nil) }(), "the first sequence number is 0"},
		{func() []byte { h := h; h.Seq = math.MaxUint64; return h.Append(nil) }(), "the first sequence number is 18446744073709551615"},
	} {
		if _, err := ReadLogHeader(c.file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
