package inspect_test

import (
	"errors"
	"slices"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/inspect"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
)

// TestInspectFrameFields checks the fields of one frame.
func TestInspectFrameFields(t *testing.T) {
	want := []string{"type 1 put", "zero 0x00", "context_len 12", "len 53", "seq 1"}
	m := faultfs.NewMem()
	s, err := crmem.Open("/m.db", &crmem.Options{FS: m, CheckpointOnClose: crmem.CheckpointNever})
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
		t.Errorf("%q, want %q", got, want)
	}
}
