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

	"github.com/google/go-cmp/cmp"
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

// TestLogVersion opens, reads, checks, and repairs stores with a log of another version:
// as the log, as its second link, and next to a symbolic link to the store. The message
// names the log and its version, and the bytes of all files stay. Only KeepDB quarantines
// the log.
func TestLogVersion(t *testing.T) {
	for _, version := range []string{"0", "1", "3"} {
		v := vector(t, "log", "header-version-"+version)
		log := string(v.Files["wal"])
		for _, name := range []string{"memory.db-wal", "memory.db-wal.held", "link-wal", "link-wal.held"} {
			t.Run(version+" "+name, func(t *testing.T) {
				path := Place(t, map[string][]byte{"db": v.DB()})
				dir := filepath.Dir(path)
				if err := errors.Join(os.WriteFile(filepath.Join(dir, name), []byte(log), 0o600), os.Symlink("memory.db", filepath.Join(dir, "link"))); err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(name, "link") {
					path = filepath.Join(dir, "link")
				}
				before := filesIn(t, dir)
				refused := func(what string, err error) {
					t.Helper()
					if err == nil || !errors.Is(err, crmem.ErrFormat) || errors.Is(err, crmem.ErrOlder) == (version == "3") ||
						errors.Is(err, crmem.ErrNewer) != (version == "3") || !strings.Contains(err.Error(), name+": offset 6: log version: version "+version+", ") {
						t.Errorf("%s: %v", what, err)
					}
					after := filesIn(t, dir)
					delete(after, "memory.db-lock")
					if d := cmp.Diff(before, after); d != "" {
						t.Errorf("%s changed files:\n%s", what, d)
					}
				}
				_, err := crmem.Open(path, nil)
				refused("open", err)
				if name == "memory.db-wal" {
					_, err = crmem.Open(path, &crmem.Options{ReadOnly: true})
					refused("read", err)
				}
				r, err := crmem.Check(vfs.OS{}, path, 0)
				if err != nil || len(r.Problems) == 0 || !strings.Contains(r.Problems[0].Remedy, "the program that wrote the ") {
					t.Fatalf("check: %+v, %v", r, err)
				}
				refused("check", r.Problems[0].Err)
				if strings.HasPrefix(name, "link") {
					return // repair does not move files next to a link
				}
				for _, o := range []crmem.RepairOptions{{}, {Rejoin: true}, {KeepLog: path}, {QuarantineNewer: true}} {
					_, err := crmem.Repair(path, &o)
					refused("repair", err)
				}
				if name != "memory.db-wal" {
					return
				}
				rep, err := crmem.Repair(path, &crmem.RepairOptions{KeepDB: true})
				if err != nil || len(rep.Files) != 1 {
					t.Fatalf("repair --keep-db: %+v, %v", rep, err)
				}
				if b, err := os.ReadFile(rep.Files[0].Kept); err != nil || string(b) != log {
					t.Errorf("the quarantine file: %v", err)
				}
				s, err := crmem.Open(path, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := names(s.All()); got != "a b" {
					t.Errorf("entries %q", got)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
