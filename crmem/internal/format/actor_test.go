package format

import (
	"slices"
	"testing"
)

// TestFields lists the fields in the order of their tags.
func TestFields(t *testing.T) {
	a := Actor{Agent: "agent", Session: "session", Call: "call", Client: "client", Origin: "origin", Op: "op"}
	var got []string
	for _, f := range a.Fields() {
		got = append(got, *f)
	}
	if want := []string{"agent", "session", "call", "client", "origin", "op"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if MaxActorField != 1024 {
		t.Errorf("MaxActorField is %d; FORMAT.md has 1,024", MaxActorField)
	}
}
