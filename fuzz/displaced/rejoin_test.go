//go:build unix

package displaced_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs"

	"github.com/google/go-cmp/cmp"
)

// upgraded returns a machine with a store whose log has version 2. The snapshot has
// entries, and the log has operations of every type. The writer was killed.
func upgraded(t *testing.T) memMachine {
	m := newMem()
	a := newActor(m)
	must(a.open(crmem.CheckpointAlways))
	for _, name := range []string{"kept", "updated", "removed", "aliased"} {
		must(a.remember(name, "snapshot "+name))
	}
	a.close()
	must(a.open(crmem.CheckpointAlways))
	must(a.s.Apply(crmem.Alias{Name: "aliased", Aliases: []string{"nick"}}))
	must(errors.Join(a.remember("updated", "log updated"), a.remember("both", "log both"),
		a.remember("new", "log new"), a.s.Forget("removed"), a.remember("same", "equal")))
	return m.copied(t).(memMachine)
}

// entries reads a store without a lock.
func entries(t *testing.T, m machine) (list []crmem.Entry, next uint64) {
	t.Helper()
	o := options(m, crmem.CheckpointNever, nil)
	o.ReadOnly = true
	s, err := crmem.Open(m.store(), o)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(s.All()), s.NextID()
}

// olderRepair changes a store as the repair of an older program does, which
// supports only version 1. Such a repair renames the log without reading it and
// begins a version 1 log. The older program then executes writes.
func olderRepair(t *testing.T, m memMachine, writes func(s *crmem.Store) error) {
	t.Helper()
	wal := m.store() + "-wal"
	create(m, wal+".damaged-0", read(m, wal))
	older := newMem()
	create(older, older.store(), read(m, m.store()))
	o := options(older, crmem.CheckpointNever, nil)
	o.LogVersion, o.Socket = 1, "begins the log"
	s, err := crmem.Open(older.store(), o)
	must(err)
	if writes != nil {
		if err := writes(s); err != nil {
			t.Fatal(err)
		}
	}
	dead := older.copied(t)
	create(m, wal, read(dead, dead.store()+"-wal"))
	create(m, m.store(), read(dead, dead.store()))
	overwrite(m, m.store()+"-lock", []byte(vfs.LockHolder{PID: 1, Boot: m.BootID(), Command: "older", Clean: -1}.Text()))
}

func runRepair(m machine, o crmem.RepairOptions) (*crmem.RepairResult, error) {
	o.FS = m
	return crmem.Repair(m.store(), &o)
}

// unlink removes the second link, as if the directory was copied without hard
// links.
func unlink(m machine) { must(m.Remove(m.store() + "-wal.held")) }

// remains lists the files that may contain the version 2 log: both, or one of them.
var remains = map[string]func(m machine){
	"both":            func(machine) {},
	"quarantine file": unlink,
	"second link":     func(m machine) { must(m.Remove(m.store() + "-wal.damaged-0")) },
}

// TestOlderRepair restores a version 2 log that an older program quarantined.
func TestOlderRepair(t *testing.T) {
	for _, linked := range []bool{true, false} {
		t.Run(fmt.Sprint("second link ", linked), func(t *testing.T) {
			m := upgraded(t)
			want, next := entries(t, m)
			olderRepair(t, m, nil)
			if !linked {
				unlink(m)
			}
			_, _, err := reopen(m.copied(t))
			if !errors.Is(err, crmem.ErrForeign) || !strings.Contains(err.Error(), "crabmem repair --rejoin") || !strings.Contains(err.Error(), ".damaged-0") {
				t.Errorf("open: %v", err)
			}
			if _, err := runRepair(m.copied(t), crmem.RepairOptions{}); !linked && (err == nil || !strings.Contains(err.Error(), "--rejoin")) {
				t.Errorf("repair: %v", err)
			}
			if _, err := runRepair(m, crmem.RepairOptions{Rejoin: true}); err != nil {
				t.Fatal(err)
			}
			got, gotNext := entries(t, m)
			if d := cmp.Diff(want, got); d != "" || next != gotNext {
				t.Errorf("next ID %d, want %d; entries (-want +got):\n%s", gotNext, next, d)
			}
			settled(t, m)
		})
	}
}

