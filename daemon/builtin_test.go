package daemon

import (
	"slices"
	"testing"

	"crabmem/daemon/tool"
)

// TestBuiltInTools checks that the list for checks without a daemon is that of the
// daemon.
func TestBuiltInTools(t *testing.T) {
	s := serve(t, home(t), "")
	if got, want := s.setup().runner.Tools.Names(), tool.BuiltIn(); !slices.Equal(got, want) {
		t.Errorf("tools %q, want %q", got, want)
	}
}
