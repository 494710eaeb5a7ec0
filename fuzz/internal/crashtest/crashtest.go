// Package crashtest is a harness for tests that crash a program on a [faultfs.Mem]. It
// crashes sequences of operations and recoveries at each call, injects faults, and
// runs random histories. A test supplies the operations and checks each crash
// state.
package crashtest

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/internal/fault"
)

var (
	// Full reports whether CRABMEM_CRASH=full selects more and longer sequences.
	Full = os.Getenv("CRABMEM_CRASH") == "full"
	// Calls reports whether FailCalls runs all jobs: also with CRABMEM_CRASH=calls, which
	// mutants need.
	Calls = Full || os.Getenv("CRABMEM_CRASH") == "calls"
	// Slice is CRABMEM_CRASH_SLICE, at least 1. TestEnumerate runs one in Slice
	// sequences. A common divisor with the number of symbols would omit some last symbols.
	Slice = max(1, atoi(os.Getenv("CRABMEM_CRASH_SLICE")))

	seed = flag.Uint64("seed", 0, "run only the history of TestRandom with this seed; 0: the default histories")
	soak = flag.Int("soak", 0, "run this many histories of TestRandom with new seeds")
)

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// Main runs the tests of a package and exits. It sets the garbage collector for
// many short-lived machines.
func Main(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(800)
	debug.SetMemoryLimit(4 << 30)
	os.Exit(m.Run())
}

// violation is an error that states a bug in the program under test.
type violation struct{ message string }

func (v violation) Error() string { return v.message }

// Wrong returns an error that states a bug in the program under test, in contrast
// to an error that the program returned.
func Wrong(format string, args ...any) error { return violation{fmt.Sprintf(format, args...)} }

// IsWrong reports whether err is from Wrong.
func IsWrong(err error) bool {
	_, ok := errors.AsType[violation](err)
	return ok
}

// Each calls do with each value of jobs, on two goroutines. It returns after the
// last call.
func Each[J any](jobs func(yield func(J)), do func(J)) {
	queue := make(chan J)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for j := range queue {
				do(j)
			}
		})
	}
	jobs(func(j J) { queue <- j })
	close(queue)
	wg.Wait()
}

// maxLost is the number of violations after which a test stops.
const maxLost = 3

// Explorer crashes a machine at its calls and checks the crash states.
type Explorer struct {
	Name  string                    // name of the sequence in errors
	Limit int                       // see fault.EachOutcome
	Idle  func(faultfs.Change) bool // see fault.EachOutcome
	// Crashed checks a machine after a power cut.
	Crashed func(m *faultfs.Mem) error
	// Killed checks the machine after a kill of the process. If it is nil, no kill
	// occurs. grown is the value of Grown at the crash point.
	Killed  func(m *faultfs.Mem, grown bool) error
	Lost    *atomic.Int64 // counts the errors
	MaxLost int64         // the exploration stops after more errors; at least 3
	Fail    func(error)   // receives the first three errors

	On     bool // enables Hook
	Grown  bool // a crash can lose more than at the previous crash point
	Points int  // number of crash points
}

// Hook explores m before a call that changes the crash states.
func (x *Explorer) Hook(m *faultfs.Mem, c faultfs.Call) {
	if x.On && fault.Mutates(c.Op) {
		x.Explore(m, fmt.Sprintf("before call %d, %s %s", c.N, c.Op, c.Name))
		x.Grown = x.Grown || fault.Grows(c.Op)
	}
}

// Explore checks the crash states of m. If the set of crash states has not grown,
// it checks only two: all unsynced changes are kept, and all are lost.
func (x *Explorer) Explore(m *faultfs.Mem, where string) {
	limit := max(x.MaxLost, maxLost)
	if x.Lost.Load() > limit {
		return
	}
	x.Points++
	check := func(how string, err error) {
		if err != nil && x.Lost.Add(1) <= maxLost {
			x.Fail(fmt.Errorf("%s, %s, %s: %w", x.Name, where, how, err))
		}
	}
	changes := m.Unsynced()
	grown, outcomes := x.Grown, fault.Ends
	if grown {
		outcomes = x.Limit
	}
	x.Grown = false
	fault.EachOutcome(changes, outcomes, x.Idle, func(f []faultfs.Outcome) {
		if err := x.Crashed(m.Crash(f...)); err != nil {
			check(fmt.Sprintf("changes %+v, outcome %v", changes, f), err)
		}
	})
	if x.Killed != nil {
		check("killed", x.Killed(m, grown))
	}
}

