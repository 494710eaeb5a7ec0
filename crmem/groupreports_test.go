package crmem_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	. "crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/golden"
)

// groupFaults are faults of the group in flight: of the first call, which waits
// until the other calls are pending, and of a call after it.
var groupFaults = []struct {
	op    string
	err   error
	after string
}{
	{"datasync", nil, ""},
	{"write", syscall.EIO, ""},
	{"write", syscall.ENOSPC, ""},
	{"write", &faultfs.Fault{Err: syscall.ENOSPC, N: 20}, ""},
	{"write", &faultfs.Fault{Err: syscall.ENOSPC, N: 20}, "truncate"},
	{"write", &faultfs.Fault{Err: syscall.ENOSPC, Done: true}, "datasync"},
	{"datasync", syscall.EIO, ""},
	{"datasync", syscall.ENOSPC, ""},
	{"datasync", nil, "lstat"},
}

// groupWrites are in flight, or staged after them.
var groupWrites = [][]Op{
	{Add{Name: "a", Content: "in flight"}},
	{Remove{Name: "old"}},
	{Remove{Name: "old"}, Add{Name: "a"}},
	{Remove{Name: "old"}, Remove{Name: "other"}},
	{Update{Name: "a", Content: "staged"}},
	{Add{Name: "b"}},
	{Add{Name: "old"}},
	{Remove{Name: "other"}},
	nil,
}

var groupCalls = []struct {
	name string
	do   func(*Store) error
}{
	{"no call", nil},
	{"checkpoint", (*Store).Checkpoint},
	{"update", func(s *Store) error {
		return s.Update(func(sn *Snapshot) (*Snapshot, error) {
			entries := append(slices.Collect(sn.All()), Entry{ID: sn.NextID, Name: "by update"})
			return NewSnapshot(sn.NextID+1, entries)
		})
	}},
	{"new identity", (*Store).NewIdentity},
	{"close", (*Store).Close},
}

// TestReportsOfGroups stages writes and other calls while a group is written,
// and compares the results of all of them after the group failed or not.
func TestReportsOfGroups(t *testing.T) { synctest.Test(t, reportGroups) }

func reportGroups(t *testing.T) {
	var r golden.Reports
	random := rand.New(rand.NewPCG(4, 4))
	for _, fault := range groupFaults {
		for first := range groupWrites[:4] {
			for staged := range groupWrites {
				call := groupCalls[random.IntN(len(groupCalls))]
				if retriesRemoves(fault.op, fault.after, fault.err, groupWrites[first]) {
					if groupWrites[staged] != nil {
						continue // both write again, in any order
					}
					call = groupCalls[first/2*(len(groupCalls)-1)]
				}
				title := fmt.Sprintf("%s %v %s, %v, then %v, then %s", fault.op, fault.err, fault.after, groupWrites[first], groupWrites[staged], call.name)
				release := make(chan struct{})
				blocked, failed := false, false
				m := faultfs.NewMem()
				s := opened(t, "/m.db", &Options{FS: m, CheckpointOnClose: CheckpointNever}, 0)
				noErr(t, s.Apply(Add{Name: "old"}, Add{Name: "other"}))
				m.Hook = func(c faultfs.Call) error {
					switch {
					case c.Name != "/m.db"+WALSuffix:
					case !blocked && c.Op == fault.op:
						blocked = true
						<-release
						return fault.err
					case blocked && !failed && c.Op == fault.after:
						failed = true
						return syscall.EIO
					}
					return nil
				}
				pending := []*pendingCall{apply(s, groupWrites[first]...), apply(s, groupWrites[staged]...)}
				if call.do != nil {
					c := new(pendingCall)
					go func() {
						c.err = call.do(s)
						c.returned = true
					}()
					synctest.Wait()
					pending = append(pending, c)
				}
				close(release)
				synctest.Wait()
				r.Add(title, groupOutcome(t, m, s, pending))
			}
		}
	}
	r.Compare(t, "testdata/reports/groups.txt.gz")
}

// retriesRemoves reports whether a failed group frees the reserve and writes again.
func retriesRemoves(op, after string, err error, ops []Op) bool {
	if op != "write" || after != "" || !errors.Is(err, syscall.ENOSPC) {
		return false
	}
	return !slices.ContainsFunc(ops, func(op Op) bool { _, ok := op.(Remove); return !ok })
}

// groupOutcome is the results of pending calls, of later ones, and the entries
// that a reader finds. The order of the entries depends on the scheduler.
func groupOutcome(t *testing.T, m *faultfs.Mem, s *Store, pending []*pendingCall) string {
	var b strings.Builder
	for _, c := range pending {
		fmt.Fprintf(&b, "%t %v\n", c.returned, c.err)
	}
	fmt.Fprintf(&b, "%s\n", entryNames(s))
	fmt.Fprintf(&b, "next: %v\n", s.Apply(Add{Name: "next"}))
	fmt.Fprintf(&b, "close: %v\n", s.Close())
	m.Hook = nil
	_, err := m.Lstat("/m.db-reserve")
	fmt.Fprintf(&b, "reserve: %v\n", err)
	s, err = Open("/m.db", &Options{FS: m})
	noErr(t, err)
	fmt.Fprintf(&b, "%s\n", entryNames(s))
	noErr(t, s.Close())
	return unstable.ReplaceAllString(b.String(), "*")
}

func entryNames(s *Store) string {
	var names []string
	for e := range s.All() {
		names = append(names, fmt.Sprintf("%s=%q", e.Name, e.Content))
	}
	slices.Sort(names)
	return fmt.Sprintf("%d entries: %s", s.Len(), strings.Join(names, ", "))
}
