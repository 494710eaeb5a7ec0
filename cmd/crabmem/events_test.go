package main

import (
	"slices"
	"testing"

	"crabmem/daemon/agent"
	"crabmem/daemon/errtable"
)

// TestEventOfCancellation checks that crabmem events prints no failure for a canceled run.
func TestEventOfCancellation(t *testing.T) {
	for kind, want := range map[string]string{errtable.Cancelled: "canceled", errtable.Failed: "failed: x"} {
		if got := eventTexts(&agent.Event{Kind: agent.Done, Error: &agent.Failure{Kind: kind, Message: "x"}}); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q", kind, got)
		}
	}
}
