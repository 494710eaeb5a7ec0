package crmem

import (
	"errors"
	"strings"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// TestLoadFillsLog replaces the state of a store when the log has exactly enough
// room, and when it has one byte less.
func TestLoadFillsLog(t *testing.T) {
	race.Skip(t)
	const maxBytes = 1 << 20
	text := strings.Repeat("x", maxBytes-4096)
	for _, missing := range []int64{0, 1} {
		s := opened(t, "/m.db", &Options{FS: faultfs.NewMem(), MaxBytes: maxBytes, LogLimit: 1 << 40, CheckpointOnClose: CheckpointNever, By: Actor{Client: ClientLoad}}, 0)
		noErr(t, s.Apply(Add{Name: "a"}))
		before := s.Stats().LogBytes
		noErr(t, s.Apply(Update{Name: "a"}))
		frame := s.Stats().LogBytes - before // without content
		var ops []Op
		for left := maxLogFor(maxBytes) - s.Stats().LogBytes - (frame + 10 - missing); left > 0; {
			n := min(left-frame, int64(len(text)))
			if rest := left - frame - n; rest > 0 && rest < frame {
				n -= frame
			}
			ops = append(ops, Update{Name: "a", Content: text[:n]})
			left -= frame + n
		}
		noErr(t, s.Apply(ops...))
		list := s.Snapshot()
		e, ok := list.Get("a")
		if !ok {
			t.Fatal("no entry")
		}
		e.Content = "ten bytes."
		sn, err := NewSnapshot(list.NextID, []Entry{e})
		noErr(t, err)
		if err := s.Replace(sn); errors.Is(err, ErrFull) != (missing > 0) || err != nil && missing == 0 {
			t.Errorf("%d bytes missing: %v", missing, err)
		}
		noErr(t, s.Close())
	}
}
