package crmem_test

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
)

// TestReserveSize checks that a store has a reserve as soon as its snapshot and its
// log have 1 MiB, and not before. With a reserve, it removes an entry on a full disk,
// and then leaves the space to the checkpoint.
func TestReserveSize(t *testing.T) {
	defer crmem.SetReserveFrom(1 << 20)()
	for _, through := range []string{"log", "checkpoint", "open"} {
		t.Run(through, func(t *testing.T) {
			m := faultfs.NewMem()
			has := func() bool {
				_, err := m.Lstat("/m.db-reserve")
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				return err == nil
			}
			o := &crmem.Options{FS: m, CheckpointOnClose: crmem.CheckpointNever}
			s := open(t, "/m.db", o)
			add := func(name string, size int) {
				_, err := s.Remember(name, strings.Repeat("a", size), nil)
				ok(t, err)
			}
			add("half", 1<<19)
			if has() {
				t.Error("a store of 0.5 MiB has a reserve")
			}
			if through == "checkpoint" {
				ok(t, s.Checkpoint())
			}
			add("more", 1<<19-2000) // below 1 MiB
			if has() {
				t.Error("a store below 1 MiB has a reserve")
			}
			if through == "checkpoint" {
				ok(t, s.Checkpoint())
			}
			add("rest", 4000)
			if !has() {
				t.Error("a store of 1 MiB has no reserve")
			}
			if through == "open" { // a log that another process left, and a new one
				ok(t, errors.Join(s.Checkpoint(), s.Close(), m.Remove("/m.db-reserve")))
				s = open(t, "/m.db", o)
				ok(t, s.Checkpoint())
				add("first", 10)
			}
			m.Hook = func(c faultfs.Call) error {
				if c.Op == "write" && strings.HasSuffix(c.Name, "-wal") && has() {
					return syscall.ENOSPC
				}
				return nil
			}
			ok(t, s.Forget("half"))
			add("after", 10)
			if has() {
				t.Error("a write used the free space for a reserve")
			}
		})
	}
}
