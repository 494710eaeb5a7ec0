package sandbox_test

import (
	"os"
	"testing"

	"crabmem/daemon/sandbox"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	sandbox.Main() // the test program is started again for confined commands
	if what := os.Getenv("CRABMEM_ATTACK"); what != "" {
		attack(what, os.Args[1:])
		return
	}
	goleak.VerifyTestMain(m)
}
