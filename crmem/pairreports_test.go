package crmem_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	. "crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/golden"
)

// A sessionCall is the call of a session in which two faults occur. Without do, it
// is Open after a crash.
type sessionCall struct {
	name    string
	version int
	path    string
	do      func(s *Store) error
}

var sessionCalls = []sessionCall{
	{"write", format.LogVersion, "/m.db", func(s *Store) error { return s.Apply(Add{Name: "new"}, Remove{Name: "one"}) }},
	{"remove", format.LogVersion, "/m.db", func(s *Store) error { return s.Apply(Remove{Name: "one"}) }},
	{"create", format.LogVersion, "/home/new.db", func(s *Store) error { return s.Apply(Add{Name: "new"}) }},
	{"checkpoint", format.LogVersion, "/m.db", (*Store).Checkpoint},
	{"checkpoint of version 1", format.LogVersion1, "/m.db", (*Store).Checkpoint},
	{"update", format.LogVersion, "/m.db", func(s *Store) error {
		return s.Update(func(sn *Snapshot) (*Snapshot, error) {
			return NewSnapshot(sn.NextID+1, []Entry{{ID: sn.NextID, Name: "updated"}})
		})
	}},
	{"new identity", format.LogVersion, "/m.db", (*Store).NewIdentity},
	{"close", format.LogVersion, "/m.db", (*Store).Close},
	{"open", format.LogVersion, "/m.db", nil},
}

// A sessionFault is what happens at a call of the file system.
type sessionFault struct {
	name   string
	err    error
	change func(m *faultfs.Mem)
	gaps   int // calls from there to the second fault are below this
}

func rewriteFile(name string) func(m *faultfs.Mem) {
	return func(m *faultfs.Mem) {
		if f, err := m.Open(name); err == nil {
			b := make([]byte, 1<<12)
			n, _ := f.ReadAt(b, 0)
			_ = errors.Join(f.Close(), m.Remove(name))
			m.WriteFile(name, b[:n], 0o600)
		}
	}
}

func sessionFaults(path string) []sessionFault {
	remove := func(suffix string) func(m *faultfs.Mem) {
		return func(m *faultfs.Mem) { _ = m.Remove(path + suffix) }
	}
	return []sessionFault{
		{"EIO", syscall.EIO, nil, 2},
		{"ENOSPC", syscall.ENOSPC, nil, 3},
		{"done, EIO", &faultfs.Fault{Err: syscall.EIO, Done: true}, nil, 1},
		{"done, ENOSPC", &faultfs.Fault{Err: syscall.ENOSPC, Done: true}, nil, 1},
		{"log removed", nil, remove(WALSuffix), 1},
		{"log replaced, ENOSPC", syscall.ENOSPC, rewriteFile(path + WALSuffix), 2},
		{"lock removed", nil, remove(LockSuffix), 2},
		{"second link removed", nil, remove(WALSuffix + HeldSuffix), 1},
		{"snapshot replaced", nil, rewriteFile(path), 2},
	}
}

// faultSession is a session with two faults.
type faultSession struct {
	m             *faultfs.Mem
	first, second *sessionFault
	at, gap       int // call of the first fault, from 1; calls from there to the second

	seen   int
	which  string
	inside bool
}

func (f *faultSession) hook(c faultfs.Call) error {
	if f.inside {
		return nil
	}
	f.seen++
	fault := f.first
	switch {
	case f.seen == f.at:
		f.which = c.Op + " " + c.Name
	case f.seen == f.at+f.gap && f.second != nil:
		fault = f.second
	default:
		return nil
	}
	if fault.change != nil {
		f.inside = true
		fault.change(f.m)
		f.inside = false
	}
	return fault.err
}

// run opens the store, calls c with the faults, and then uses the store further
// without faults. It returns the results and the files.
func (f *faultSession) run(t *testing.T, c *sessionCall) string {
	var b strings.Builder
	o := reportOptions(f.m, c.version)
	o.Warn = func(line string) { b.WriteString("warning: " + line + "\n") }
	report := func(what string, err error) {
		if err != nil {
			fmt.Fprintf(&b, "%s: %s\n", what, strings.ReplaceAll(err.Error(), "\n", "\n\t"))
		}
	}
	if c.do == nil {
		f.m.Hook = f.hook
	}
	s, err := Open(c.path, o)
	report("open", err)
	f.m.Hook = f.hook
	if c.do != nil {
		report(c.name, c.do(s))
	}
	f.at = -10
	if s == nil {
		if s, err = Open(c.path, o); err != nil {
			report("next open", err)
			return unstable.ReplaceAllString(b.String(), "*")
		}
	}
	report("next write", s.Apply(Add{Name: "later"}))
	stats := s.Stats()
	fmt.Fprintf(&b, "%d entries, next ID %d, snapshot of %d bytes, log of %d with %d operations\n", stats.Entries, stats.NextID, stats.SnapshotBytes, stats.LogBytes, stats.LogOps)
	report("next checkpoint", s.Checkpoint())
	report("close", s.Close())
	fmt.Fprintf(&b, "%d files open\n", f.m.OpenFiles())
	f.m.Hook = nil
	o.ReadOnly = true
	if s, err = Open(c.path, o); err == nil {
		for e := range s.All() {
			b.WriteString(e.Name + " ")
		}
		_ = s.Close()
	}
	report("read", err)
	list, err := f.m.ReadDir(c.path[:strings.LastIndex(c.path, "/")+1])
	if !errors.Is(err, fs.ErrNotExist) {
		noErr(t, err)
	}
	for _, e := range list {
		if fi, err := e.Info(); err == nil && !strings.HasSuffix(e.Name(), LockSuffix) && !strings.HasPrefix(e.Name(), "other") {
			fmt.Fprintf(&b, "%s:%d ", e.Name(), fi.Size())
		}
	}
	return unstable.ReplaceAllString(b.String(), "*")
}

// TestReportsOfTwoFaults has one fault at each call of the file system, and a
// second at one of the next calls, and compares the results of the session.
func TestReportsOfTwoFaults(t *testing.T) { synctest.Test(t, reportTwoFaults) }

func reportTwoFaults(t *testing.T) {
	var r golden.Reports
	eio := &sessionFault{"EIO", syscall.EIO, nil, 0}
	for i := range sessionCalls {
		c := &sessionCalls[i]
		base := reportScene(t, c.version)
		if c.do == nil {
			log := memBytes(t, base, c.path+WALSuffix)
			base = base.Crash()
			base.WriteFile(c.path+WALSuffix, log[:len(log)-1], 0o600)
		}
		for _, first := range sessionFaults(c.path) {
			for gap := range first.gaps {
				for n := 1; ; n++ {
					f := &faultSession{m: base.Kill(), first: &first, at: n, gap: gap}
					if gap > 0 {
						f.second = eio
					}
					got := f.run(t, c)
					if f.which == "" {
						break
					}
					r.Add(unstable.ReplaceAllString(fmt.Sprintf("%s: %s at %s, EIO after %d", c.name, first.name, f.which, gap), "*"), got)
				}
			}
		}
	}
	r.Compare(t, "testdata/reports/pairs.txt.gz")
}
