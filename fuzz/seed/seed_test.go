package seed_test

import (
	"testing"

	"crabmem/fuzz/seed"
)

func TestOf(t *testing.T) {
	t.Setenv("CRABMEM_SEED", "18446744073709551615")
	if n := seed.Of(t); n != 1<<64-1 {
		t.Errorf("got %d", n)
	}
	if a, b := seed.Random(t).Uint64(), seed.Random(t).Uint64(); a != b {
		t.Errorf("different numbers with one seed: %d and %d", a, b)
	}
	if first, step := seed.Slice(t, 4); first != 3 || step != 4 {
		t.Errorf("one in 4 cases: %d, %d", first, step)
	}
	t.Setenv("CRABMEM_CRASH", "full")
	if first, step := seed.Slice(t, 4); first != 0 || step != 1 {
		t.Errorf("all cases: %d, %d", first, step)
	}
	t.Setenv("CRABMEM_SEED", "")
	if a, b := seed.Of(t), seed.Of(t); a == b {
		t.Errorf("twice the seed %d", a)
	}
}
