package crmem

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// tableModel is a table as a map of its entries.
type tableModel map[uint64]Entry

// checkTable compares a sorted table with its model.
func checkTable(t *testing.T, tab *table, model tableModel, indexed bool) {
	t.Helper()
	var live int
	var kinds [2]int
	var bytes int64
	aliases := map[string][]uint64{}
	var want []Entry
	for _, id := range slices.Sorted(maps.Keys(model)) {
		e := model[id]
		want = append(want, e)
		live++
		kinds[e.Kind]++
		bytes += int64(len(recordOf(&e)))
		for _, a := range e.Aliases {
			if !slices.Contains(aliases[a], id) {
				aliases[a] = append(aliases[a], id)
			}
		}
		if r := tab.byName(e.Name); r == "" || r.ID() != id {
			t.Fatalf("byName %q: %q", e.Name, r)
		}
		if got := tab.byID(id); got != recordOf(&e) {
			t.Fatalf("byID(%d) = %q", id, got)
		}
	}
	if tab.live != live || tab.kinds != kinds || tab.bytes != bytes {
		t.Fatalf("live %d, kinds %v, %d bytes; want %d, %v, %d", tab.live, tab.kinds, tab.bytes, live, kinds, bytes)
	}
	if n := [5]int{tab.count(nil), tab.count([]Kind{Note}), tab.count([]Kind{Archive}), tab.count([]Kind{Note, Archive}), tab.count([]Kind{7})}; n != [5]int{live, kinds[0], kinds[1], live, 0} {
		t.Fatalf("counts %v", n)
	}
	if got := slices.Collect(tab.all()); !slices.EqualFunc(got, want, Entry.Equal) {
		t.Fatalf("all: %v, want %v", got, want)
	}
	if !slices.IsSortedFunc(tab.recs, func(a, b rec) int { return cmp.Compare(a.id, b.id) }) || len(tab.low) > 0 {
		t.Fatalf("not sorted: %v", tab.recs)
	}
	used := 0
	for _, s := range tab.slots {
		if s != 0 {
			used++
		}
	}
	if size := len(tab.slots); tab.used != used || used != live || size&(size-1) != 0 || 2*used > size {
		t.Fatalf("%d of %d slots in use, counted %d", used, size, tab.used)
	}
	if !indexed {
		return
	}
	for _, a := range tableAliases {
		if got := tab.alias(a); !slices.Equal(got, aliases[a]) {
			t.Fatalf("alias %q: %v, want %v", a, got, aliases[a])
		}
	}
	if len(tab.owners) != len(aliases) {
		t.Fatalf("%d aliases in the index, want %d", len(tab.owners), len(aliases))
	}
}

var tableAliases = []string{"a", "b", "c", "name 3"}

// TestTableMatchesMap changes tables at random and compares them with maps, with
// and without the index of aliases.
func TestTableMatchesMap(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 5))
		var tab table
		if seed%3 > 0 {
			tab.init(int(seed % 20))
		}
		model := tableModel{}
		taken := map[string]bool{}
		next, indexed := uint64(1), false
		ids := 20 + random.IntN(200)
		for step := range 300 {
			if step == 50 && seed%2 == 0 {
				tab.alias("")
				indexed = true
			}
			id := uint64(1 + random.IntN(ids))
			if random.IntN(2) == 0 {
				id = next
			}
			e, ok := model[id]
			switch {
			case ok && random.IntN(3) == 0:
				tab.remove(id)
				delete(model, id)
				delete(taken, e.Name)
			default:
				if !ok {
					e = Entry{ID: id, Name: fmt.Sprint("name ", random.IntN(300)), Kind: Kind(random.IntN(2))}
					if taken[e.Name] {
						if id == next && tab.append(recordOf(&e)) {
							t.Fatalf("appended %q twice", e.Name)
						}
						continue
					}
				}
				e.Content = fmt.Sprint(random.IntN(1 << 20))
				e.Aliases = nil
				for range random.IntN(4) {
					e.Aliases = append(e.Aliases, tableAliases[random.IntN(len(tableAliases))])
				}
				tab.put(recordOf(&e))
				model[id], taken[e.Name] = e, true
				next = max(next, id+1)
			}
			if got := tab.byID(id); (got == "") != (model[id].ID == 0) {
				t.Fatalf("seed %d, step %d: byID(%d) = %q", seed, step, id, got)
			}
			if random.IntN(4) == 0 {
				tab.sort()
				checkTable(t, &tab, model, indexed)
			}
		}
	}
}

