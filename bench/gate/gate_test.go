package gate_test

import (
	"testing"
	"time"

	"crabmem/bench/gate"
)

// failures counts the calls of Errorf and does not fail the test.
type failures struct {
	testing.TB
	errors int
}

func (f *failures) Errorf(string, ...any) { f.errors++ }

// TestEnforcedByEnvironment misses both limits with and without CRABMEM_GATE.
func TestEnforcedByEnvironment(t *testing.T) {
	for env, want := range map[string]int{"": 0, "1": 2} {
		t.Setenv("CRABMEM_GATE", env)
		f := &failures{TB: t}
		gate.Time(f, "a test", time.Now().Add(-time.Hour), time.Minute)
		gate.Time(f, "a test", time.Now(), time.Hour)
		gate.Most(f, "bytes", 2, 1)
		gate.Most(f, "bytes", 1, 1)
		if f.errors != want {
			t.Errorf("CRABMEM_GATE=%q: %d errors, want %d", env, f.errors, want)
		}
	}
}
