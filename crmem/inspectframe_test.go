package crmem

import (
	"slices"
	"testing"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
)

// TestInspectFrameFields checks the fields of one frame of each log version.
func TestInspectFrameFields(t *testing.T) {
	for version, want := range map[int][]string{
		format.LogVersion1: {"type 1 put", "zero 0x000000", "len 41", "seq 1"},
		format.LogVersion:  {"type 1 put", "zero 0x00", "context_len 0", "len 41", "seq 1"},
	} {
		m := vfs.NewMem()
		s := opened(t, "/m.db", &Options{FS: m, LogVersion: version, CheckpointOnClose: CheckpointNever}, 0)
		noErr(t, s.Apply(Add{Name: "name", Content: "text!"}))
		noErr(t, s.Close())
		var got []string
		for f, err := range Inspect(memBytes(t, m, "/m.db-wal")) {
			noErr(t, err)
			if f.Name == "type" || len(got) > 0 && len(got) < len(want) {
				got = append(got, f.Name+" "+f.Value)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("version %d: %q, want %q", version, got, want)
		}
	}
}
