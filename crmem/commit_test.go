package crmem

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs/faultfs"
)

// TestGroupMemoryIsReused commits groups around the sizes up to which the next
// group reuses their memory.
func TestGroupMemoryIsReused(t *testing.T) {
	s := opened(t, "/m.db", &Options{FS: faultfs.NewMem(), LogLimit: 1 << 30, CheckpointOnClose: CheckpointNever}, 0)
	noErr(t, s.Apply(Add{Name: "a"}))
	overhead := len(s.written.buf)
	for _, c := range []struct {
		bytes  int
		reused bool
	}{{1<<20 - 1, true}, {1 << 20, false}} {
		noErr(t, s.Apply(Update{Name: "a", Content: strings.Repeat("x", c.bytes-overhead)}))
		if (s.written != nil) != c.reused || c.reused && len(s.written.buf) != c.bytes {
			t.Errorf("%d bytes: reused %t", c.bytes, s.written != nil)
		}
	}
	noErr(t, s.Apply(Update{Name: "a"}))
	for _, n := range []int{1<<12 - 1, 1 << 12} {
		ops := make([]Op, n)
		for i := range ops {
			ops[i] = Alias{Name: "a"}
		}
		noErr(t, s.Apply(ops...))
		if (s.written != nil) != (n < 1<<12) {
			t.Errorf("%d operations: reused %t", n, s.written != nil)
		}
	}
	noErr(t, s.Close())
}

// TestNewGroupIsEmpty begins groups with the memory of a written group, and
// without.
func TestNewGroupIsEmpty(t *testing.T) {
	buf, effects := make([]byte, 9), []effect{{typ: format.FramePut, id: 1}, {typ: format.FramePut, id: 2}}
	s := &Store{written: &group{buf: buf, names: map[string]format.Record{"a": "b"}, effects: effects}}
	for i, c := range []struct{ bytes, effects int }{{9, 2}, {0, 0}} {
		g := s.newGroup(7)
		if g.start != 7 || g.done == nil || g.names == nil || len(g.names) != 0 || len(g.buf) != 0 || len(g.effects) != 0 || cap(g.buf) != c.bytes || cap(g.effects) != c.effects {
			t.Errorf("group %d: %+v", i, g)
		}
		if s.written != nil {
			t.Error("the memory is still in the store")
		}
	}
	if effects[0].id != 0 || effects[1].id != 0 {
		t.Errorf("the records stay in memory: %v", effects)
	}
}

// TestCrowdIsCallersOfGroup stages writes of several callers in one group.
func TestCrowdIsCallersOfGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := faultfs.NewMem()
		s := opened(t, "/m.db", &Options{FS: m}, 0)
		noErr(t, s.Apply(Add{Name: "first"}))
		if s.crowd != 1 {
			t.Errorf("%d callers, want 1", s.crowd)
		}
		release := make(chan struct{})
		m.Hook = func(c faultfs.Call) error {
			if c.Op == "datasync" {
				<-release
			}
			return nil
		}
		for i := range 4 {
			go func() { noErr(t, s.Apply(Add{Name: fmt.Sprint(i)}, Alias{Name: fmt.Sprint(i)})) }()
			synctest.Wait()
		}
		if s.staging.callers != 3 || len(s.staging.effects) != 6 || s.flight.callers != 1 {
			t.Errorf("%d callers with %d effects staged, %d in flight", s.staging.callers, len(s.staging.effects), s.flight.callers)
		}
		close(release)
		synctest.Wait()
		if s.crowd != 3 || s.staging != nil || s.flight != nil || s.Len() != 5 {
			t.Errorf("%d callers, %d entries; staged %v, in flight %v", s.crowd, s.Len(), s.staging, s.flight)
		}
		noErr(t, s.Close())
	})
}

// TestCheckpointAboveLogLimit writes until the log has exactly the length of the
// limit, and one byte more.
func TestCheckpointAboveLogLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, "/m.db", &Options{FS: faultfs.NewMem(), LogLimit: 1 << 20, CheckpointOnClose: CheckpointNever}, 0)
		noErr(t, s.Apply(Add{Name: "a"}))
		before := s.w.End
		noErr(t, s.Apply(Update{Name: "a"}))
		frame := s.w.End - before
		for _, c := range []struct {
			limit int64
			ops   int
		}{{0, 3}, {-1, 0}} {
			s.opts.LogLimit = s.w.End + frame + c.limit
			noErr(t, s.Apply(Update{Name: "a"}))
			synctest.Wait()
			if s.ops != c.ops {
				t.Errorf("limit %d bytes above the log: %d operations in the log, want %d", c.limit, s.ops, c.ops)
			}
		}
		noErr(t, s.Close())
	})
}
