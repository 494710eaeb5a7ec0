package tool

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	ConfinedMain() // the tests' program is started again for confined commands
	if what := os.Getenv("CRABMEM_ATTACK"); what != "" {
		attack(what, os.Args[1:])
		return
	}
	goleak.VerifyTestMain(m)
}
