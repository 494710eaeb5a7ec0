package format

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"crabmem/fuzz/golden"
)

// logText returns the results of the functions that read a log: a summary, and
// the header, the frames, and the writer.
func logText(b []byte) (summary, details string) {
	s, err := ScanLog(b)
	if err != nil {
		summary = fmt.Sprintf("%v\n", err)
		s, _ = ScanPrefix(b)
	}
	if s == nil {
		h, err := ReadLogHeader(b)
		return summary, fmt.Sprintf("%+v %v\n", h, err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%+v, size %d, salt %x\n", s.LogHeader, s.Size(), s.Salt)
	for i := range s.Frames {
		f := &s.Frames[i]
		fmt.Fprintf(&out, "%+v to %d, %x, %d %d\n", *f, f.End(), f.RecordCRC(), cap(f.Context), cap(f.Payload))
	}
	w := s.Writer()
	next := w.Append(nil, FrameRemove, 3, "payload")
	fmt.Fprintf(&out, "then %x %+v\n", next, w)
	if f := s.lastOp(); f != nil {
		fmt.Fprintf(&out, "last operation %d\n", f.Seq)
	}
	for _, dig := range []Digest{s.Base, {Len: 9, C: 1, I: 2}, {Len: 9, C: 3, I: 4}, {}} {
		seq, ok := s.Covers(dig)
		fmt.Fprintf(&out, "%v %v ", seq, ok)
	}
	return summary + fmt.Sprintf("%v from %d %q, end %d, %d frames, %d operations\n", s.Verdict, s.Bad, s.Why, s.End, len(s.Frames), s.Ops()), out.String()
}

// testHeader returns a header of a log.
func testHeader(version uint16, seq uint64) LogHeader {
	h := LogHeader{Version: version, Salt: 0x0123456789abcdef, Base: Digest{28, 5, 6}, Seq: seq}
	if version == LogVersion {
		h.Store, h.Epoch, h.Before = ID{1, 15: 2}, ID{3, 15: 4}, Place{ID{5, 15: 6}, 11, 7}
	}
	return h
}

// testLog returns a log with each type of frame.
func testLog(version uint16) []byte {
	h := testHeader(version, 12)
	b := h.Append(nil)
	w := h.Writer()
	checkpoint := func(c uint32, seq uint64) Record {
		return Record(binary.LittleEndian.AppendUint64(Digest{9, c, c + 1}.Append(nil), seq))
	}
	b = w.Append(b, FramePut, w.End, NewRecord(1, 2, KindNote, "n", "", []string{"a"}))
	end := w.End
	b = w.Append(b, FrameRemove|FrameMore, end, "12345678")
	b = w.Append(b, FrameAlias, end, "12345678\x00\x00\x00\x00")
	b = w.Append(b, FrameCheckpoint, w.End, checkpoint(1, 13))
	if version == LogVersion {
		b = w.AppendFrame(b, FrameRename, w.End, "\x01\x00\x02\x00ab\x07\x00\x00\x00", "payload")
		b = w.AppendFrame(b, FramePurge|FrameMore, w.End, "\x02\x00\x00\x00", "")
		b = w.Append(b, FramePurged, w.End, "")
	}
	b = w.Append(b, FrameCheckpoint, w.End, checkpoint(3, w.Seq-1))
	return w.Append(b, FrameRemove, w.End, "x")
}

// resum corrects the checksums of the header and of the frames of a log. With
// chain it also corrects the checksums of the previous frame.
func resum(b []byte, chain bool) []byte {
	b = bytes.Clone(b)
	if len(b) < LogHeaderSize1 {
		return b
	}
	binary.LittleEndian.PutUint32(b[walOffCRC:], crc32.Checksum(b[:walOffCRC], Castagnoli()))
	off := LogHeaderSize1
	if b[walOffVersion] != LogVersion1 {
		if off = LogHeaderSize; len(b) < off {
			return b
		}
		binary.LittleEndian.PutUint32(b[walOffCRC2:], crc32.Checksum(b[:walOffCRC2], Castagnoli()))
	}
	prev := b[off-4 : off]
	salt := binary.LittleEndian.Uint64(b[walOffSalt:])
	for off+FrameHeader <= len(b) {
		n := int64(binary.LittleEndian.Uint32(b[off+frameOffLen:]))
		if n > int64(len(b)-off-FrameHeader) {
			break
		}
		end := off + FrameHeader + int(n)
		if chain {
			copy(b[off+frameOffPrev:], prev)
		}
		prev = b[off+frameOffCRC : off+FrameHeader]
		binary.LittleEndian.PutUint32(prev, frameCRC(salt, int64(off), b[off:end]))
		off = end
	}
	return b
}

// editLog calls try with copies of a log that have one change.
func editLog(b []byte, size int, try func(title string, b []byte)) {
	for off := range b {
		for _, v := range []byte{0, b[off] + 1, b[off] - 1} {
			c := bytes.Clone(b)
			c[off] = v
			try(fmt.Sprintf("byte %d is %#02x", off, v), c)
		}
		try(fmt.Sprintf("cut at %d", off), bytes.Clone(b[:off]))
		if off%8 != 0 || off+8 > len(b) {
			continue
		}
		for _, v := range []int64{0, -1, 1 << 62, 1<<62 + 1, int64(size) - 1, int64(size), int64(off) - 16, int64(off) - 15} {
			c := bytes.Clone(b)
			binary.LittleEndian.PutUint64(c[off:], uint64(v))
			try(fmt.Sprintf("number %d is %d", off, v), c)
		}
	}
}

// TestReportsOfLogs compares the results for logs with one change, with and
// without correct checksums. For a changed log it writes a checksum of the details.
func TestReportsOfLogs(t *testing.T) {
	var r golden.Reports
	for _, version := range []uint16{LogVersion1, LogVersion} {
		b := testLog(version)
		summary, details := logText(b)
		r.Add("log", summary+details)
		add := func(title string, b []byte) {
			summary, details := logText(b)
			r.Addf(title, "%s%x", summary, uint16(crc32.ChecksumIEEE([]byte(details))))
		}
		h := testHeader(version, 12)
		editLog(b, int(h.Size()), func(title string, b []byte) {
			add(title, b)
			add(title+", correct checksums", resum(b, false))
			add(title+", correct chain", resum(b, true))
		})
	}
	r.Compare(t, "testdata/logs.txt.gz")
}

// TestReportsOfFrames compares the results for logs of one frame, and for headers
// with an invalid history.
func TestReportsOfFrames(t *testing.T) {
	var r golden.Reports
	add := func(title string, b []byte) {
		summary, details := logText(b)
		r.Add(title, summary+details)
	}
	checkpoint := func(seq uint64) string {
		return string(binary.LittleEndian.AppendUint64(Digest{9, 1, 2}.Append(nil), seq))
	}
	for _, version := range []uint16{LogVersion1, LogVersion} {
		h := testHeader(version, 12)
		for typ := range byte(10) {
			payloads := []string{""}
			if typ == FrameCheckpoint {
				payloads = []string{"", checkpoint(0), checkpoint(11), checkpoint(12), checkpoint(13), checkpoint(1)[1:], checkpoint(1) + "x"}
			}
			for _, more := range []byte{0, FrameMore} {
				for _, context := range []string{"", "x", "\x01\x00\x00\x00", "\x02\x00\x01\x00x\x01\x00\x00\x00", "\x02\x00\x01\x00x\x02\x00\x00\x00", "\x00\x00\x00\x00"} {
					for i, payload := range payloads {
						b := h.Append(nil)
						w := h.Writer()
						b = w.AppendFrame(b, typ|more, w.End, Record(context), Record(payload))
						add(fmt.Sprintf("version %d, type %#02x, context %q, payload %d", version, typ|more, context, i), b)
					}
				}
			}
		}
	}
	for _, store := range []ID{{}, {1}} {
		for _, epoch := range []ID{{}, {2}} {
			for _, before := range []Place{{}, {Seq: 11}, {CRC: 7}, {Epoch: ID{2}, Seq: 10}, {Epoch: ID{2}, Seq: 11}, {Epoch: ID{2}, Seq: 12}, {Epoch: ID{3}, Seq: 10}} {
				h := testHeader(LogVersion, 12)
				h.Store, h.Epoch, h.Before = store, epoch, before
				add(fmt.Sprintf("store %v, epoch %v, before %v", store, epoch, before), h.Append(nil))
			}
		}
	}
	r.Compare(t, "testdata/frames.txt.gz")
}

// TestReportsOfTails compares the verdicts about bytes that a frame follows.
func TestReportsOfTails(t *testing.T) {
	var r golden.Reports
	for seed := range uint64(1500) {
		random := rand.New(rand.NewPCG(seed, 3))
		h := testHeader(uint16(1+random.IntN(2)), 12)
		b := h.Append(nil)
		w := h.Writer()
		b = w.Append(b, FrameRemove, w.End, "12345678")
		gap := 1 + random.IntN(3)
		b = append(b, slices.Repeat([]byte{byte(random.IntN(2))}, gap)...)
		bad := w.End
		w.End += int64(gap)
		n := random.IntN(4)
		typ := []byte{FramePut, FramePut, FrameMore, 0, FrameMore | FramePut, 99}[random.IntN(6)]
		synced := []int64{bad - 1, bad, bad + 1, w.End, w.End + 1, w.End - 1}[random.IntN(6)]
		at := len(b)
		b = w.AppendFrame(b, typ, synced, Record("abc"[:n]), Record("payload"[:random.IntN(3)]))
		switch random.IntN(10) {
		case 0:
			b[at+1] = 1
		case 1:
			b[at+2], b[at+3] = byte(random.IntN(2)), byte(random.IntN(2))
		case 2:
			b[at+frameOffContext] = b[at+frameOffLen] + byte(random.IntN(3)) - 1
		case 3:
			b[at+frameOffLen] += byte(random.IntN(3)) - 1
		case 4:
			b = append(b, 0)
		}
		if random.IntN(8) > 0 {
			end := min(len(b), at+FrameHeader+int(b[at+frameOffLen]))
			binary.LittleEndian.PutUint32(b[at+frameOffCRC:], frameCRC(h.Salt, int64(at), b[at:end]))
		}
		s, err := ScanLog(b)
		if err != nil {
			t.Fatal(err)
		}
		r.Addf(fmt.Sprintf("version %d, %d bytes, then %x", h.Version, gap, b[at:]), "%v %q, %d frames, end %d, bad at %d", s.Verdict, s.Why, len(s.Frames), s.End, s.Bad)
	}
	r.Compare(t, "testdata/tails.txt.gz")
}

// TestTailBudget checks that a log is corrupt if its possible frames have more
// bytes than promised reads, and not if they have that many.
func TestTailBudget(t *testing.T) {
	h := testHeader(LogVersion, 12)
	b := h.Append(nil)
	start := len(b) + 1
	b = append(b, make([]byte, 1<<20)...)
	budget := 64 * (len(b) + 1<<20)
	for i := 0; budget > 0; i++ {
		off := start + i*FrameHeader
		n := min(budget, len(b)-off) - FrameHeader
		if rest := budget - n - FrameHeader; rest > 0 && rest < FrameHeader {
			n -= FrameHeader
		}
		b[off] = FramePut
		binary.LittleEndian.PutUint32(b[off+frameOffLen:], uint32(n))
		binary.LittleEndian.PutUint64(b[off+frameOffSynced:], uint64(start))
		budget -= FrameHeader + n
	}
	if h.promised(b, int64(start-1)) {
		t.Error("corrupt, although all frames are in the budget")
	}
	b[start+frameOffLen]--
	if h.promised(b, int64(start-1)) {
		t.Error("corrupt, although the frames have one byte less than the budget")
	}
	b[start+frameOffLen]++
	last := len(b) - FrameHeader
	b[last] = FramePut
	binary.LittleEndian.PutUint64(b[last+frameOffSynced:], uint64(start))
	if !h.promised(b, int64(start-1)) {
		t.Error("torn, although the frames are above the budget")
	}
}

// TestReportsOfPrecedence compares whether one log precedes another.
func TestReportsOfPrecedence(t *testing.T) {
	var scans []*LogScan
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 4))
		h := testHeader([]uint16{LogVersion1, LogVersion, LogVersion}[random.IntN(3)], uint64(1+random.IntN(4)))
		if h.Version == LogVersion {
			h.Epoch, h.Before = ID{byte(1 + random.IntN(2))}, Place{Epoch: ID{byte(1 + random.IntN(2))}, Seq: uint64(random.IntN(5))}
			if h.Before.Epoch == h.Epoch {
				h.Before.Seq = h.Seq - 1
			}
		}
		h.Base = Digest{Len: uint64(random.IntN(3))}
		b := h.Append(nil)
		w := h.Writer()
		for range random.IntN(4) {
			if typ := byte(FrameRemove); random.IntN(3) == 0 {
				b = w.Append(b, FrameCheckpoint, w.End, Record(binary.LittleEndian.AppendUint64(Digest{Len: uint64(random.IntN(3))}.Append(nil), w.Seq-1-uint64(random.IntN(2))%w.Seq)))
			} else {
				b = w.Append(b, typ, w.End, "12345678")
			}
		}
		s, err := ScanLog(b)
		if err != nil {
			continue
		}
		scans = append(scans, s)
		if last := s.lastOp(); last != nil && h.Version == LogVersion {
			h.Before, h.Seq, h.Base = Place{h.Epoch, last.Seq, last.RecordCRC()}, last.Seq+1, Digest{Len: 8}
			if next, err := ScanLog(h.Append(nil)); err == nil {
				scans = append(scans, next)
			}
			h.Before.CRC++
			if next, err := ScanLog(h.Append(nil)); err == nil {
				scans = append(scans, next)
			}
		}
	}
	var r golden.Reports
	for i, s := range scans {
		line := ""
		for k, other := range scans {
			if s.Precedes(other) {
				line += fmt.Sprint(k, " ")
			}
		}
		r.Addf(fmt.Sprintf("log %d, %+v, %d frames", i, s.LogHeader, len(s.Frames)), "%s", line)
	}
	r.Compare(t, "testdata/precedence.txt.gz")
}
