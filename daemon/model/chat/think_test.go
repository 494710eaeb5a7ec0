package chat

import (
	"strings"
	"testing"
)

// TestHeldWhiteSpace sends white space in small parts. The state keeps little of it, because
// each part searches what it keeps, and all of it is text.
func TestHeldWhiteSpace(t *testing.T) {
	var d thoughts
	var text strings.Builder
	for range 1 << 20 {
		part, reasoning := d.split(" ")
		text.WriteString(part)
		if len(d.held) > maxHeld || reasoning != "" {
			t.Fatalf("%d bytes held, reasoning %q", len(d.held), reasoning)
		}
	}
	if rest, _ := d.end(); text.Len()+len(rest) != 1<<20 {
		t.Errorf("%d bytes of text", text.Len()+len(rest))
	}
}
