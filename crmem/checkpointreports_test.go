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
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/golden"
)

// duringCheckpoint are calls while another goroutine writes a snapshot.
var duringCheckpoint = append([]struct {
	name string
	do   func(*Store) error
}{
	{"apply", func(s *Store) error { return s.Apply(Add{Name: fmt.Sprint("during ", s.NextID())}) }},
	{"remove", func(s *Store) error { return s.Apply(Remove{Name: "one"}) }},
	{"empty update", func(s *Store) error { return s.Update(func(*Snapshot) (*Snapshot, error) { return nil, nil }) }},
}, groupCalls[1:]...)

// TestReportsOfCheckpoints makes calls while a checkpoint writes its snapshot,
// and compares the results of all of them, and the files.
func TestReportsOfCheckpoints(t *testing.T) { synctest.Test(t, reportCheckpoints) }

func reportCheckpoints(t *testing.T) {
	var r golden.Reports
	for _, op := range []string{"create", "write", "sync", "read"} {
		for _, fault := range []error{nil, syscall.EIO, syscall.ENOSPC, syscall.EMFILE} {
			for i, first := range duringCheckpoint {
				for j, second := range duringCheckpoint {
					if (i+j+len(op))%3 > 0 && op != "write" {
						continue
					}
					c := checkpointCase{op: op, fault: fault, calls: []func(*Store) error{first.do, second.do}}
					r.Add(fmt.Sprintf("%s, %s during %s, then %v", first.name, second.name, op, fault), c.outcome(t))
				}
			}
		}
	}
	r.Compare(t, "testdata/reports/checkpoints.txt.gz")
}

// checkpointCase is a checkpoint that waits in a call on its temporary file
// until other calls returned or block, too.
type checkpointCase struct {
	op    string
	fault error
	calls []func(*Store) error
}

func (c *checkpointCase) outcome(t *testing.T) string {
	m := faultfs.NewMem()
	s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
	noErr(t, s.Apply(Add{Name: "one"}, Add{Name: "two"}))
	release, blocked := make(chan struct{}), false
	m.Hook = func(call faultfs.Call) error {
		if blocked || call.Op != c.op || !strings.HasPrefix(call.Name, "/.m.db") {
			return nil
		}
		blocked = true
		<-release
		return c.fault
	}
	var pending []*pendingCall
	for _, do := range append([]func(*Store) error{(*Store).Checkpoint}, c.calls...) {
		p := new(pendingCall)
		pending = append(pending, p)
		go func() {
			p.err = do(s)
			p.returned = true
		}()
		synctest.Wait()
	}
	var b strings.Builder
	for _, p := range pending {
		fmt.Fprintf(&b, "before: %t %v\n", p.returned, p.err)
	}
	close(release)
	synctest.Wait()
	for _, p := range pending {
		fmt.Fprintf(&b, "after: %t %v\n", p.returned, p.err)
	}
	fmt.Fprintf(&b, "%s, log %d\n", entryNames(s), s.Stats().LogOps)
	fmt.Fprintf(&b, "next: %v\n", s.Apply(Add{Name: "next"}))
	if err := s.Close(); !errors.Is(err, fs.ErrClosed) {
		fmt.Fprintf(&b, "close: %v\n", err)
	}
	m.Hook = nil
	list, err := m.ReadDir("/")
	noErr(t, err)
	for _, e := range list {
		fmt.Fprintf(&b, "%s ", e.Name())
	}
	s, err = Open("/m.db", &Options{FS: m})
	noErr(t, err)
	fmt.Fprintf(&b, "\n%s\n", entryNames(s))
	noErr(t, s.Close())
	return unstable.ReplaceAllString(b.String(), "*")
}
