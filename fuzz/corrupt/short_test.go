package corrupt

import (
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
)

// TestShortLogRead makes the read of a log return too few bytes. Only the size of
// the log reveals this, because a log may end at any offset.
func TestShortLogRead(t *testing.T) {
	m := faultfs.NewMem()
	o := crmem.Options{FS: m, CheckpointOnClose: crmem.CheckpointNever}
	s, err := crmem.Open("/m.db", &o)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := s.Apply(crmem.Add{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	size := int(s.Stats().LogBytes)
	for n := range size {
		for _, read := range []bool{false, true} {
			m := m.Kill()
			short := 0
			m.Hook = func(c faultfs.Call) error {
				if c.Op != "read" || !strings.HasSuffix(c.Name, "-wal") || short > 0 {
					return nil
				}
				short++
				return &faultfs.Fault{Corrupt: func(b []byte) []byte { return b[:n] }}
			}
			warned := 0
			s, err := crmem.Open("/m.db", &crmem.Options{FS: m, ReadOnly: read, Warn: func(string) { warned++ }})
			if short != 1 {
				t.Fatalf("%d short reads, want 1", short)
			}
			if err == nil && s.Len() != 3 {
				t.Errorf("read %d of %d bytes of the log, read-only %t: %d entries, %d warnings", n, size, read, s.Len(), warned)
			}
			m.Hook = nil
			if s, err = crmem.Open("/m.db", &crmem.Options{FS: m.Kill()}); err != nil || s.Len() != 3 {
				t.Fatalf("after a short read of %d bytes: %v", n, err)
			}
		}
	}
}
