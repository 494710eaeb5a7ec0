// Package race lets a test depend on the race detector, which makes code up to 20 times
// slower.
package race

import "testing"

// Skip skips a long test if the race detector is on. The test starts no goroutines but
// those that open a store or build an index, and shorter tests start the same ones.
func Skip(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("long, and with no goroutines but those of shorter tests")
	}
}
