package line

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

var seedFlag = flag.Uint64("seed", 0, "replay random tests with this seed")

// Random returns a source and prints its seed if the test fails.
func Random(t testing.TB) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("replay with -seed=%d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}
