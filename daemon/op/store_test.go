package op_test

import (
	"slices"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/op"
)

// TestUpdateDuringPlan changes an entry after plan has read it: Update calls plan
// again, so that no change is lost.
func TestUpdateDuringPlan(t *testing.T) {
	s := crmem.New(nil)
	if _, err := s.Remember("one", "text", nil); err != nil {
		t.Fatal(err)
	}
	calls := 0
	_, err := op.Store{Store: s}.Update(t.Context(), func(s *crmem.Store) ([]crmem.Op, error) {
		e, err := s.Get("one")
		if calls++; calls == 1 {
			if err := s.Apply(crmem.Alias{Name: "one", Aliases: []string{"first"}}); err != nil {
				return nil, err
			}
		}
		return []crmem.Op{crmem.Alias{Name: "one", Aliases: op.WithAliases(e.Aliases, []string{"second"})}}, err
	})
	if e, _ := s.Get("one"); err != nil || calls != 2 || !slices.Equal(e.Aliases, []string{"first", "second"}) {
		t.Errorf("%d calls, aliases %q, %v", calls, e.Aliases, err)
	}
}

// TestEditEmptyPassage refuses an empty passage, which no schema excludes on the socket.
func TestEditEmptyPassage(t *testing.T) {
	s := crmem.New(nil)
	defer s.Close()
	if _, err := s.Remember("one", "text", nil); err != nil {
		t.Fatal(err)
	}
	_, err := op.EditNote.Do(t.Context(), op.Store{Store: s}, op.PassageEdit{Name: "one", New: "more"})
	if err == nil || err.Error() != "old_text is empty; nothing was written" {
		t.Errorf("an empty passage: %v", err)
	}
}
