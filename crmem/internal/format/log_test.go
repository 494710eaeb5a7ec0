package format

import "testing"

// TestContextOfMissingBytes checks the reason that a context is refused for.
func TestContextOfMissingBytes(t *testing.T) {
	if got, want := checkContext([]byte{1, 0, 9, 0, 'x'}), "tag 1 has 9 bytes, 1 are left"; got != want {
		t.Errorf("reason %q, want %q", got, want)
	}
}
