//go:build unix

package displaced_test

import (
	"errors"
	"maps"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
)

// TestRestartCrash stops a change of the identity before every call, by a kill and by
// power cuts. The next writer must open the store and find every acknowledged entry.
func TestRestartCrash(t *testing.T) {
	states := 0
	m := newMem()
	s, err := crmem.Open(m.store(), options(m, crmem.CheckpointNever, nil))
	must(err)
	must(errors.Join(s.Apply(crmem.Add{Name: "s1", Content: "one"}), s.Checkpoint(), s.Apply(crmem.Add{Name: "a1", Content: "first"})))
	m = m.copied(t).(memMachine).rebooted().(memMachine)
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
				t.Errorf("%s before %+v: %v, %v, want %v", how, c, err, state, want)
			}
		}
		m.Hook = hook
		return nil
	}
	s, err = crmem.Open(m.store(), options(m, crmem.CheckpointNever, nil))
	must(err)
	must(s.Apply(crmem.Add{Name: "b1", Content: "new"}))
	acked["b1"] = "new"
	must(s.NewIdentity())
	must(s.Apply(crmem.Add{Name: "b2", Content: "new"}))
	acked["b2"] = "new"
	must(s.Close())
	t.Logf("restarts: %d crash states", states)
}
