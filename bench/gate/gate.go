// Package gate contains the limits that depend on the load of the machine:
// times, peaks of memory, and counts of lucky schedules. A test that misses
// such a limit logs a line. CRABMEM_GATE=1 makes the miss an error; .ci/full
// sets it on a machine with no other load.
package gate

import (
	"os"
	"testing"
	"time"
)

// Hang is how long a test waits for another process or goroutine before it
// reports a hang. A loaded machine does not reach it.
const Hang = 5 * time.Minute

// Enforced reports whether a missed limit is an error.
func Enforced() bool { return os.Getenv("CRABMEM_GATE") != "" }

// Time compares the time since began with a limit.
func Time(t testing.TB, what string, began time.Time, limit time.Duration) {
	t.Helper()
	if took := time.Since(began); took > limit {
		miss(t, "%s took %v, limit %v", what, took, limit)
	}
}

// Most compares a figure with its greatest allowed value.
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
