// Package race lets a test depend on the race detector, which makes code up to 20 times
// slower.
package race

import "testing"

// Skip skips a long test of one goroutine if the race detector is on: the detector
// finds nothing in it.
func Skip(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("long, and of one goroutine: the race detector finds nothing")
	}
}