// TestTableAppendGrows appends records: at most half of the slots are used, and
// a refused record changes nothing.
func TestTableAppendGrows(t *testing.T) {
	for _, n := range []int{0, 1, 3, 4, 5, 8, 9, 16, 17} {
		var tab table
		tab.init(n)
		if size := len(tab.slots); size < 2*n || size < 8 || size > 8 && size >= 4*n || cap(tab.recs) != n {
			t.Errorf("%d names: %d slots, room for %d records", n, size, cap(tab.recs))
		}
		model := tableModel{}
		for i := range uint64(40) {
			e := Entry{ID: i + 1, Name: fmt.Sprint(i)}
			if !tab.append(recordOf(&e)) {
				t.Fatalf("append %d", i)
			}
			model[e.ID] = e
			e.ID++
			if tab.append(recordOf(&e)) {
				t.Fatalf("appended %q twice", e.Name)
			}
			checkTable(t, &tab, model, false)
		}
	}
}

// TestEmptyTableFindsNothing looks up names and IDs in tables without entries.
func TestEmptyTableFindsNothing(t *testing.T) {
	var tab table
	if r := tab.byName("x"); r != "" {
		t.Errorf("byName: %q", r)
	}
	if i, ok := tab.at(1); i != 0 || ok {
		t.Errorf("at: %d, %t", i, ok)
	}
	tab.init(0)
	if r := tab.byName("x"); r != "" {
		t.Errorf("byName after init: %q", r)
	}
	if got := tab.alias("x"); got != nil {
		t.Errorf("alias: %v", got)
	}
	for e := range tab.all() {
		t.Errorf("all: %v", e)
	}
}

// TestTableKeepsLoadedFile removes records of a file in memory: below a quarter
// of its bytes in use, the table copies the rest and releases the file.
func TestTableKeepsLoadedFile(t *testing.T) {
	var entries []Entry
	for i := range 8 {
		entries = append(entries, Entry{ID: uint64(i + 1), Name: fmt.Sprint(i)})
	}
	db, log := encodedStore(t, 9, "0", "1", "2", "3", "4", "5", "6", "7"), encodedStore(t, 2, "0")
	sn, err := Decode(db)
	noErr(t, err)
	tab := &sn.t
	tab.loadedFrom(db, nil, log) // no record is in log
	size := len(recordOf(&entries[0]))
	want := func(files int, left int) {
		t.Helper()
		if len(tab.loaded) != files || files > 0 && tab.loaded[0].left != int64(left*size) {
			t.Errorf("loaded: %+v, want %d files with %d records of %d bytes", tab.loaded, files, left, size)
		}
	}
	want(1, 8)
	for i := range 6 {
		tab.remove(uint64(i + 1))
		if left := 8 - i - 1; left*size*keepLoaded >= len(db) {
			want(1, left)
			continue
		}
		want(0, 0)
	}
	for _, id := range []uint64{7, 8} {
		if got := tab.byID(id); got != recordOf(&entries[id-1]) {
			t.Errorf("entry %d: %q", id, got)
		}
	}
	clear(db)
	if got := tab.byID(8); got != recordOf(&entries[7]) {
		t.Errorf("the copy changed with the file: %q", got)
	}
}

// TestTableRestoresIDs puts up to 64 records by descending IDs, and removes each record in
// turn of tables with as many records and puts it again. The table still finds all names.
func TestTableRestoresIDs(t *testing.T) {
	for n := range uint64(64) {
		var down table
		down.init(0)
		for i := n; i > 0; i-- {
			down.put(recordOf(&Entry{ID: i, Name: fmt.Sprint("name ", i)}))
		}
		for i := range n {
			if down.byName(fmt.Sprint("name ", i+1)) == "" {
				t.Fatalf("%d records by descending IDs: name %d is missing", n, i+1)
			}
		}
		for id := range n {
			var tab table
			tab.init(0)
			for i := range n {
				tab.put(recordOf(&Entry{ID: i + 1, Name: fmt.Sprint("name ", i)}))
			}
			tab.remove(id + 1)
			tab.put(recordOf(&Entry{ID: id + 1, Name: fmt.Sprint("name ", id)}))
			for i := range n {
				if r := tab.byName(fmt.Sprint("name ", i)); r == "" || r.ID() != i+1 {
					t.Fatalf("%d records, ID %d put again: name %d is missing", n, id+1, i)
				}
			}
		}
	}
}
