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

// childAdd adds entries, opening the store for each: path, own name, count. A
// line on stdout acknowledges each.
func childAdd(args []string) error {
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	o := options()
	o.LockWait = lockWait
	for i := range n {
		name := fmt.Sprintf("%s %d", args[1], i)
		err := with(args[0], o, func(s *crmem.Store) error {
			return s.Apply(crmem.Add{Name: name, Content: "by " + args[1]})
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Println(name)
	}
	return nil
}

// childFirst waits for the moment that is given in unix nanoseconds and then
// adds one entry: path, own name, moment.
func childFirst(args []string) error {
	at, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	time.Sleep(time.Until(time.Unix(0, at)))
	return childAdd([]string{args[0], args[1], "1"})
}

// childHold adds an entry and keeps the store open until it is killed.
func childHold(args []string) error {
	o := options()
	o.Command = "childHold"
	return with(args[0], o, func(s *crmem.Store) error {
		if err := s.Apply(crmem.Add{Name: "held", Content: "by the child"}); err != nil {
			return err
		}
		fmt.Println("ready")
		time.Sleep(time.Hour)
		return nil
	})
}

// TestManyProcesses has 16 processes write to one store, each opening it for
// every write, with concurrent readers. All acknowledged writes must be
// present.
func TestManyProcesses(t *testing.T) {
	rounds, processes, writes := scale(1, 20), 16, 50
	total, looks := 0, 0
	for range rounds {
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
				err := reading(path, func(s *crmem.Store) error { n = s.Len(); return nil })
				if err != nil || n < seen {
					t.Errorf("a reader saw %d entries after %d: %v", n, seen, err)
					return
				}
				seen = n
				looks++
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
					t.Errorf("%s was acknowledged; the store has %q", name, got[name])
				}
			}
		}
		if len(got) != processes*writes {
			t.Errorf("%d entries, want %d", len(got), processes*writes)
		}
		healthy(t, path)
	}
	t.Logf("processes: %d rounds of %d, %d operations acknowledged, 0 lost, %d looks of readers", rounds, processes, total, looks)
}

// TestFirstOpens lets eight processes be the first at once.
func TestFirstOpens(t *testing.T) {
	rounds, processes := scale(5, 20), 8
	for range rounds {
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
		healthy(t, path)
	}
	t.Logf("first opens: %d rounds of %d processes, 0 lost", rounds, processes)
}

// TestHolderKilled kills the lock holder: before, other processes receive its
// identity; afterwards, they continue.
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
		t.Errorf("open during the lock: %v, want a LockedError", err)
	} else if locked.Holder.PID != cmd.Process.Pid || locked.Holder.Command != "childHold" {
		t.Errorf("the holder is %+v, want process %d", locked.Holder, cmd.Process.Pid)
	}
	if got := contents(t, path); got["held"] != "by the child" {
		t.Errorf("a concurrent reader sees %v", got)
	}
	cmd.Process.Kill()
	cmd.Wait()
	o := options()
	o.LockWait = lockWait // the kernel may take a moment
	err = with(path, o, func(s *crmem.Store) error { _, err := s.Get("held"); return err })
	if err != nil {
		t.Errorf("after the holder was killed: %v", err)
	}
	healthy(t, path)
}

// TestChangedUnderWriter replaces or removes the file of an open writer. No
// entry of either side may be destroyed.
func TestChangedUnderWriter(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.db")
	err := with(other, options(), func(s *crmem.Store) error {
		return errors.Join(s.Apply(crmem.Add{Name: "theirs", Content: "of another program"}), s.Checkpoint())
	})
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(path string) error{
		"replaced by rename": func(path string) error {
			tmp := path + ".theirs"
			if err := os.WriteFile(tmp, theirs, 0o600); err != nil {
				return err
			}
			return os.Rename(tmp, path)
		},
		"overwritten in place": func(path string) error { return os.WriteFile(path, theirs, 0o600) },
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
				t.Error("the checkpoint went over a file that is not the store's")
			}
			if _, err := s.Get("ours"); err != nil {
				t.Errorf("the open store no longer answers: %v", err)
			}
			s.Close() // may say what the checkpoint said
			now, nerr := os.ReadFile(path)
			if string(now) != string(after) || (nerr == nil) != (rerr == nil) {
				t.Errorf("the other program's file was changed")
			}
			if !kept(t, filepath.Dir(path), "acknowledged") {
				t.Error("the acknowledged entry is in no file any more")
			}
			if _, err := crmem.Open(path, options()); !errors.Is(err, crmem.ErrForeign) {
				t.Errorf("open for writing: %v, want ErrForeign: the log belongs to another file", err)
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

// TestClockSetBack writes with a clock that jumps back and forth. It affects
// times, but not ids and order.
func TestClockSetBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	clock := []int64{history.Stamp.Unix(), 1000, history.Stamp.Unix() + 1e6, 0, -5, 7}
	want := []uint64{uint64(clock[0]), 1000, uint64(clock[2]), 0, 0, 7}
	for i, sec := range clock {
		o := options()
		o.Now = func() time.Time { return time.Unix(sec, 0) }
		err := with(path, o, func(s *crmem.Store) error {
			return s.Apply(crmem.Add{Name: fmt.Sprint("entry ", i)}, crmem.Update{Name: "entry 0", Content: fmt.Sprint(i)})
		})
		if err != nil {
			t.Fatalf("clock at %d: %v", sec, err)
		}
	}
	err := reading(path, func(s *crmem.Store) error {
		i := 0
		for e := range s.All() {
			if e.ID != uint64(i+1) || e.CreatedAt != want[i] || e.Name != fmt.Sprint("entry ", i) {
				t.Errorf("entry %d is %q, id %d, created at %d, want %d", i, e.Name, e.ID, e.CreatedAt, want[i])
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
	healthy(t, path)
}
