package kill_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"crabmem/bench/gate"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/fuzz/check"
	"crabmem/fuzz/kill/history"
	"crabmem/fuzz/seed"
)

const killWriters = 4

// childWrite writes a history with four goroutines until it is killed. Its
// arguments are the path, the seed, and, for each writer, the number of operations
// in the store.
func childWrite(args []string) error {
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	o := options()
	o.LogLimit = 16 << 10
	s, err := crmem.Open(args[0], o)
	if err != nil {
		return err
	}
	errs := make(chan error)
	for i := range killWriters {
		done, err := strconv.Atoi(args[2+i])
		if err != nil {
			return err
		}
		go func() {
			w := history.NewWriter(seed, i, false)
			for range done {
				w.Next()
			}
			for n := done + 1; ; n++ {
				os.Stdout.Write(history.Issued(i, n))
				if err := history.Apply(s, n, w.Next()); err != nil {
					errs <- fmt.Errorf("writer %d, operation %d: %w", i, n, err)
				}
				os.Stdout.Write(history.Acked(i, n))
			}
		}()
	}
	return <-errs
}

// marks collects the output of a child.
type marks struct {
	mu    sync.Mutex
	b     bytes.Buffer
	first chan struct{} // closed at the first output
	once  sync.Once
}

func (m *marks) Write(p []byte) (int, error) {
	m.once.Do(func() { close(m.first) })
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.b.Write(p)
}

// bytes returns the output so far.
func (m *marks) bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.b.Bytes())
}

// view is the state that a concurrent reader found, with the operations that were
// acknowledged before the read.
type view struct {
	acked   *history.Progress
	entries []crmem.Entry
	nextID  uint64
}

// TestKillStore repeatedly kills a process with four writers on one store. Most
// processes continue with the store of the previous process.
func TestKillStore(t *testing.T) {
	n := rounds(50, 2000)
	sd := seed.Of(t)
	rng := random(sd)
	acked, views, mid, purged := 0, 0, 0, 0
	few := func() bool { return acked < n/2 || views == 0 || purged == 0 }
	done := 0
	for done < n || done < 20*n && few() { // the load determines how many operations a process makes
		life := min(1+rng.IntN(25), max(n-done, 1))
		a, v, m, g := killRepeatedly(t, filepath.Join(t.TempDir(), "home", "memory.db"), rng, life)
		acked, views, mid, purged, done = acked+a, views+v, mid+m, purged+g, done+life
	}
	t.Logf("kill -9 of a store's writers: %d iterations, %d operations acknowledged, 0 lost, %d in flight kept, %d views of concurrent readers, 0 of %d purged texts found",
		done, acked, mid, views, purged)
	if few() {
		t.Errorf("%d operations acknowledged and %d views in %d iterations: too few to test", acked, views, done)
	}
}

// killRepeatedly kills the writers of one store several times, and checks the store
// each time. It returns the numbers of acknowledged operations, of views, of found
// operations without an acknowledgment, and of searches for a purged text.
func killRepeatedly(t *testing.T, path string, rng *rand.Rand, kills int) (acked, views, inFlight, purged int) {
	t.Helper()
	sd := rng.Uint64()
	checker := history.NewChecker(sd, killWriters)
	found := make([]int, killWriters)
	completed := slices.Clone(found) // purges up to these operations: a process that opened the store for writing acknowledged or found them
	for k := range kills {
		p := &history.Progress{Issued: slices.Clone(found), Acked: slices.Clone(found)}
		out, v := killOnce(t, path, sd, found, rng)
		if err := p.Read(bytes.NewReader(out)); err != nil {
			t.Fatal(err)
		}
		if v != nil {
			views++
			if _, err := checker.Check(&history.Progress{Issued: p.Issued, Acked: v.acked.Acked}, v.nextID, slices.Values(v.entries)); err != nil {
				t.Fatalf("kill %d of history %d: a concurrent reader: %v", k, sd, err)
			}
		}
		for i := range p.Acked {
			acked += p.Acked[i] - found[i]
		}
		for i := range found {
			if p.Acked[i] > found[i] {
				completed = slices.Clone(p.Acked)
			}
		}
		n, err := checker.CheckPurged(&history.Progress{Acked: completed}, filepath.Dir(path))
		if err != nil {
			t.Fatalf("kill %d of history %d: %v", k, sd, err)
		}
		purged += n
		entries := func(s *crmem.Store) (err error) {
			found, err = checker.Check(p, s.NextID(), s.All())
			return err
		}
		// In half of the cases this process recovers the store, else the next child.
		err = errors.Join(readStore(path, entries), valid(path))
		if err == nil && rng.IntN(2) == 0 {
			err = withStore(path, options(), func(s *crmem.Store) error {
				_, perr := check.Past(s, true)
				return errors.Join(entries(s), perr)
			})
			completed = slices.Clone(found)
		}
		if err != nil {
			t.Fatalf("kill %d of history %d in %s: %v", k, sd, path, err)
		}
		for i := range p.Acked {
			inFlight += found[i] - p.Acked[i]
		}
	}
	checkHealthy(t, path)
	return acked, views, inFlight, purged
}

// valid checks a store after a kill, which may leave a torn tail. A purge may be pending.
func valid(path string) error {
	report, err := crmem.Check(vfs.OS{}, path, 0)
	if err == nil {
		err = report.Err()
	}
	if errors.Is(err, crmem.ErrNoStore) { // killed before it was created
		return nil
	}
	return err
}

// killOnce starts the writers and kills them after 1 to 50 ms. Mostly the time
// begins with the first write, sometimes with the start of the process. It returns
// the output and, in some cases, a view.
func killOnce(t *testing.T, path string, sd uint64, found []int, rng *rand.Rand) ([]byte, *view) {
	t.Helper()
	args := []any{path, sd}
	for _, n := range found {
		args = append(args, n)
	}
	cmd := child("write", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	m := &marks{first: make(chan struct{})}
	cmd.Stdout = m
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	delay := time.Duration(1+rng.IntN(50)) * time.Millisecond
	var v *view
	if rng.IntN(5) > 0 {
		select {
		case <-m.first:
		case <-time.After(gate.Hang):
			t.Errorf("no operation in %v; stderr: %s", gate.Hang, &stderr)
		}
		if rng.IntN(3) == 0 {
			v = look(t, path, found, m)
		}
	}
	time.Sleep(delay)
	cmd.Process.Kill()
	cmd.Wait()
	if stderr.Len() > 0 {
		t.Fatalf("the writers of history %d in %s failed: %s", sd, path, &stderr)
	}
	return m.bytes(), v
}

// look reads the store concurrently with its writers.
func look(t *testing.T, path string, found []int, m *marks) *view {
	t.Helper()
	v := &view{acked: &history.Progress{Issued: slices.Clone(found), Acked: slices.Clone(found)}}
	if err := v.acked.Read(bytes.NewReader(m.bytes())); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	err := readStore(path, func(s *crmem.Store) error {
		v.nextID, v.entries = s.NextID(), slices.Collect(s.All())
		return nil
	})
	if err != nil {
		t.Fatalf("a concurrent reader of %s: %v", path, err)
	}
	return v
}
