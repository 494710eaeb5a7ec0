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

// written returns a machine with a store. The snapshot has entries, and the log has operations of every type. The writer was killed.
func written(t *testing.T) memMachine {
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

// replaceLog changes a store as a program does that writes to a copy without the log,
// and puts the files of the copy in place of those of the store. The second link
// remains.
func replaceLog(t *testing.T, m machine, writes func(s *crmem.Store) error) {
	t.Helper()
	other := newMem()
	for _, suffix := range []string{"", "-id"} {
		create(other, other.store()+suffix, read(m, m.store()+suffix))
	}
	s, err := crmem.Open(other.store(), options(other, crmem.CheckpointNever, nil))
	must(err)
	if err := writes(s); err != nil {
		t.Fatal(err)
	}
	dead := other.copied(t)
	create(m, m.store()+"-wal", read(dead, dead.store()+"-wal"))
	create(m, m.store(), read(dead, dead.store()))
	overwrite(m, m.store()+"-lock", []byte(vfs.LockHolder{PID: 1, Boot: m.BootID(), Command: "other", Clean: -1}.Text()))
}

func runRepair(m machine, o crmem.RepairOptions) (*crmem.RepairResult, error) {
	o.FS = m
	return crmem.Repair(m.store(), &o)
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

// otherWrites lists writes of another program to a copy of the store.
var otherWrites = []struct {
	name  string
	do    func(s *crmem.Store) error
	texts map[string]string // entry: content that must survive
	note  string            // expected note in the report of a rejoin
}{
	{"new entries", func(s *crmem.Store) error {
		return s.Apply(crmem.Add{Name: "other 1", Content: "other one"}, crmem.Add{Name: "other 2", Content: "other two"})
	}, map[string]string{"other 1": "other one", "other 2": "other two"}, ""},
	{"conflicts", func(s *crmem.Store) error {
		_, err := s.Remember("updated", "other updated", nil)
		return errors.Join(err, s.Apply(crmem.Add{Name: "both", Content: "other both"}, crmem.Add{Name: "same", Content: "equal"}))
	}, map[string]string{"updated": "other updated", "both": "other both", "same": "equal"}, ""},
	{"new entries, checkpoint", func(s *crmem.Store) error {
		return errors.Join(s.Apply(crmem.Add{Name: "other 1", Content: "other one"}), s.Checkpoint())
	}, map[string]string{"other 1": "other one"}, ""},
	{"conflicts, checkpoint, new entries", func(s *crmem.Store) error {
		_, err := s.Remember("updated", "other updated", nil)
		return errors.Join(err, s.Apply(crmem.Add{Name: "both", Content: "other both"}), s.Checkpoint(),
			s.Apply(crmem.Add{Name: "other 1", Content: "other one"}))
	}, map[string]string{"updated": "other updated", "both": "other both", "other 1": "other one"}, ""},
	{"a removal", func(s *crmem.Store) error { return s.Forget("kept") }, nil, ""},
	{"a change of an entry that the log removes", func(s *crmem.Store) error {
		_, err := s.Remember("removed", "other removed", nil)
		return err
	}, map[string]string{"removed": "other removed"}, `removes "removed", but the store changed the entry: kept it`},
}

// logTexts contains the entries of the first log, with their contents.
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

// TestRejoin rejoins a log that another program replaced by its own.
func TestRejoin(t *testing.T) {
	for _, w := range otherWrites {
		t.Run(w.name, func(t *testing.T) {
			m := written(t)
			replaceLog(t, m, w.do)
			if _, _, err := reopen(m.copied(t)); !errors.Is(err, crmem.ErrForeign) || !strings.Contains(err.Error(), "memory.db-wal.held") {
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

// TestRejoinCrash stops a rejoin before every call, by a kill and by power
// cuts, and rejoins again.
func TestRejoinCrash(t *testing.T) {
	states := 0
	for _, w := range otherWrites {
		m := written(t)
		replaceLog(t, m, w.do)
		m = m.rebooted().(memMachine) // all writes so far are durable
		images := crashStates(m, func(m memMachine) error { _, err := runRepair(m, crmem.RepairOptions{Rejoin: true}); return err }, t)
		for _, i := range images {
			states++
			where := fmt.Sprintf("%s: %s", w.name, i.how)
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
	t.Logf("rejoin: %d crash states", states)
}
