package crmem

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs/faultfs"
)

// counting opens /m.db with counts of reads. A send on the channel writes them.
func counting(t *testing.T, m *faultfs.Mem, readOnly bool, now *int64) (*Store, chan<- time.Time) {
	t.Helper()
	ticks := make(chan time.Time)
	old := usageTicks
	usageTicks = func() (<-chan time.Time, func()) { return ticks, func() {} }
	defer func() { usageTicks = old }()
	s, err := Open("/m.db", &Options{FS: m, ReadOnly: readOnly, CountReads: true, Now: func() time.Time { return time.Unix(*now, 0) }})
	noErr(t, err)
	return s, ticks
}

// usages returns the counts of the entries 1 to n of a store.
func usages(s *Store, n uint64) string {
	var list []string
	for id := uint64(1); id <= n; id++ {
		reads, last := s.Usage(id)
		at := last.Unix()
		if last.IsZero() {
			at = 0
		}
		list = append(list, fmt.Sprintf("%d@%d", reads, at))
	}
	return strings.Join(list, " ")
}

// storedUsages returns the counts as a process reads them that opens the store now.
func storedUsages(t *testing.T, m *faultfs.Mem, n uint64) string {
	t.Helper()
	s, err := Open("/m.db", &Options{FS: m, ReadOnly: true})
	noErr(t, err)
	defer s.Close()
	_, _ = s.Get("a") // not counted: it is no long-lived process
	return usages(s, n)
}

// TestAddUse checks what a store knows of changes and reads, also in a later process.
func TestAddUse(t *testing.T) {
	m, now := faultfs.NewMem(), int64(100)
	s, _ := counting(t, m, false, &now)
	noErr(t, s.Apply(Add{Name: "a"}, Add{Name: "b"}, Add{Name: "c"}))
	known := func(s *Store, ids ...uint64) string {
		list := make([]*EntryInfo, len(ids))
		for i, id := range ids {
			list[i] = &EntryInfo{ID: id}
		}
		s.AddUse(list...)
		text := ""
		for _, e := range list {
			text += fmt.Sprintf("%d@%d+%d ", e.UpdatedAt, e.AccessedAt, e.AccessCount)
		}
		return text
	}
	if got := known(s, 1, 2, 3); got != "0@0+0 0@0+0 0@0+0 " {
		t.Errorf("new entries: %s", got)
	}
	for range 2 {
		now++
		_, err := s.Get("a")
		noErr(t, err)
	}
	now = 200
	noErr(t, s.Apply(Alias{Name: "a", Aliases: []string{"x"}}, Rename{Name: "b", To: "d"}))
	now = 300
	noErr(t, s.Update(func(sn *Snapshot) (*Snapshot, error) {
		e, _ := sn.Get("c")
		e.Content = "loaded"
		a, _ := sn.Get("a")
		d, _ := sn.Get("d")
		return NewSnapshot(sn.NextID, []Entry{a, d, e})
	}))
	want := "200@102+2 200@0+0 300@0+0 "
	if got := known(s, 1, 2, 3); got != want {
		t.Errorf("the writer: %s, want %s", got, want)
	}
	noErr(t, s.Close())
	for _, readOnly := range []bool{true, false} {
		s, err := Open("/m.db", &Options{FS: m, ReadOnly: readOnly})
		noErr(t, err)
		if got := known(s, 1) + known(s, 2, 3); got != want {
			t.Errorf("a later process: %s, want %s", got, want)
		}
		noErr(t, s.Close())
	}
}