// Play executes the steps of a sequence, and crashes m during and after the last
// step. Shorter sequences cover the other steps. Play stops and returns false if a
// step does not apply.
func (x *Explorer) Play(m *faultfs.Mem, seq []string, step func(symbol string, i int) (applies bool, err error)) (bool, error) {
	for i, symbol := range seq {
		x.On = i == len(seq)-1
		applies, err := step(symbol, i)
		if err != nil {
			return false, fmt.Errorf("%s: step %d: %w", x.Name, i+1, err)
		}
		if !applies {
			return false, nil
		}
	}
	x.Grown = true
	x.Explore(m, "at the end")
	return true, nil
}

// Sequences returns all sequences of length symbols.
func Sequences(alphabet []string, length int) [][]string {
	all := [][]string{nil}
	for range length {
		var next [][]string
		for _, seq := range all {
			for _, symbol := range alphabet {
				next = append(next, append(append([]string(nil), seq...), symbol))
			}
		}
		all = next
	}
	return all
}

// Job is a sequence with its scene, the initial state.
type Job struct {
	Scene string
	Seq   []string
}

// Enumerate plays jobs until lost exceeds 3. It counts each failed job in lost. It
// returns the number of crash points and the number of completed sequences.
func Enumerate(t *testing.T, lost *atomic.Int64, jobs func(yield func(Job)), play func(Job) (points int, done bool, err error)) (points, count int) {
	var mu sync.Mutex
	Each(func(yield func(Job)) {
		jobs(func(j Job) {
			if lost.Load() <= maxLost {
				yield(j)
			}
		})
	}, func(j Job) {
		n, done, err := play(j)
		if err != nil {
			lost.Add(1)
			t.Errorf("%s scene, %s: %v", j.Scene, strings.Join(j.Seq, " "), err)
		}
		mu.Lock()
		defer mu.Unlock()
		points += n
		if done {
			count++
		}
	})
	return points, count
}

// Recovery crashes a machine during a recovery and checks the crash states.
type Recovery struct {
	Limit int                                      // see fault.EachOutcome
	Idle  func(faultfs.Change) bool                // see fault.EachOutcome
	Image func(m *faultfs.Mem) uint64              // returns the identity of a disk
	Seen  *Memo[uint64, struct{}]                  // identities of the checked disks
	Check func(m *faultfs.Mem, image uint64) error // checks a disk that is not in Seen
	Err   error                                    // the first error of Check
}

// Hook checks the crash states of m before a call that changes them.
func (r *Recovery) Hook(m *faultfs.Mem, c faultfs.Call) {
	if !fault.Mutates(c.Op) || r.Err != nil {
		return
	}
	fault.EachOutcome(m.Unsynced(), r.Limit, r.Idle, func(f []faultfs.Outcome) {
		if r.Err != nil {
			return
		}
		crashed := m.Crash(f...)
		image := r.Image(crashed)
		if !r.Seen.Put(image, struct{}{}) {
			return
		}
		if err := r.Check(crashed, image); err != nil {
			r.Err = Wrong("crash during recovery, before call %d (%s %s), outcome %v: %v", c.N, c.Op, c.Name, f, err)
		}
	})
}

// FaultJob is a job and the fault to inject.
type FaultJob struct {
	Job
	Fault fault.Fault
}

