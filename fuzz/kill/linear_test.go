package kill_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem"
	"crabmem/fuzz/linear"
	"crabmem/fuzz/seed"
)

const linearWriters = 6

// linearOptions returns the options of a store in which several goroutines write
// the same names.
func linearOptions() *crmem.Options {
	o := options()
	o.Now = linear.Clock
	o.LogLimit = 4 << 10
	return o
}

// childLinear writes few names with several goroutines until it is killed. It
// prints a line before and after each call. Its arguments are the path, the seed,
// and a tag.
func childLinear(args []string) error {
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	s, err := crmem.Open(args[0], linearOptions())
	if err != nil {
		return err
	}
	errs := make(chan error)
	for i := range linearWriters {
		go func() {
			w := linear.NewWriter(seed, i, args[2])
			for {
				c := w.Next()
				err := printCall("begin", &c)
				if err == nil {
					err = c.Run(s)
				}
				if err == nil {
					err = printCall("end", &c)
				}
				if err != nil {
					errs <- err
				}
				w.Saw(&c)
			}
		}()
	}
	return <-errs
}

// printCall prints a call as JSON under the key event.
func printCall(event string, c *linear.Call) error {
	b, err := json.Marshal(map[string]*linear.Call{event: c})
	if err == nil {
		_, err = os.Stdout.Write(append(b, '\n'))
	}
	return err
}

// linearCalls parses the output of childLinear. The last line may be
// incomplete.
func linearCalls(out []byte) ([]linear.Call, error) {
	var h linear.History
	d := json.NewDecoder(bytes.NewReader(out))
	for {
		var line struct{ Begin, End *linear.Call }
		switch err := d.Decode(&line); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return h.Calls(), nil
		case err != nil:
			return nil, err
		case line.Begin != nil:
			h.Begin(*line.Begin)
		default:
			h.End(*line.End)
		}
	}
}

// TestKillConcurrentWritesToSameNames kills a process whose goroutines write the
// same names, mostly on the store of the previous process. An order of the calls
// must exist that explains all results and the store.
func TestKillConcurrentWritesToSameNames(t *testing.T) {
	n := rounds(15, 500)
	rng := seed.Random(t)
	total, unanswered := 0, 0
	few := func() bool { return total < 10*n || unanswered == 0 }
	done := 0
	for done < n || done < 20*n && few() { // the load determines how many calls a process makes
		path := filepath.Join(t.TempDir(), "memory.db")
		begin := linear.Empty()
		for life := 1 + rng.IntN(10); life > 0 && (done < n || few()); life-- {
			done++
			tag := fmt.Sprint("kill ", done)
			calls := killLinear(t, path, rng.Uint64(), tag, time.Duration(1+rng.IntN(30))*time.Millisecond)
			total += len(calls)
			for _, c := range calls {
				if c.End == 0 {
					unanswered++
				}
			}
			state := func(read bool) (st linear.State) {
				o := linearOptions()
				o.ReadOnly = read
				err := withStore(path, o, func(s *crmem.Store) (err error) {
					st, err = linear.StateOf(s)
					return err
				})
				if err != nil {
					t.Fatalf("%s in %s: %v", tag, path, err)
				}
				return st
			}
			end := state(true)
			if err := linear.Check(calls, begin, end, false); err != nil {
				t.Fatalf("%s in %s: %v", tag, path, err)
			}
			if rng.IntN(2) == 0 { // else the next child recovers
				if st := state(false); st != end {
					t.Fatalf("%s in %s: recovered %+v, but a reader found %+v", tag, path, st, end)
				}
			}
			begin = end
		}
	}
	t.Logf("kill -9 of writers to the same names: %d kills, %d calls, %d without a result, all explained", done, total, unanswered)
	if few() {
		t.Errorf("%d calls, %d without a result in %d kills: too few to test", total, unanswered, done)
	}
}

// killLinear runs childLinear, kills it the given time after its first call, and
// returns the calls.
func killLinear(t *testing.T, path string, seed uint64, tag string, after time.Duration) []linear.Call {
	t.Helper()
	cmd := child("linear", path, seed, tag)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	m := &marks{first: make(chan struct{})}
	cmd.Stdout = m
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-m.first:
	case <-time.After(gate.Hang):
		t.Errorf("no call in %v; stderr: %s", gate.Hang, &stderr)
	}
	time.Sleep(after)
	cmd.Process.Kill()
	cmd.Wait()
	if stderr.Len() > 0 {
		t.Fatalf("the writers in %s failed: %s", path, &stderr)
	}
	calls, err := linearCalls(m.bytes())
	if err != nil {
		t.Fatal(err)
	}
	return calls
}
