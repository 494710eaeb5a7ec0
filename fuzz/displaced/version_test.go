//go:build unix

package displaced_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
)

// logVersion returns the version of a store's log.
func logVersion(m machine) uint16 { return binary.LittleEndian.Uint16(read(m, m.store()+"-wal")[6:]) }

// openVersion opens a store that begins logs of this version at checkpoints.
func openVersion(m machine, version int) (*crmem.Store, error) {
	o := options(m, crmem.CheckpointNever, nil)
	o.LogVersion = version
	return crmem.Open(m.store(), o)
}

// inVersion returns a machine with a killed writer. The store has a snapshot with
// an entry, and a log of this version with an operation.
func inVersion(t *testing.T, version int) memMachine {
	m := newMem()
	s, err := openVersion(m, version)
	must(err)
	must(s.Apply(crmem.Add{Name: "s1", Content: "one"}))
	must(s.Checkpoint())
	must(s.Apply(crmem.Add{Name: "a1", Content: "first"}))
	return m.copied(t).(memMachine).rebooted().(memMachine)
}

// TestLogVersionChange checks that a version 1 log gets version 1 frames until a
// checkpoint begins a version 2 log, and vice versa.
func TestLogVersionChange(t *testing.T) {
	for _, from := range []int{1, 2} {
		to := 3 - from
		m := newMem()
		s, err := openVersion(m, from)
		must(err)
		must(errors.Join(s.Apply(crmem.Add{Name: "a1", Content: "first"}), s.Close()))
		if s, err = openVersion(m, to); err != nil {
			t.Fatal(err)
		}
		must(s.Apply(crmem.Add{Name: "a2", Content: "second"}))
		if got := logVersion(m); int(got) != from {
			t.Errorf("from %d to %d: the log has version %d after a write", from, to, got)
		}
		must(s.Checkpoint())
		if got := logVersion(m); int(got) != to {
			t.Errorf("from %d to %d: the log has version %d after a checkpoint", from, to, got)
		}
		must(errors.Join(s.Apply(crmem.Add{Name: "a3", Content: "third"}), s.Close()))
		lines, state, err := reopen(m)
		if err != nil || len(state) != 3 || len(lines) > 0 {
			t.Errorf("from %d to %d: %v %v %q", from, to, err, state, lines)
		}
	}
}

// TestRestartCrash stops changes of the identity and of the log version before
// every call, by a kill and by power cuts. The next writer must open the store and
// find every acknowledged entry.
func TestRestartCrash(t *testing.T) {
	states := 0
	for name, do := range map[string]func(m memMachine, ack func(string)) error{
		"identity": func(m memMachine, ack func(string)) error {
			s, err := openVersion(m, 2)
			if err == nil {
				err = s.Apply(crmem.Add{Name: "b1", Content: "new"})
			}
			if err == nil {
				ack("b1")
				err = s.NewIdentity()
			}
			if err == nil {
				err = s.Apply(crmem.Add{Name: "b2", Content: "new"})
			}
			if err == nil {
				ack("b2")
				err = s.Close()
			}
			return err
		},
		"to version 1": func(m memMachine, ack func(string)) error { return writeVersion(m, 1, ack) },
		"to version 2": func(m memMachine, ack func(string)) error { return writeVersion(m, 2, ack) },
	} {
		for _, from := range []int{1, 2} {
			m := inVersion(t, from)
			acked := map[string]string{"s1": "one", "a1": "first"}
			m.Hook = func(c faultfs.Call) error {
				kept := make([]faultfs.Outcome, len(m.Unsynced()))
				for i := range kept {
					kept[i] = faultfs.Kept
				}
				want := maps.Clone(acked)
				hook := m.Hook
				m.Hook = nil
				for how, after := range map[string]*faultfs.Mem{"kill": m.Kill(), "power cut": m.Crash(), "power cut, all kept": m.Crash(kept...)} {
					states++
					_, state, err := reopen(memMachine{after})
					o := &oracle{t: t, acked: want, maybe: map[string]string{"b1": "new", "b2": "new"}}
					if err != nil || !o.has(state) || len(o.extra) > 0 {
						t.Errorf("%s from version %d, %s before %+v: %v, %v, want %v", name, from, how, c, err, state, want)
					}
				}
				m.Hook = hook
				return nil
			}
			if err := do(m, func(entry string) { acked[entry] = "new" }); err != nil {
				t.Errorf("%s from version %d: %v", name, from, err)
			}
		}
	}
	t.Logf("restarts: %d crash states", states)
}

func writeVersion(m memMachine, version int, ack func(string)) error {
	s, err := openVersion(m, version)
	for i := 1; i <= 2 && err == nil; i++ {
		name := fmt.Sprint("b", i)
		if err = s.Apply(crmem.Add{Name: name, Content: "new"}); err == nil {
			ack(name)
			err = s.Checkpoint()
		}
	}
	if err == nil {
		err = s.Close()
	}
	return err
}
