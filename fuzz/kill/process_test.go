package kill_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/fuzz/kill/history"
)

const lockWait = 5 * time.Minute

// childAdd adds entries and opens the store for each one. It prints the name of
// each acknowledged entry. Its arguments are the path, its name, and the count.
func childAdd(args []string) error {
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	o := options()
	o.LockWait = lockWait
	for i := range n {
		name := fmt.Sprintf("%s %d", args[1], i)
		err := withStore(args[0], o, func(s *crmem.Store) error {
			return s.Apply(crmem.Add{Name: name, Content: "by " + args[1]})
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Println(name)
	}
	return nil
}

// childFirst adds one entry at a given time. Its arguments are the path, its name,
// and the time in Unix nanoseconds.
func childFirst(args []string) error {
	at, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	time.Sleep(time.Until(time.Unix(0, at)))
	return childAdd([]string{args[0], args[1], "1"})
}

// childHold adds an entry and keeps the store open until it is killed. Its argument
// is the path.
func childHold(args []string) error {
	o := options()
	o.Command = "childHold"
	return withStore(args[0], o, func(s *crmem.Store) error {
		if err := s.Apply(crmem.Add{Name: "held", Content: "by the child"}); err != nil {
			return err
		}
		fmt.Println("ready")
		time.Sleep(time.Hour)
		return nil
	})
}

// TestManyProcesses has 16 processes write to one store with a concurrent reader.
// Each process opens the store for each write. No acknowledged write may be lost.
func TestManyProcesses(t *testing.T) {
	n, processes, writes := rounds(1, 20), 16, rounds(20, 50)
	total, reads := 0, 0
	for range n {
		path := filepath.Join(t.TempDir(), "home", "memory.db")
		acked := make([]string, processes)
		errs := make([]error, processes)
		var wg sync.WaitGroup
		for i := range processes {
			wg.Go(func() {
				var out []byte
				out, errs[i] = child("add", path, fmt.Sprintf("process %d", i), writes).Output()
				acked[i] = string(out)
			})
		}
		stop := make(chan struct{})
		var readers sync.WaitGroup
		readers.Go(func() {
			seen := 0
			for {
				n := 0
				err := readStore(path, func(s *crmem.Store) error { n = s.Len(); return nil })
				if err != nil || n < seen {
					t.Errorf("a reader found %d entries, earlier %d: %v", n, seen, err)
					return
				}
				seen = n
				reads++
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
			}
		})
		wg.Wait()
		close(stop)
		readers.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		got := contents(t, path)
		for _, lines := range acked {
			for name := range strings.Lines(lines) {
				total++
				name = strings.TrimSuffix(name, "\n")
				if want := "by " + name[:strings.LastIndexByte(name, ' ')]; got[name] != want {
					t.Errorf("%s was acknowledged, but the store has %q", name, got[name])
				}
			}
		}
		if len(got) != processes*writes {
			t.Errorf("%d entries, want %d", len(got), processes*writes)
		}
		checkHealthy(t, path)
	}
	t.Logf("processes: %d rounds of %d, %d operations acknowledged, 0 lost, %d reads", n, processes, total, reads)
}

// TestFirstOpens has eight processes open a missing store at the same time.
func TestFirstOpens(t *testing.T) {
	n, processes := rounds(5, 20), 8
	for range n {
		path := filepath.Join(t.TempDir(), "not", "there", "memory.db")
		at := time.Now().Add(150 * time.Millisecond).UnixNano()
		errs := make([]error, processes)
		var wg sync.WaitGroup
		for i := range processes {
			wg.Go(func() { errs[i] = child("first", path, fmt.Sprintf("process %d", i), at).Run() })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if got := contents(t, path); len(got) != processes {
			t.Fatalf("%d entries of %d processes: %v", len(got), processes, got)
		}
		checkHealthy(t, path)
	}
	t.Logf("first opens: %d rounds of %d processes, 0 lost", n, processes)
}

// TestHolderKilled kills the lock holder. Before the kill, another open must fail
// with the holder's identity. After it, another open must succeed.
func TestHolderKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	cmd := child("hold", path)
	line, err := firstLine(cmd)
	if err != nil || line != "ready\n" {
		t.Fatalf("the child printed %q: %v", line, err)
	}
	_, err = crmem.Open(path, options())
	var locked *vfs.LockedError
	if !errors.As(err, &locked) || !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("open of a locked store: %v, want a LockedError", err)
	} else if locked.Holder.PID != cmd.Process.Pid || locked.Holder.Command != "childHold" {
		t.Errorf("the lock holder is %+v, want process %d", locked.Holder, cmd.Process.Pid)
	}
	if got := contents(t, path); got["held"] != "by the child" {
		t.Errorf("a concurrent reader found %v", got)
	}
	cmd.Process.Kill()
	cmd.Wait()
	o := options()
	o.LockWait = lockWait // the kernel may release the lock later
	err = withStore(path, o, func(s *crmem.Store) error { _, err := s.Get("held"); return err })
	if err != nil {
		t.Errorf("open after the kill: %v", err)
	}
	checkHealthy(t, path)
}

// TestChangedUnderWriter replaces or removes the snapshot of an open store. No entry
// of the store or of the new file may be lost.
func TestChangedUnderWriter(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.db")
	err := withStore(other, options(), func(s *crmem.Store) error {
		return errors.Join(s.Apply(crmem.Add{Name: "theirs", Content: "of another program"}), s.Checkpoint())
	})
	if err != nil {
		t.Fatal(err)
	}
	otherBytes, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(path string) error{
		"replaced by rename": func(path string) error {
			tmp := path + ".new"
			if err := os.WriteFile(tmp, otherBytes, 0o600); err != nil {
				return err
			}
			return os.Rename(tmp, path)
		},
		"overwritten in place": func(path string) error { return os.WriteFile(path, otherBytes, 0o600) },
		"removed":              os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "memory.db")
			s, err := crmem.Open(path, options())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Apply(crmem.Add{Name: "ours", Content: "acknowledged"}); err != nil {
				t.Fatal(err)
			}
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			after, rerr := os.ReadFile(path)
			if err := s.Checkpoint(); err == nil {
				t.Error("the checkpoint replaced a file of another program")
			}
			if _, err := s.Get("ours"); err != nil {
				t.Errorf("the open store lost its entry: %v", err)
			}
			s.Close() // may return the error of the checkpoint
			now, nerr := os.ReadFile(path)
			if string(now) != string(after) || (nerr == nil) != (rerr == nil) {
				t.Errorf("the other program's file was changed")
			}
			if !kept(t, filepath.Dir(path), "acknowledged") {
				t.Error("no file contains the acknowledged entry")
			}
			if _, err := crmem.Open(path, options()); !errors.Is(err, crmem.ErrForeign) {
				t.Errorf("open for writing: %v, want ErrForeign for a mismatched log", err)
			}
		})
	}
}

