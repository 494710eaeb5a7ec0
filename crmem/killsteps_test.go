package crmem_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"crabmem/crmem"
	"crabmem/crmem/vfs/faultfs"
)

// TestKillSteps kills a process before each of its calls: of the first writes of a store,
// and of writes and checkpoints later. Each store that it leaves is valid, and the next
// writer reports no missing log.
func TestKillSteps(t *testing.T) {
	m := faultfs.NewMem()
	var states []*faultfs.Mem
	m.Hook = func(faultfs.Call) error {
		states = append(states, m.Kill())
		return nil
	}
	for i := range 2 {
		s, err := crmem.Open("/d/m.db", &crmem.Options{FS: m})
		for n := 0; n < 3 && err == nil; n++ {
			if _, err = s.Remember(fmt.Sprint("entry ", i, n), "text", nil); err == nil {
				err = s.Checkpoint()
			}
		}
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m.Hook = nil
	if len(states) < 300 {
		t.Fatalf("%d states", len(states))
	}
	for i, m := range states {
		report, err := crmem.Check(m, "/d/m.db", 0)
		if err == nil {
			err = report.Err()
		}
		if err != nil && !errors.Is(err, crmem.ErrNoStore) {
			t.Errorf("state %d: %v", i, err)
		}
		var warned []string
		s, err := crmem.Open("/d/m.db", &crmem.Options{FS: m, Warn: func(text string) { warned = append(warned, text) }})
		if err == nil {
			_, err = s.Remember("later", "text", nil)
			err = errors.Join(err, s.Close())
		}
		if err != nil {
			t.Errorf("state %d: %v", i, err)
		}
		for _, text := range warned {
			if strings.Contains(text, "lost") || strings.Contains(text, "missing") {
				t.Errorf("state %d: %s", i, text)
			}
		}
	}
	t.Logf("%d states of killed processes", len(states))
}
