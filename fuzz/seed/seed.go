// Package seed determines the random numbers of tests.
package seed

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Of returns the number in the environment variable CRABMEM_SEED, or a new number. If the
// test fails, it logs how to repeat the test.
func Of(t testing.TB) uint64 {
	n := rand.Uint64()
	if s := os.Getenv("CRABMEM_SEED"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("CRABMEM_SEED: %v", err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with CRABMEM_SEED=%d", n)
		}
	})
	return n
}

// Slice returns the first case, counted from 0, and the step to the next: one in n cases. [Of]
// determines the first case. With CRABMEM_CRASH=full, Slice selects all cases.
func Slice(t testing.TB, n int) (first, step int) {
	if os.Getenv("CRABMEM_CRASH") == "full" {
		return 0, 1
	}
	return int(Of(t) % uint64(n)), n
}

// Random returns random numbers that [Of] determines.
func Random(t testing.TB) *rand.Rand { return rand.New(rand.NewPCG(Of(t), 0)) }
