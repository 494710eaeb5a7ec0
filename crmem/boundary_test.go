package crmem

import (
	"testing"

	"crabmem/crmem/internal/format"
)

// TestBoundary looks for the segment before one whose predecessor is missing: operations
// from its first one on do not count (FORMAT.md, H4).
func TestBoundary(t *testing.T) {
	epoch := format.NewID()
	segments := []segment{
		{head: format.LogHeader{Epoch: format.NewID(), Seq: 3}},
		{head: format.LogHeader{Epoch: epoch, Seq: 5}},
		{head: format.LogHeader{Epoch: epoch, Seq: 9}},
	}
	for seq, want := range map[uint64][2]uint64{9: {1, 8}, 10: {2, 9}, 5: {0, noLimit}, 3: {0, noLimit}} {
		i, limit := boundary(segments, &format.LogHeader{Epoch: epoch, Seq: seq})
		if [2]uint64{uint64(i), limit} != want {
			t.Errorf("before operation %d: segment %d up to %d, want %v", seq, i, limit, want)
		}
	}
}
