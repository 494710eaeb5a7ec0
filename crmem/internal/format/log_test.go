package format

import (
	"encoding/binary"
	"strings"
	"testing"
)

// TestContextOfMissingBytes checks the reason that a context is refused for.
func TestContextOfMissingBytes(t *testing.T) {
	if got, want := checkContext([]byte{1, 0, 9, 0, 'x'}), "tag 1 has 9 bytes, 1 are left"; got != want {
		t.Errorf("reason %q, want %q", got, want)
	}
}

// TestNewIDs checks that identities are random and not zero.
func TestNewIDs(t *testing.T) {
	if a, b := NewID(), NewID(); a == b || a == (ID{}) || b == (ID{}) {
		t.Errorf("identities %v and %v", a, b)
	}
}

// TestRecordSize checks the length that NewRecord reserves for a record.
func TestRecordSize(t *testing.T) {
	for _, aliases := range [][]string{nil, {""}, {"abc"}, {"a", "bcdef"}} {
		r := NewRecord(1, 2, KindNote, "name", "content", aliases)
		if got := recordSize("name", "content", aliases); got != len(r) {
			t.Errorf("aliases %q: %d bytes, want %d", aliases, got, len(r))
		}
	}
}

// TestDigestCountsBytes checks the result of Write.
func TestDigestCountsBytes(t *testing.T) {
	var d Digest
	if n, err := d.Write([]byte("abc")); n != 3 || err != nil || d.Len != 3 {
		t.Errorf("%d, %v, %d bytes", n, err, d.Len)
	}
}

// TestTextErrors checks the offset that text returns with an error.
func TestTextErrors(t *testing.T) {
	for _, b := range []string{"\x01\x00\x00", "\x02\x00\x00\x00x", "\x01\x00\x00\x00\xff"} {
		d := Decoder{b: []byte(b)}
		if off, err := d.text(d.b, 0, 0, 0, "field"); off != 0 || err == nil || !strings.Contains(err.Error(), "field") {
			t.Errorf("%q: %d, %v", b, off, err)
		}
	}
}

// TestTailBudget checks that a log is corrupt if its possible frames have more
// bytes than promised reads, and not if they have that many.
func TestTailBudget(t *testing.T) {
	h := LogHeader{Salt: 7, Seq: 12, Store: ID{1}, Epoch: ID{2}}
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