func TestCountReads(t *testing.T) {
	m, now := faultfs.NewMem(), int64(100)
	s, ticks := counting(t, m, false, &now)
	noErr(t, s.Apply(Add{Name: "a", Content: "red apple"}, Add{Name: "b", Content: "red brick"}, Add{Name: "c", Content: "[[a]] blue"}, Add{Name: "d"}))
	get := func(name string) {
		t.Helper()
		_, err := s.Get(name)
		noErr(t, err)
	}
	search := func(q Query) {
		t.Helper()
		_, err := s.Search(context.Background(), q)
		noErr(t, err)
	}
	get("a")
	now = 200
	search(Query{Text: "red"})
	search(Query{Text: "red", Limit: 1})
	search(Query{Text: "red", Uncounted: true})
	search(Query{Text: "blue", Expand: 1}) // a is linked, not found
	if _, err := s.Get("none"); err == nil {
		t.Error("no error for a missing entry")
	}
	if to, err := s.Link("b"); err != nil || to.Entry.ID != 2 { // counts no read
		t.Errorf("entry %d, %v", to.Entry.ID, err)
	}
	const want = "3@200 1@200 1@200 0@0"
	if got := usages(s, 4); got != want {
		t.Fatalf("counts %s, want %s", got, want)
	}
	if got := storedUsages(t, m, 4); got != "0@0 0@0 0@0 0@0" {
		t.Errorf("before the first write: %s", got)
	}
	ticks <- time.Time{}
	ticks <- time.Time{} // the first write is complete
	if got := storedUsages(t, m, 4); got != want || usages(s, 4) != want {
		t.Errorf("after a write: %s, %s, want %s", got, usages(s, 4), want)
	}
	now = 300
	get("d")
	noErr(t, s.Apply(Rename{Name: "b", To: "brick"}, Remove{Name: "c"}))
	get("brick")
	noErr(t, s.Close())
	if got := storedUsages(t, m, 4); got != "3@200 2@300 0@0 1@300" {
		t.Errorf("after the end: %s", got)
	}
	rows, err := format.DecodeUsage(memBytes(t, m, "/m.db-usage"), must1(readIdentity(m, "/m.db")))
	if err != nil || len(rows) != 3 {
		t.Errorf("a removed entry has counts: %v, %v", rows, err)
	}

	// Counts remain when another entry is purged, and those of the purged one do not.
	p := opened(t, "/m.db", &Options{FS: m}, 3)
	_, err = p.Purge("a")
	noErr(t, err)
	noErr(t, p.Close())
	if got := storedUsages(t, m, 4); got != "0@0 2@300 0@0 1@300" {
		t.Errorf("after a purge: %s", got)
	}
}

