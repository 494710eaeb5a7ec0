//go:build unix

package displaced_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
)

// repairCases lists changes to a store, and the repair that restores the entries.
var repairCases = []struct {
	name string
	do   func(a *actor)
	opts crmem.RepairOptions
}{
	{"log removed", func(a *actor) { must(a.m.Remove(a.m.store() + "-wal")) }, crmem.RepairOptions{}},
	{"log removed, rejoin", func(a *actor) { must(a.m.Remove(a.m.store() + "-wal")) }, crmem.RepairOptions{Rejoin: true}},
	{"log replaced by an older one", func(a *actor) { replaceOlder(a.m, a.m.store()+"-wal") }, crmem.RepairOptions{}},
	{"log replaced by an older one, rejoin", func(a *actor) { replaceOlder(a.m, a.m.store()+"-wal") }, crmem.RepairOptions{Rejoin: true}},
	{"write to a replaced log", func(a *actor) {
		replaceOlder(a.m, a.m.store()+"-wal")
		a.write("b")
	}, crmem.RepairOptions{}},
	{"stop with a removed snapshot", func(a *actor) {
		must(a.m.Remove(a.m.store()))
		a.close()
		list, err := a.m.ReadDir("/home")
		must(err)
		for _, e := range list {
			if ownName.MatchString("/" + e.Name()) {
				create(a.m, a.m.store(), read(a.m, "/home/"+e.Name()))
			}
		}
	}, crmem.RepairOptions{KeepDB: true}},
}

// replaceOlder replaces a file with the earlier copy.
func replaceOlder(m machine, name string) { create(m, name, read(m, older(m, name))) }

// TestRepairCrash stops the repair of each case before every call, by a kill
// and by power cuts, and repairs again.
func TestRepairCrash(t *testing.T) {
	states := 0
	for _, c := range repairCases {
		for _, st := range starts[:2] {
			a := newActor(newMem())
			st.do(a, crmem.CheckpointAlways)
			c.do(a)
			m := a.m.(memMachine).rebooted().(memMachine)
			for _, i := range crashStates(m, func(m memMachine) error { _, err := runRepair(m, c.opts); return err }, t) {
				states++
				where := fmt.Sprintf("%s, %s: %s", c.name, st.name, i.how)
				if _, err := runRepair(i.m, c.opts); err != nil {
					t.Errorf("%s: repair: %v", where, err)
					continue
				}
				lines, state, err := reopen(i.m)
				o := &oracle{t: t, acked: a.acked, maybe: a.maybe}
				if err != nil || !o.has(state) {
					t.Errorf("%s: %v %q: %v, want %v", where, err, lines, state, a.acked)
				}
			}
		}
	}
	t.Logf("repairs: %d crash states", states)
}

// crashState is a machine after a crash.
type crashState struct {
	how string
	m   memMachine
}

// crashStates runs a function and returns the machines after a crash before each
// of its calls.
func crashStates(m memMachine, run func(memMachine) error, t *testing.T) (list []crashState) {
	rng := rand.New(rand.NewPCG(1, 2))
	m = m.copied(t).(memMachine)
	m.Hook = func(c faultfs.Call) error {
		at := fmt.Sprintf("before %+v: ", c)
		list = append(list, crashState{at + "kill", memMachine{m.Kill()}}, crashState{at + "power cut", memMachine{m.Crash()}})
		for range 4 {
			outcomes := make([]faultfs.Outcome, len(m.Unsynced()))
			for i := range outcomes {
				outcomes[i] = []faultfs.Outcome{faultfs.Lost, faultfs.Kept, faultfs.Zeroed}[rng.IntN(3)]
			}
			list = append(list, crashState{at + fmt.Sprint("power cut ", outcomes), memMachine{m.Crash(outcomes...)}})
		}
		return nil
	}
	if err := run(m); err != nil {
		t.Errorf("without a crash: %v", err)
	}
	return list
}
