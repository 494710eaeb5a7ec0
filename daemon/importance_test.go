package daemon

import (
	"path/filepath"
	"testing"

	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
	"crabmem/daemon/wire"
)

// TestImportance checks that the daemon ranks with the settings of [recall], explains
// the result, and counts reads until the next start.
func TestImportance(t *testing.T) {
	dir := home(t)
	s := serve(t, dir, "[recall]\nimportance_weight = 1\n")
	if err := s.store.Apply(crmem.Add{Name: "a", Content: "word"}, crmem.Add{Name: "b", Content: "---\nimportance: 1\n---\nword"}); err != nil {
		t.Fatal(err)
	}
	c := &client.Client{Addr: wire.Addr{Network: "unix", Address: Socket(dir)}}
	defer c.Close()
	a, err := op.Recall.Do(t.Context(), c, op.Question{Query: "word", Explain: true})
	if err != nil {
		t.Fatal(err)
	}
	h := a.Hits[0]
	if i := h.Explain.Importance; h.Name != "b" || i == nil || i.Explicit != 1 || i.Weight != 1 || h.Score != h.Explain.Score*i.Factor {
		t.Errorf("first hit %+v, %+v", h, h.Explain)
	}
	reads := func() (n uint64) {
		r, err := crmem.Open(filepath.Join(dir, "memory.db"), &crmem.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		n, _ = r.Usage(2)
		return n
	}
	if n := reads(); n != 0 {
		t.Errorf("%d reads are stored before the daemon writes them", n)
	}
	s.stop()
	if n := reads(); n != 1 {
		t.Errorf("%d reads are stored after the stop, want 1", n)
	}
}
