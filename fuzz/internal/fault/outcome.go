// Package fault injects faults into a program on a [faultfs.Mem]. It loses unsynced
// changes in crashes, fails calls, and corrupts bytes.
package fault

import (
	"math/rand/v2"

	"crabmem/crmem/vfs/faultfs"
)

// Mutates reports whether a call changes the set of crash states.
func Mutates(op string) bool {
	switch op {
	case "create", "write", "truncate", "sync", "datasync", "syncdir", "rename", "link", "remove", "mkdir", "lock":
		return true
	}
	return false
}

// Grows reports whether a call adds a crash state.
func Grows(op string) bool {
	switch op {
	case "create", "write", "truncate", "rename", "link", "remove", "mkdir":
		return true
	}
	return false
}

// Ends is the limit with which EachOutcome yields only two outcomes: all changes
// are lost, and all are kept.
const Ends = -1

// EachOutcome yields outcomes of the unsynced changes:
//
//   - No changes are kept, and all are kept.
//   - For up to limit changes, each subset is kept. For more changes, each change is
//     kept alone, each is lost alone, and 64 random subsets are kept.
//   - Each write is kept in part, with all other changes, with only the changes of
//     names, and alone.
//
// Changes that idle selects, such as the text of a lock file, do not multiply the
// outcomes. They are all kept in some outcomes and all lost in others. A yielded
// slice is valid until yield returns.
func EachOutcome(changes []faultfs.Change, limit int, idle func(faultfs.Change) bool, yield func([]faultfs.Outcome)) {
	var at []int // indexes of the changes that are not idle
	f := make([]faultfs.Outcome, len(changes))
	for i, c := range changes {
		if !idle(c) {
			at = append(at, i)
		}
	}
	setIdle := func(o faultfs.Outcome) {
		for i, c := range changes {
			if idle(c) {
				f[i] = o
			}
		}
	}
	set := func(kept func(i int) bool) {
		for _, i := range at {
			f[i] = faultfs.Lost
			if kept(i) {
				f[i] = faultfs.Kept
			}
		}
	}
	all := func(int) bool { return true }
	none := func(int) bool { return false }
	names := func(i int) bool { return changes[i].Op != "write" && changes[i].Op != "truncate" }

	set(none)
	yield(f)
	setIdle(faultfs.Kept)
	set(all)
	yield(f)
	if limit == Ends {
		return
	}
	if len(at) <= limit {
		for bits := range uint64(1) << len(at) {
			for k, i := range at {
				f[i] = faultfs.Outcome(bits >> k & 1)
			}
			setIdle(faultfs.Outcome(bits & 1))
			yield(f)
		}
	} else {
		for _, i := range at {
			set(func(j int) bool { return j != i })
			yield(f)
			setIdle(faultfs.Lost)
			set(func(j int) bool { return j == i })
			yield(f)
			setIdle(faultfs.Kept)
		}
		r := rand.New(rand.NewPCG(1, uint64(len(at))))
		for range 64 {
			set(func(int) bool { return r.IntN(2) == 0 })
			yield(f)
		}
	}
	for _, i := range at {
		if changes[i].Op != "write" {
			continue
		}
		parts := []faultfs.Outcome{faultfs.Zeroed, faultfs.Garbage}
		for k := range changes[i].Cuts {
			parts = append(parts, faultfs.Cut(k+1))
		}
		for _, kept := range []func(int) bool{all, names, none} {
			set(kept)
			for _, part := range parts {
				f[i] = part
				yield(f)
			}
		}
	}
}

// RandomOutcome returns a random outcome of the changes. It keeps about percent of
// the changes, and about a quarter of the kept writes only in part.
func RandomOutcome(r *rand.Rand, changes []faultfs.Change, percent int) []faultfs.Outcome {
	f := make([]faultfs.Outcome, len(changes))
	for i, c := range changes {
		if r.IntN(100) >= percent {
			continue
		}
		f[i] = faultfs.Kept
		if c.Op == "write" && r.IntN(4) == 0 {
			f[i] = faultfs.Zeroed + faultfs.Outcome(r.IntN(2))
			if c.Cuts > 0 && r.IntN(2) == 0 {
				f[i] = faultfs.Cut(1 + r.IntN(c.Cuts))
			}
		}
	}
	return f
}