// settled checks that a repaired store opens without messages, and that a second
// rejoin makes no change. Only the second link may be another link to the log.
func settled(t *testing.T, m machine) {
	t.Helper()
	before, _ := entries(t, m)
	if rep, err := runRepair(m, crmem.RepairOptions{Rejoin: true}); err != nil || len(rep.Files) > 0 || len(rep.Notes) > 0 {
		t.Errorf("second repair: %v %+v", err, rep)
	}
	lines, _, err := reopen(m)
	if err != nil || len(lines) > 0 {
		t.Errorf("open: %v, %q", err, lines)
	}
	after, _ := entries(t, m)
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("a second repair changed entries (-before +after):\n%s", d)
	}
	rep, err := crmem.Check(m, m.store(), 0)
	if err != nil || len(rep.Problems) > 0 {
		t.Errorf("check: %v %+v", err, rep)
	}
	log, err := m.Lstat(m.store() + "-wal")
	must(err)
	list, err := m.ReadDir("/home")
	must(err)
	for _, e := range list {
		fi, err := m.Lstat("/home/" + e.Name())
		must(err)
		if e.Name() != "memory.db-wal" && e.Name() != "memory.db-wal.held" && vfs.SameFile(fi, log) {
			t.Errorf("%s is a hard link to the log", e.Name())
		}
	}
}

// olderWrites lists writes of an older program after its repair.
var olderWrites = []struct {
	name  string
	do    func(s *crmem.Store) error
	texts map[string]string // entry: content that must survive
	note  string            // expected note in the report of a rejoin
}{
	{"new entries", func(s *crmem.Store) error {
		return s.Apply(crmem.Add{Name: "older 1", Content: "older one"}, crmem.Add{Name: "older 2", Content: "older two"})
	}, map[string]string{"older 1": "older one", "older 2": "older two"}, ""},
	{"conflicts", func(s *crmem.Store) error {
		_, err := s.Remember("updated", "older updated", nil)
		return errors.Join(err, s.Apply(crmem.Add{Name: "both", Content: "older both"}, crmem.Add{Name: "same", Content: "equal"}))
	}, map[string]string{"updated": "older updated", "both": "older both", "same": "equal"}, ""},
	{"new entries, checkpoint", func(s *crmem.Store) error {
		return errors.Join(s.Apply(crmem.Add{Name: "older 1", Content: "older one"}), s.Checkpoint())
	}, map[string]string{"older 1": "older one"}, ""},
	{"conflicts, checkpoint, new entries", func(s *crmem.Store) error {
		_, err := s.Remember("updated", "older updated", nil)
		return errors.Join(err, s.Apply(crmem.Add{Name: "both", Content: "older both"}), s.Checkpoint(),
			s.Apply(crmem.Add{Name: "older 1", Content: "older one"}))
	}, map[string]string{"updated": "older updated", "both": "older both", "older 1": "older one"}, ""},
	{"a removal", func(s *crmem.Store) error { return s.Forget("kept") }, nil, ""},
	{"a change of an entry that the log removes", func(s *crmem.Store) error {
		_, err := s.Remember("removed", "older removed", nil)
		return err
	}, map[string]string{"removed": "older removed"}, `removes "removed", but the store changed the entry: kept it`},
}

// logTexts contains the entries of the version 2 log, with their contents.
var logTexts = map[string]string{
	"updated": "log updated", "both": "log both", "new": "log new", "same": "equal", "aliased": "snapshot aliased",
}

// lacking returns the texts that no entry has, under its name or under a name that
// a rejoin assigned. It also returns the entries that occur twice.
func lacking(list []crmem.Entry, texts ...map[string]string) (missing, twice []string) {
	seen := map[string]bool{}
	for _, e := range list {
		name, _, _ := strings.Cut(e.Name, " (rejoined")
		key := name + "=" + e.Content
		if full := fmt.Sprint(key, e.Aliases); seen[full] {
			twice = append(twice, e.Name)
		} else {
			seen[key], seen[full] = true, true
		}
	}
	for _, want := range texts {
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if !seen[name+"="+want[name]] {
				missing = append(missing, name+"="+want[name])
			}
		}
	}
	return missing, twice
}

