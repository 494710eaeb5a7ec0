// Package crashtest is the harness of the tests that crash a program on a
// [vfs.Mem]. It crashes sequences of operations at each call, crashes recoveries,
// makes calls fail, and runs random histories. A test supplies the operations and
// checks each crash state.
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

	"crabmem/crmem/vfs"
	"crabmem/fuzz/internal/fault"
)

var (
	// Full is set by CRABMEM_CRASH=full: more and longer sequences.
	Full = os.Getenv("CRABMEM_CRASH") == "full"
	// Slice is CRABMEM_CRASH_SLICE: TestEnumerate runs one in this many sequences.
	Slice = max(1, atoi(os.Getenv("CRABMEM_CRASH_SLICE")))

	seed = flag.Uint64("seed", 0, "run this history of TestRandom; 0: run those that it always runs")
	soak = flag.Int("soak", 0, "run this many new histories of TestRandom instead")
)

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// Main runs the tests with a garbage collector for many short-lived machines.
func Main(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

// violation is an error of the program under test, not of a call.
type violation struct{ what string }

func (v violation) Error() string { return v.what }

// Wrong returns an error of the program under test.
func Wrong(format string, args ...any) error { return violation{fmt.Sprintf(format, args...)} }

// IsWrong reports whether err is from Wrong.
func IsWrong(err error) bool {
	_, ok := errors.AsType[violation](err)
	return ok
}

// Each calls do with each value of jobs, on two goroutines.
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

// maxLost is how many losses end a test.
const maxLost = 3

// Explorer crashes a machine at its calls, and checks the crash states.
type Explorer struct {
	Name  string // of the sequence, in errors
	Limit int    // see fault.EachOutcome
	Idle  func(vfs.Change) bool
	// Crashed checks a machine after a power cut.
	Crashed func(m *vfs.Mem) error
	// Killed checks the machine after a kill of the process; nil: there are no
	// kills. Grown is the field before the crash point.
	Killed  func(m *vfs.Mem, grown bool) error
	Lost    *atomic.Int64 // counts the errors
	MaxLost int64         // stop after more errors
	Fail    func(error)   // receives the first errors

	On     bool // Hook crashes
	Grown  bool // more can be lost than at the last crash point
	Points int  // of crashes
}

// Hook crashes m before a call that changes the crash states.
func (x *Explorer) Hook(m *vfs.Mem, c vfs.Call) {
	if x.On && fault.Mutates(c.Op) {
		x.Explore(m, fmt.Sprintf("before call %d, %s %s", c.N, c.Op, c.Name))
		x.Grown = x.Grown || fault.Grows(c.Op)
	}
}

// Explore crashes m. A sync only reduces what a crash can lose, so after a sync
// it tries only the two ends.
func (x *Explorer) Explore(m *vfs.Mem, where string) {
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
	fault.EachOutcome(changes, outcomes, x.Idle, func(f []vfs.Outcome) {
		if err := x.Crashed(m.Crash(f...)); err != nil {
			check(fmt.Sprintf("of %+v kept %v", changes, f), err)
		}
	})
	if x.Killed != nil {
		check("killed", x.Killed(m, grown))
	}
}

// Play executes the steps of a sequence, and crashes m during and after the
// last step. The crashes of the other steps belong to shorter sequences. It
// stops and returns false if a step does not apply.
func (x *Explorer) Play(m *vfs.Mem, seq []string, step func(symbol string, i int) (applies bool, err error)) (bool, error) {
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

// Sequences returns the sequences of so many symbols.
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

// Job is a sequence and the scene it starts in.
type Job struct {
	Scene string
	Seq   []string
}

// Enumerate plays jobs until lost is too large. It returns the number of crash
// points, and of sequences that were played to the end.
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

// Recovery crashes a machine during its recovery.
type Recovery struct {
	Limit int // see fault.EachOutcome
	Idle  func(vfs.Change) bool
	Image func(m *vfs.Mem) uint64
	Seen  *Memo[uint64, struct{}] // images that were checked
	Check func(m *vfs.Mem, image uint64) error
	Err   error // the first of Check
}

// Hook crashes m before a call that changes the crash states.
func (r *Recovery) Hook(m *vfs.Mem, c vfs.Call) {
	if !fault.Mutates(c.Op) || r.Err != nil {
		return
	}
	fault.EachOutcome(m.Unsynced(), r.Limit, r.Idle, func(f []vfs.Outcome) {
		if r.Err != nil {
			return
		}
		crashed := m.Crash(f...)
		image := r.Image(crashed)
		if !r.Seen.Put(image, struct{}{}) {
			return
		}
		if err := r.Check(crashed, image); err != nil {
			r.Err = Wrong("crash during recovery, before call %d (%s %s), fates %v: %v", c.N, c.Op, c.Name, f, err)
		}
	})
}

// FaultJob is a job and the fault that its calls have.
type FaultJob struct {
	Job
	Fault fault.Fault
}

// FailCalls runs each job repeatedly. In the n-th run the n-th call that the
// fault applies to fails, until a run has no such call. Run returns the number
// of errors of each class, and FailCalls the sums; each class of want must
// occur.
func FailCalls(t *testing.T, want []error, jobs func(yield func(FaultJob)),
	run func(Job, *fault.Injector) (map[error]int, error)) (runs, bad int, hit map[error]int) {
	hit = map[error]int{}
	var mu sync.Mutex
	Each(jobs, func(j FaultJob) {
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
			stop := err != nil && bad > 5
			mu.Unlock()
			if err != nil && !stop {
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
			t.Errorf("no run ended in %q", class)
		}
	}
	return runs, bad, hit
}

// Outcomes returns outcomes of the unsynced changes after a fault: none, all, the
// first half, and all but one of those that alone accepts.
func Outcomes(changes []vfs.Change, alone func(vfs.Change) bool) [][]vfs.Outcome {
	all := Whole(len(changes))
	some := [][]vfs.Outcome{nil, all, all[:len(all)/2]}
	for i, c := range changes {
		if alone(c) {
			but := Whole(len(changes))
			but[i] = vfs.Lost
			some = append(some, but)
		}
	}
	return some
}

// Whole is the outcome that n changes are kept.
func Whole(n int) []vfs.Outcome {
	all := make([]vfs.Outcome, n)
	for i := range all {
		all[i] = vfs.Kept
	}
	return all
}

// Counts are the events of random histories.
type Counts struct{ Steps, Crashes, Kills, Faults, Groups, Locked int }

func (c *Counts) add(o Counts) {
	c.Steps += o.Steps
	c.Crashes += o.Crashes
	c.Kills += o.Kills
	c.Faults += o.Faults
	c.Groups += o.Groups
	c.Locked += o.Locked
}

// Histories plays n histories with consecutive seeds, or those that the flags
// name. It returns the events of all, and the number of failed histories.
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
		t.Error("a kind of accident never happened")
	}
	return total, bad
}

// Seeds returns the seeds of a test that runs n histories: so many from first.
func Seeds(n int) (first uint64, count int) {
	switch {
	case *seed != 0:
		return *seed, 1
	case *soak > 0:
		return rand.Uint64(), *soak
	}
	return 1, n
}

// PowerCut returns a function that crashes m. It keeps percent of the unsynced
// changes. Any goroutine may call it.
func PowerCut(m *vfs.Mem, seed uint64, percent int) func() *vfs.Mem {
	r := rand.New(rand.NewPCG(seed, 5))
	return func() *vfs.Mem { return m.Crash(fault.RandomOutcome(r, m.Unsynced(), percent)...) }
}
