package op

import (
	"testing"
	"time"

	"crabmem/crmem"
)

// TestNewName: a name that an entry or an alias has is followed by the day, and by a number.
func TestNewName(t *testing.T) {
	s := crmem.New(nil)
	defer s.Close()
	now := time.Date(2026, 4, 14, 23, 0, 0, 0, time.UTC)
	for _, want := range []string{"green tea", "green tea 2026-04-14", "green tea 2026-04-14 2", "green tea 2026-04-14 3"} {
		name, same, err := NewName(s, crmem.Remember{Content: "green tea."}, now)
		if name != want || same.ID != 0 || err != nil {
			t.Errorf("%q, %v, want %q", name, err, want)
		}
		if _, err := s.Remember(name, "another text", []string{"alias of it"}); err != nil {
			t.Fatal(err)
		}
	}
	if name, same, err := NewName(s, crmem.Remember{Content: "alias of it"}, now); name != "alias of it 2026-04-14" || same.ID != 0 || err != nil {
		t.Errorf("for an alias: %q, %v", name, err)
	}
	if e, err := s.Remember("same text", "same text!", nil); err != nil {
		t.Fatal(err)
	} else if name, same, _ := NewName(s, crmem.Remember{Content: "same text!"}, now); name != e.Name || same.ID != e.ID {
		t.Errorf("for the same text: %q, %v", name, same)
	}
}
