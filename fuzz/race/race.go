// Package race lets a test depend on the race detector, which makes code up to 20 times
// slower.
package race

import "testing"

// Skip skips a long test without concurrent goroutines if the race detector is on.
func Skip(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("long, and without concurrent goroutines: it cannot race")
	}
}
