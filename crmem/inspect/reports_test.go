package inspect_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"crabmem/crmem/inspect"
	"crabmem/crmem/internal/format"
	"crabmem/fuzz/golden"
)

// listFields returns the fields of a file from an offset on, one per line, and
// the error. It stops after most fields.
func listFields(b []byte, from int64, most int) []string {
	var lines []string
	for f, err := range inspect.Fields(b) {
		if err != nil {
			lines = append(lines, err.Error())
		} else if f.Offset >= from {
			lines = append(lines, fmt.Sprintf("%d %d %s %s", f.Offset, f.Length, f.Name, f.Value))
		}
		if len(lines) == most {
			break
		}
	}
	return lines
}

// summary returns the last lines, and the number and a checksum of all.
func summary(lines []string) string {
	sum := crc32.ChecksumIEEE([]byte(strings.Join(lines, "\n")))
	return fmt.Sprintf("%s\n%d, %x", strings.Join(lines[max(0, len(lines)-2):], "\n"), len(lines), uint16(sum))
}

func listEntries(b []byte, most int) (lines []string) {
	for e, err := range inspect.Entries(b) {
		lines = append(lines, fmt.Sprintf("%+v %v", e, err))
		if len(lines) == most {
			break
		}
	}
	return lines
}

// edit calls try with copies of b that have one change.
func edit(b []byte, try func(title string, b []byte)) {
	for off := range b {
		for _, v := range []byte{0, b[off] + 1, 0xff} {
			c := bytes.Clone(b)
			c[off] = v
			try(fmt.Sprintf("byte %d is %#02x", off, v), c)
		}
		try(fmt.Sprintf("cut at %d", off), b[:off])
	}
	for _, more := range []string{"\x00", "text", strings.Repeat("long text ", 20)} {
		try(fmt.Sprintf("%d more bytes", len(more)), append(bytes.Clone(b), more...))
	}
}

// TestReportsOfSnapshotFields compares the fields and the entries of snapshots
// with one change.
func TestReportsOfSnapshotFields(t *testing.T) {
	var r golden.Reports
	b := format.SnapshotHeader(9, 4)
	for i, rec := range []format.Record{
		format.NewRecord(1, 1776162225, 0, "é", "text\n", []string{"x", "", "long"}),
		format.NewRecord(2, math.MaxInt32, 1, strings.Repeat("n", 60), strings.Repeat("c", 61), nil),
		format.NewRecord(3, math.MaxInt32+1, 0, "", "", []string{"a"}),
		format.NewRecord(7, 0, 0, "last", "", nil),
	} {
		b = append(b, rec...)
		binary.LittleEndian.PutUint32(b[24:], uint32(i+1))
		r.Add(fmt.Sprint(i+1, " entries"), strings.Join(append(listFields(b, 0, -1), listEntries(b, -1)...), "\n"))
		for most := range 7 {
			r.Add(fmt.Sprint("at most ", most), strings.Join(append(listFields(b, 0, most), listEntries(b, most)...), "\n"))
		}
	}
	edit(b, func(title string, b []byte) {
		r.Add(title, summary(listFields(b, 0, -1))+"\n"+summary(listEntries(b, -1)))
	})
	r.Compare(t, "testdata/reports/snapshots.txt.gz")
}

// frameCase is a frame of a log.
type frameCase struct {
	typ              byte
	context, payload string
}

func frameCases() []frameCase {
	number := string(binary.LittleEndian.AppendUint64(nil, 5))
	list := string(format.AppendAliases(nil, []string{"a", "", "bcd"}))
	checkpoint := string(binary.LittleEndian.AppendUint64(format.Digest{Len: 9, C: 3, I: 4}.Append(nil), 2))
	return []frameCase{
		{format.FramePut, "", string(format.NewRecord(1, 1776162225, 0, "name", "content", []string{"x", "yz"}))},
		{format.FrameAlias, "\x01\x00\x02\x00ab", number + list},
		{format.FrameRemove, "", number},
		{format.FramePurge, "\x05\x00\x03\x00cli", number},
		{format.FramePurged, "", number},
		{format.FrameRename, "\x05\x00\x00\x00", number + "\x04\x00\x00\x00name"},
		{format.FrameCheckpoint, "", checkpoint},
	}
}

// writeLog returns a log of version with frames that write appends.
func writeLog(version uint16, write func(w *format.LogWriter, b []byte) []byte) []byte {
	h := format.LogHeader{Version: version, Salt: 0x123456789abcdef, Base: format.Digest{Len: 28, C: 5, I: 6}, Seq: 3}
	if version == format.LogVersion {
		h.Store, h.Epoch, h.Before = format.ID{1}, format.ID{2, 15: 3}, format.Place{Epoch: format.ID{4}, Seq: 11, CRC: 7}
	}
	b := h.Append(nil)
	w := h.Writer()
	return write(&w, b)
}

// TestReportsOfLogFields compares the fields of logs with one change, and of
// frames with too short and too long payloads.
func TestReportsOfLogFields(t *testing.T) {
	var r golden.Reports
	for _, version := range []uint16{format.LogVersion1, format.LogVersion} {
		all := writeLog(version, func(w *format.LogWriter, b []byte) []byte {
			for _, c := range frameCases() {
				if version == format.LogVersion1 {
					c.context, c.typ = "", min(c.typ, format.FrameRemove)
				}
				if c.typ == format.FrameAlias {
					c.typ |= format.FrameMore
				}
				b = w.AppendFrame(b, c.typ, w.End, format.Record(c.context), format.Record(c.payload))
			}
			return b
		})
		r.Add(fmt.Sprint("log version ", version), strings.Join(listFields(all, 0, -1), "\n"))
		edit(all, func(title string, b []byte) { r.Add(title, summary(listFields(b, 0, -1))) })
		for _, c := range frameCases() {
			b := writeLog(version, func(w *format.LogWriter, b []byte) []byte {
				b = w.Append(b, c.typ, w.End, format.Record(c.payload))
				return w.Append(b, 8, w.End, "")
			})
			lines := listFields(b, 0, -1)
			r.Add(fmt.Sprintf("version %d, an unknown frame after type %d", version, c.typ), strings.Join(lines[max(0, len(lines)-12):], "\n"))
			for n := range len(c.payload) + 3 {
				for _, typ := range []byte{c.typ, c.typ | format.FrameMore, 8} {
					var at int64
					b := writeLog(version, func(w *format.LogWriter, b []byte) []byte {
						at = w.End
						b = w.AppendFrame(b, typ, w.End, format.Record(c.context), format.Record((c.payload + "more")[:n]))
						return w.Append(b, format.FrameRemove, at, "12345678")
					})
					lines := listFields(b, at+format.FrameHeader, -1)
					r.Add(fmt.Sprintf("version %d, type %d, %d bytes", version, typ, n), strings.Join(lines[:min(12, len(lines))], "\n"))
				}
			}
		}
	}
	r.Compare(t, "testdata/reports/logs.txt.gz")
}
