package crmem_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
)

// TestNewerKind opens, checks, and repairs stores with an entry of kind 2: in the
// snapshot, in the log, and in a snapshot that changed after the log was written. A
// file that is otherwise valid is from a newer program, and only QuarantineNewer
// lets a repair change it.
func TestNewerKind(t *testing.T) {
	topic, logged := vector(t, "snapshot", "kind-2"), vector(t, "log", "frame-put-kind-2")
	trailing := append(bytes.Clone(topic.DB()), 0)
	changed := bytes.Clone(logged.DB())
	changed[0x2c] = 2 // the log's digest shows that the snapshot was different
	for _, row := range []struct {
		name  string
		files map[string][]byte
		newer bool
		left  int // entries after a repair
	}{
		{"snapshot", topic.Files, true, 0},
		{"log", logged.Files, true, 3},
		{"snapshot that is corrupt, too", map[string][]byte{"db": trailing}, false, 0},
		{"snapshot that changed", map[string][]byte{"db": changed, "wal": logged.Files["wal"]}, false, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := Place(t, row.files)
			for _, o := range []*crmem.Options{nil, {ReadOnly: true}} {
				if _, err := crmem.Open(path, o); !errors.Is(err, crmem.ErrFormat) || errors.Is(err, crmem.ErrNewer) != row.newer {
					t.Errorf("open: %v", err)
				}
			}
			r, err := crmem.Check(vfs.OS{}, path, 0)
			if err != nil || len(r.Problems) == 0 {
				t.Fatalf("check: %+v, %v", r, err)
			}
			p := r.Problems[0]
			if strings.Contains(p.Remedy, "repair") == row.newer || strings.Contains(p.Message, "newer program") != row.newer {
				t.Errorf("%s: %s", p.Message, p.Remedy)
			}
			o := &crmem.RepairOptions{FS: vfs.OS{}}
			rep, err := crmem.Repair(path, o)
			if row.newer {
				if !errors.Is(err, crmem.ErrNewer) || !strings.Contains(err.Error(), "nothing was changed") {
					t.Fatalf("repair: %+v, %v", rep, err)
				}
				if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, row.files["db"]) {
					t.Errorf("the repair changed the file: %v", err)
				}
				o.QuarantineNewer = true
				rep, err = crmem.Repair(path, o)
			}
			if err != nil || rep.Entries != row.left || len(rep.Files) == 0 {
				t.Fatalf("repair: %+v, %v; want %d entries", rep, err, row.left)
			}
			if kept, _ := filepath.Glob(path + "*.damaged-*"); len(kept) == 0 {
				t.Error("no quarantine file")
			}
		})
	}
}
