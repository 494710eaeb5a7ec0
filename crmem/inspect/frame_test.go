package inspect_test

import (
	"errors"
	"slices"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/inspect"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// TestInspectFrameFields checks the fields of one frame of each log version.
func TestInspectFrameFields(t *testing.T) {
	for version, want := range map[int][]string{
		format.LogVersion1: {"type 1 put", "zero 0x000000", "len 41", "seq 1"},
		format.LogVersion:  {"type 1 put", "zero 0x00", "context_len 12", "len 53", "seq 1"},
	} {
		m := faultfs.NewMem()
		s, err := crmem.Open("/m.db", &crmem.Options{FS: m, LogVersion: version, CheckpointOnClose: crmem.CheckpointNever})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Apply(crmem.Add{Name: "name", Content: "text!"}), s.Close()); err != nil {
			t.Fatal(err)
		}
		b, err := vfs.ReadFile(m, "/m.db-wal", 1<<10)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for f, err := range inspect.Fields(b) {
			if err != nil {
				t.Fatal(err)
			}
			if f.Name == "type" || len(got) > 0 && len(got) < len(want) {
				got = append(got, f.Name+" "+f.Value)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("version %d: %q, want %q", version, got, want)
		}
	}
}
