package tool

import (
	"testing"

	"crabmem/daemon/sandbox"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	sandbox.Main() // the test program is started again for confined commands
	goleak.VerifyTestMain(m)
}
