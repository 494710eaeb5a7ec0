// Package gate checks limits that depend on the load of the machine: times, peak
// memory, and effects of scheduling. A test that misses such a limit logs a line. With
// CRABMEM_GATE=1 it fails. Set that only on a machine without other load, as .ci/full
// does.
package gate

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// Hang is the timeout after which a test reports that another process or goroutine
// hangs. It is long enough for a loaded machine.
const Hang = 5 * time.Minute

// Until polls done, and fails t, a test or a script, if it is false for Hang. It is for
// what another process or a connection does. A test without those runs in a bubble of
// testing/synctest and needs no poll.
func Until(t interface{ Fatalf(string, ...any) }, what string, done func() bool) {
	if t, ok := t.(testing.TB); ok {
		t.Helper()
	}
	for began := time.Now(); !done(); time.Sleep(time.Millisecond) {
		if time.Since(began) > Hang {
			t.Fatalf("never: %s", what)
		}
	}
}

// Enforced reports whether a missed limit is an error.
func Enforced() bool { return os.Getenv("CRABMEM_GATE") != "" }

// Time reports a miss if the time since began exceeds limit.
func Time(t testing.TB, what string, began time.Time, limit time.Duration) {
	t.Helper()
	if took := time.Since(began); took > limit {
		miss(t, "%s took %v, limit %v", what, took, limit)
	}
}

// Most reports a miss if got exceeds limit.
func Most(t testing.TB, what string, got, limit int64) {
	t.Helper()
	if got > limit {
		miss(t, "%s: %d, limit %d", what, got, limit)
	}
}

func miss(t testing.TB, format string, args ...any) {
	t.Helper()
	if Enforced() {
		t.Errorf(format, args...)
	} else {
		t.Logf("not enforced: "+format, args...)
	}
}

// Needs skips a test without a program. If CRABMEM_REQUIRE contains the program, the test fails.
func Needs(t testing.TB, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("CRABMEM_REQUIRE"), ","), program) {
		t.Fatalf("CRABMEM_REQUIRE=%[1]s, but %[1]s is not on the PATH", program)
	}
	t.Skipf("SKIPPED: %s is not on the PATH", program)
}
