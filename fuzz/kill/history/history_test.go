package history_test

import (
	"bytes"
	"slices"
	"testing"

	"crabmem/crmem"
	"crabmem/fuzz/kill/history"
)

// replay returns the entries and the next ID after a list of operations.
func replay(ops []crmem.Op) (entries []crmem.Entry, nextID uint64) {
	nextID = 1
	at := func(name string) int {
		return slices.IndexFunc(entries, func(e crmem.Entry) bool { return e.Name == name })
	}
	for _, op := range ops {
		switch o := op.(type) {
		case crmem.Add:
			entries = append(entries, crmem.Entry{ID: nextID, Name: o.Name, Kind: o.Kind,
				CreatedAt: crmem.UnixTime(history.Stamp.Unix()), Content: o.Content, Aliases: o.Aliases})
			nextID++
		case crmem.Update:
			entries[at(o.Name)].Content, entries[at(o.Name)].Aliases = o.Content, o.Aliases
		case crmem.Alias:
			entries[at(o.Name)].Aliases = o.Aliases
		case crmem.Remove:
			i := at(o.Name)
			entries = slices.Delete(entries, i, i+1)
		}
	}
	return entries, nextID
}

func TestCheckFindsEachPrefix(t *testing.T) {
	const seed, total = 7, 400
	w := history.NewWriter(seed, 0, true)
	var ops []crmem.Op
	ends := []int{0}
	for range total {
		ops = append(ops, w.Next()...)
		ends = append(ends, len(ops))
	}
	c := history.NewChecker(seed, 1)
	for n := range ends {
		entries, nextID := replay(ops[:ends[n]])
		p := &history.Progress{Issued: []int{min(n+1, total)}, Acked: []int{n}}
		found, err := c.Check(p, nextID, slices.Values(entries))
		if err != nil {
			t.Fatalf("after %d operations: %v", n, err)
		}
		if found[0] < n {
			t.Fatalf("after %d operations: found %d", n, found[0])
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	const seed = 11
	w := history.NewWriter(seed, 0, true)
	var ops []crmem.Op
	for range 50 {
		ops = append(ops, w.Next()...)
	}
	c := history.NewChecker(seed, 1)
	p := &history.Progress{Issued: []int{50}, Acked: []int{50}}
	for name, change := range map[string]func([]crmem.Entry, *uint64) []crmem.Entry{
		"lost entry":      func(es []crmem.Entry, _ *uint64) []crmem.Entry { return es[1:] },
		"swapped entries": func(es []crmem.Entry, _ *uint64) []crmem.Entry { es[0], es[1] = es[1], es[0]; return es },
		"other content":   func(es []crmem.Entry, _ *uint64) []crmem.Entry { es[0].Content += "x"; return es },
		"other id":        func(es []crmem.Entry, n *uint64) []crmem.Entry { es[len(es)-1].ID = *n; *n++; return es },
		"other time":      func(es []crmem.Entry, _ *uint64) []crmem.Entry { es[0].CreatedAt++; return es },
		"low next id":     func(es []crmem.Entry, n *uint64) []crmem.Entry { *n = 1; return es },
		"entry of no writer": func(es []crmem.Entry, n *uint64) []crmem.Entry {
			return append(es, crmem.Entry{ID: *n + 1, Name: "stranger"})
		},
	} {
		entries, nextID := replay(ops)
		entries = change(entries, &nextID)
		if _, err := c.Check(p, nextID, slices.Values(entries)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	entries, nextID := replay(ops)
	if _, err := c.Check(p, nextID, slices.Values(entries)); err != nil {
		t.Errorf("unchanged state: %v", err)
	}
}

func TestProgressReadsMarks(t *testing.T) {
	p := history.NewProgress(2)
	var b bytes.Buffer
	b.Write(history.Issued(0, 1))
	b.Write(history.Acked(0, 1))
	b.Write(history.Issued(1, 7))
	b.WriteString("a 1 7") // an incomplete line
	if err := p.Read(&b); err != nil {
		t.Fatal(err)
	}
	if p.Issued[0] != 1 || p.Acked[0] != 1 || p.Issued[1] != 7 || p.Acked[1] != 0 {
		t.Errorf("got %+v", p)
	}
	for _, bad := range []string{"x 0 1\n", "a 2 1\n", "a\n"} {
		if err := p.Read(bytes.NewBufferString(bad)); err == nil {
			t.Errorf("Read accepted %q", bad)
		}
	}
}