// TestRejoinAfterOlderWrites rejoins a log after the older program wrote.
func TestRejoinAfterOlderWrites(t *testing.T) {
	for _, w := range olderWrites {
		for which, keep := range remains {
			t.Run(w.name+", "+which, func(t *testing.T) {
				m := upgraded(t)
				olderRepair(t, m, w.do)
				keep(m)
				_, _, err := reopen(m.copied(t))
				if !errors.Is(err, crmem.ErrForeign) || !strings.Contains(err.Error(), "crabmem repair --rejoin") && which != "second link" {
					t.Errorf("open: %v", err)
				}
				if _, err := runRepair(m.copied(t), crmem.RepairOptions{}); err == nil || !strings.Contains(err.Error(), "--rejoin") {
					t.Errorf("repair: %v", err)
				}
				rep, err := runRepair(m, crmem.RepairOptions{Rejoin: true})
				if err != nil {
					t.Fatal(err)
				}
				list, _ := entries(t, m)
				if missing, twice := lacking(list, logTexts, w.texts); len(missing)+len(twice) > 0 {
					t.Errorf("missing: %q, twice: %q\n%+v\n%v", missing, twice, rep, list)
				}
				if !slices.ContainsFunc(list, func(e crmem.Entry) bool { return slices.Contains(e.Aliases, "nick") }) {
					t.Errorf("no entry has the alias of the log\n%+v\n%v", rep, list)
				}
				if !strings.Contains(strings.Join(rep.Notes, "\n"), w.note) {
					t.Errorf("notes %q, want %q", rep.Notes, w.note)
				}
				settled(t, m)
			})
		}
	}
}

// TestRejoinWithoutLog rejoins a log that exists only as a quarantine file.
func TestRejoinWithoutLog(t *testing.T) {
	m := upgraded(t)
	want, next := entries(t, m)
	must(m.Rename(m.store()+"-wal", m.store()+"-wal.damaged-0"))
	unlink(m)
	if _, err := runRepair(m, crmem.RepairOptions{Rejoin: true}); err != nil {
		t.Fatal(err)
	}
	got, gotNext := entries(t, m)
	if d := cmp.Diff(want, got); d != "" || next != gotNext {
		t.Errorf("next ID %d, want %d; entries (-want +got):\n%s", gotNext, next, d)
	}
	settled(t, m)
}

// TestRejoinCrash stops a rejoin before every call, by a kill and by power
// cuts, and rejoins again.
func TestRejoinCrash(t *testing.T) {
	states := 0
	for _, w := range olderWrites {
		for which, keep := range remains {
			m := upgraded(t)
			olderRepair(t, m, w.do)
			keep(m)
			// All writes so far are durable.
			m = m.rebooted().(memMachine)
			images := crashStates(m, func(m memMachine) error { _, err := runRepair(m, crmem.RepairOptions{Rejoin: true}); return err }, t)
			for _, i := range images {
				states++
				where := fmt.Sprintf("%s, %s: %s", w.name, which, i.how)
				rep, err := runRepair(i.m, crmem.RepairOptions{Rejoin: true})
				if err == nil && strings.Contains(strings.Join(rep.Notes, "\n"), "--rejoin again") {
					rep, err = runRepair(i.m, crmem.RepairOptions{Rejoin: true})
				}
				if err != nil {
					t.Errorf("%s: repair: %v", where, err)
					continue
				}
				list, _ := entries(t, i.m)
				if missing, twice := lacking(list, logTexts, w.texts); len(missing)+len(twice) > 0 {
					t.Errorf("%s: missing: %q, twice: %q, %+v", where, missing, twice, rep)
				}
				if _, _, err := reopen(i.m); err != nil {
					t.Errorf("%s: open: %v", where, err)
				}
			}
		}
	}
	t.Logf("rejoin: %d crash states", states)
}