func must1[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestCountReadsConcurrently counts in a writer and two readers of one store.
func TestCountReadsConcurrently(t *testing.T) {
	m, now := faultfs.NewMem(), int64(100)
	w, _ := counting(t, m, false, &now)
	noErr(t, w.Apply(Add{Name: "a"}, Add{Name: "b"}))
	r1, ticks := counting(t, m, true, &now)
	r2, _ := counting(t, m, true, &now)
	stores := []*Store{w, r1, r2}
	for i := range 30 {
		now = int64(100 + i)
		_, err := stores[i%3].Get([]string{"a", "b"}[i%2])
		noErr(t, err)
		if i%7 == 0 {
			ticks <- time.Time{}
		}
		if i%5 == 0 {
			w.writeUsage()
		}
	}
	noErr(t, r2.Close())
	noErr(t, w.Close())
	noErr(t, r1.Close())
	if got := storedUsages(t, m, 2); got != "15@128 15@129" {
		t.Errorf("counts %s", got)
	}
}

// TestUsageFileReplaced puts a file that is to be ignored at the name.
func TestUsageFileReplaced(t *testing.T) {
	rows := []format.Usage{{ID: 1, CreatedAt: 100, Reads: 50, Last: 5}, {ID: 2, CreatedAt: 100, Reads: 70, Last: 5}}
	for what, put := range map[string]func(m *faultfs.Mem, id format.ID){
		"damaged": func(m *faultfs.Mem, id format.ID) {
			m.WriteFile("/m.db-usage", format.EncodeUsage(id, rows)[1:], 0o600)
		},
		"empty": func(m *faultfs.Mem, _ format.ID) { m.WriteFile("/m.db-usage", nil, 0o600) },
		"other store": func(m *faultfs.Mem, _ format.ID) {
			m.WriteFile("/m.db-usage", format.EncodeUsage(format.ID{1}, rows), 0o600)
		},
		"for all users": func(m *faultfs.Mem, id format.ID) { m.WriteFile("/m.db-usage", format.EncodeUsage(id, rows), 0o666) },
		"link": func(m *faultfs.Mem, id format.ID) {
			m.WriteFile("/other", format.EncodeUsage(id, rows), 0o600)
			m.Symlink("/other", "/m.db-usage")
		},
		"other entry": func(m *faultfs.Mem, id format.ID) {
			m.WriteFile("/m.db-usage", format.EncodeUsage(id, []format.Usage{{ID: 1, CreatedAt: 99, Reads: 50, Last: 5}, {ID: 9, CreatedAt: 100, Reads: 70, Last: 5}}), 0o600)
		},
	} {
		m, now := faultfs.NewMem(), int64(100)
		s, _ := counting(t, m, false, &now)
		noErr(t, s.Apply(Add{Name: "a"}, Add{Name: "b"}))
		put(m, must1(readIdentity(m, "/m.db")))
		if got := usages(s, 2); got != "0@0 0@0" {
			t.Errorf("%s: counts %s", what, got)
		}
		_, err := s.Get("a")
		noErr(t, err)
		noErr(t, s.Close())
		if got := storedUsages(t, m, 2); got != "1@100 0@0" {
			t.Errorf("%s: counts after a write: %s", what, got)
		}
		fi, err := m.Lstat("/m.db-usage")
		noErr(t, err)
		if fi.Mode() != 0o600 || fi.Size() != format.UsageSize(1) {
			t.Errorf("%s: mode %v, %d bytes", what, fi.Mode(), fi.Size())
		}
	}
}

// TestUsageWriteFails fails each call of a write of the counts. Later writes contain
// them.
func TestUsageWriteFails(t *testing.T) {
	for fail, hit := 1, true; hit; fail++ {
		m, now := faultfs.NewMem(), int64(100)
		s, _ := counting(t, m, false, &now)
		noErr(t, s.Apply(Add{Name: "a"}))
		for range 2 {
			_, err := s.Get("a")
			noErr(t, err)
			calls := 0
			hit = false
			m.Hook = func(c faultfs.Call) error {
				if calls++; calls == fail {
					if hit = true; c.Op == "unlock" {
						return nil // the lock would be held forever
					}
					return syscall.EIO
				}
				return nil
			}
			s.writeUsage()
			m.Hook = nil
			_, err = s.Get("a")
			noErr(t, err)
		}
		if got := usages(s, 1); got != "4@100" {
			t.Errorf("call %d failed: counts %s", fail, got)
		}
		noErr(t, s.Close())
		if got := storedUsages(t, m, 1); got != "4@100" {
			t.Errorf("call %d failed: counts in the file %s", fail, got)
		}
	}
}

// TestUsageIsBounded keeps the entries that were read last.
func TestUsageIsBounded(t *testing.T) {
	defer func(n int) { maxUsage = n }(maxUsage)
	maxUsage = 2
	m, now := faultfs.NewMem(), int64(100)
	s, _ := counting(t, m, false, &now)
	noErr(t, s.Apply(Add{Name: "a"}, Add{Name: "b"}, Add{Name: "c"}))
	for i, name := range []string{"b", "a", "c", "a"} {
		now = int64(100 + i)
		_, err := s.Get(name)
		noErr(t, err)
	}
	noErr(t, s.Close())
	if got := storedUsages(t, m, 3); got != "2@103 0@0 1@102" {
		t.Errorf("counts %s", got)
	}
}

// BenchmarkCountedSearch compares searches that count reads with others.
func BenchmarkCountedSearch(b *testing.B) {
	for _, count := range []bool{false, true} {
		s := New(&Options{CountReads: count})
		for i := range 5000 {
			if err := s.Apply(Add{Name: fmt.Sprint("entry ", i), Content: fmt.Sprintf("words of the memory %d, in bucket %d of many", i, i%50)}); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprint("count=", count), func(b *testing.B) {
			for i := range b.N {
				if _, err := s.Search(context.Background(), Query{Text: fmt.Sprintf("bucket %d", i%50), Limit: 5}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
