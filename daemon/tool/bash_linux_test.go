package tool

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"crabmem/daemon/sandbox"
)

// TestBashDescriptors: a command that ended, was killed or never began leaves
// no descriptor open.
func TestBashDescriptors(t *testing.T) {
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	confined := []bool{false}
	if sandbox.Check(t.Context()) == nil {
		confined = append(confined, true)
	}
	b := NewBash(BashOptions{Timeout: 20 * time.Millisecond})
	before := 0
	for range 10 {
		for _, c := range confined {
			for _, command := range []string{"true", "sleep 10", "sleep 0.6 & true", "kill -9 $$"} {
				b.Run(t.Context(), Call{Dir: "/", Scope: Scope{Confined: c}, Arguments: args(t, "command", command)})
			}
			b.Run(t.Context(), Call{Dir: t.TempDir(), Scope: Scope{Confined: c}, Arguments: args(t, "command", "true\x00")})
		}
		if before == 0 {
			before = count() // the runtime has its own open from now on
		}
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors are open, before %d", after, before)
	}
	noChildren(t)
}

// TestGroupWaited checks that a group is not signaled after its number is free.
func TestGroupWaited(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "true")
	g := NewGroup(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if g.waited {
		t.Error("the group was waited for before the wait")
	}
	if err := g.Wait(); err != nil || !g.waited {
		t.Errorf("%v, waited %v", err, g.waited)
	}
	if waitEnd(os.Getpid()) {
		t.Error("a process that is not a child has ended")
	}
}