// FailCalls runs each job repeatedly. In the n-th run, the n-th call that the
// fault applies to fails. The last run has fewer such calls. run returns the
// number of errors of each class, and FailCalls returns the sums. The test fails
// if a class in want does not occur. Without CRABMEM_CRASH=full or calls, it
// runs one job in eleven. After six wrong runs, or after one with
// CRABMEM_CRASH=calls, it begins no other job.
func FailCalls(t *testing.T, want []error, jobs func(yield func(FaultJob)),
	run func(Job, *fault.Injector) (map[error]int, error)) (runs, bad int, hit map[error]int) {
	hit = map[error]int{}
	most := 5 // wrong runs that do not end the test
	if Calls && !Full {
		most = 0
	}
	var mu sync.Mutex
	each := func(yield func(FaultJob)) {
		i := -1
		jobs(func(j FaultJob) {
			mu.Lock()
			over := bad > most
			mu.Unlock()
			if i++; !over && (Calls || i%11 == 0) {
				yield(j)
			}
		})
	}
	Each(each, func(j FaultJob) {
		for n := 1; ; n++ {
			e := &fault.Injector{Fault: j.Fault, N: n}
			classes, err := run(j.Job, e)
			mu.Lock()
			runs++
			for class, k := range classes {
				hit[class] += k
			}
			if err != nil {
				bad++
			}
			stop, report := bad > most, err != nil && bad <= max(most, 1)
			mu.Unlock()
			if report {
				t.Errorf("%s scene, %s, %s at hit %d (call %v): %v", j.Scene, strings.Join(j.Seq, " "), j.Fault.Name, n, e.At, err)
			}
			if e.Hit < n || stop {
				return
			}
			if n > 2000 {
				t.Errorf("%s: no run ends without the fault", j.Fault.Name)
				return
			}
		}
	})
	for _, class := range want {
		if hit[class] == 0 {
			t.Errorf("no run returned %q", class)
		}
	}
	return runs, bad, hit
}

// Outcomes returns outcomes of unsynced changes. They keep none, all, the first
// half, or all except one change. alone selects the changes of the last kind.
func Outcomes(changes []faultfs.Change, alone func(faultfs.Change) bool) [][]faultfs.Outcome {
	all := KeepAll(len(changes))
	some := [][]faultfs.Outcome{nil, all, all[:len(all)/2]}
	for i, c := range changes {
		if alone(c) {
			but := KeepAll(len(changes))
			but[i] = faultfs.Lost
			some = append(some, but)
		}
	}
	return some
}

// KeepAll returns the outcome that keeps n changes.
func KeepAll(n int) []faultfs.Outcome {
	all := make([]faultfs.Outcome, n)
	for i := range all {
		all[i] = faultfs.Kept
	}
	return all
}

// Counts counts the events of random histories.
type Counts struct{ Steps, Crashes, Kills, Faults, Groups, Locked int }

func (c *Counts) add(o Counts) {
	c.Steps += o.Steps
	c.Crashes += o.Crashes
	c.Kills += o.Kills
	c.Faults += o.Faults
	c.Groups += o.Groups
	c.Locked += o.Locked
}

// Histories plays n histories with consecutive seeds, or the histories that the
// flags select. It returns the sum of the events and the number of failed
// histories. The test fails if a kind of event never occurs, except with -seed.
func Histories(t *testing.T, n int, play func(seed uint64) (Counts, error)) (total Counts, bad int) {
	t.Helper()
	var mu sync.Mutex
	first, n := Seeds(n)
	t.Logf("seeds from %d", first)
	Each(func(yield func(uint64)) {
		for i := range n {
			yield(first + uint64(i))
		}
	}, func(seed uint64) {
		c, err := play(seed)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			if bad++; bad <= maxLost {
				t.Errorf("seed %d, operation %d: %v", seed, c.Steps, err)
			}
		}
		total.add(c)
	})
	if *seed == 0 && (total.Crashes == 0 || total.Kills == 0 || total.Faults == 0 || total.Groups == 0) {
		t.Errorf("%d power cuts, %d kills, %d failed calls, %d groups; each must occur", total.Crashes, total.Kills, total.Faults, total.Groups)
	}
	return total, bad
}

// Seeds returns the first of count consecutive seeds. Without flags, a test runs n
// histories from seed 1.
func Seeds(n int) (first uint64, count int) {
	switch {
	case *seed != 0:
		return *seed, 1
	case *soak > 0:
		return rand.Uint64(), *soak
	}
	return 1, n
}

// PowerCut returns a function that crashes m and keeps about percent of the
// unsynced changes. Any goroutine may call the function, but calls must not
// overlap.
func PowerCut(m *faultfs.Mem, seed uint64, percent int) func() *faultfs.Mem {
	r := rand.New(rand.NewPCG(seed, 5))
	return func() *faultfs.Mem { return m.Crash(fault.RandomOutcome(r, m.Unsynced(), percent)...) }
}
