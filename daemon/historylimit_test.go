package daemon

import (
	"path/filepath"
	"testing"
	"time"

	"crabmem/crmem"
)

// TestHistoryLimit checks that the daemon opens its store with the setting [memory]
// history.
func TestHistoryLimit(t *testing.T) {
	const day = 24 * time.Hour
	dir := home(t)
	old, err := crmem.Open(filepath.Join(dir, "memory.db"), &crmem.Options{Now: func() time.Time { return time.Now().Add(-120 * day) }})
	if err == nil {
		err = old.Apply(crmem.Add{Name: "old"})
	}
	if err == nil {
		err = old.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir, "[memory]\nhistory = '90d'\n")
	if err := s.store.Apply(crmem.Add{Name: "new"}); err != nil {
		t.Fatal(err)
	}
	if err := s.store.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for c, err := range s.store.Changes() {
		if err != nil {
			t.Error(err)
		}
		names = append(names, c.Entry().Name)
	}
	if len(names) != 1 || names[0] != "new" || s.store.Len() != 2 {
		t.Errorf("changes of %q, %d entries", names, s.store.Len())
	}
}