// kept reports whether any file of a directory contains the text.
func kept(t *testing.T, dir, text string) bool {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.IsDir() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), text) {
			return true
		}
	}
	return false
}

// TestClockSetBack writes with a clock that jumps in both directions. The jumps must
// affect only times, not IDs or order.
func TestClockSetBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	clock := []int64{history.Stamp.Unix(), 1000, history.Stamp.Unix() + 1e6, 0, -5, 7}
	want := []uint64{uint64(clock[0]), 1000, uint64(clock[2]), 0, 0, 7}
	for i, sec := range clock {
		o := options()
		o.Now = func() time.Time { return time.Unix(sec, 0) }
		err := withStore(path, o, func(s *crmem.Store) error {
			return s.Apply(crmem.Add{Name: fmt.Sprint("entry ", i)}, crmem.Update{Name: "entry 0", Content: fmt.Sprint(i)})
		})
		if err != nil {
			t.Fatalf("clock at %d: %v", sec, err)
		}
	}
	err := readStore(path, func(s *crmem.Store) error {
		i := 0
		for e := range s.All() {
			if e.ID != uint64(i+1) || uint64(e.CreatedAt) != want[i] || e.Name != fmt.Sprint("entry ", i) {
				t.Errorf("entry %d is %q, ID %d, created at %d, want %d", i, e.Name, e.ID, e.CreatedAt, want[i])
			}
			i++
		}
		if i != len(clock) {
			t.Errorf("%d entries, want %d", i, len(clock))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	checkHealthy(t, path)
}
