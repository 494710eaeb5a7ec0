package search

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"crabmem/bm25/analysis"
	"crabmem/crmem/vfs"
)

// TestCurrentAndContinues changes each property of a file that an entry compares.
func TestCurrentAndContinues(t *testing.T) {
	first, last := strings.Repeat("a", 1100), strings.Repeat("b", 1100)
	f := newMemFolder(t, map[string]string{"good": first + last + "tail", "first": "x" + first[1:] + last + "tail", "last": first + last[1:] + "xtail"})
	now := time.Unix(1000, 0)
	pos := position{end: 2200, lines: 2, first: takeSample([]byte(first[:1024]), 0), last: takeSample([]byte(last[:1024]), 1176)}
	known := entry{size: 2204, mtime: now, ident: identity(1), pos: pos}
	same := listed{"good", 2204, now, identity(1)}
	for _, c := range []struct {
		what               string
		change             func(e *entry, f *listed)
		current, continues bool
	}{
		{"nothing", func(*entry, *listed) {}, true, true},
		{"longer", func(_ *entry, f *listed) { f.size++ }, false, true},
		{"longer and later", func(_ *entry, f *listed) { f.size, f.mtime = f.size+1, now.Add(1) }, false, true},
		{"later", func(_ *entry, f *listed) { f.mtime = now.Add(1) }, false, false},
		{"without tail", func(_ *entry, f *listed) { f.size = 2200 }, false, true},
		{"shorter", func(_ *entry, f *listed) { f.size = 2199 }, false, false},
		{"another file", func(_ *entry, f *listed) { f.ident = identity(2) }, false, false},
		{"no known identity", func(e *entry, f *listed) { e.ident = vfs.Identity{} }, false, true},
		{"no identities", func(e *entry, f *listed) { e.ident, f.ident = vfs.Identity{}, vfs.Identity{} }, true, true},
		{"no time", func(e *entry, f *listed) { e.mtime = time.Time{} }, false, true},
		{"no times", func(e *entry, f *listed) { e.mtime, f.mtime = time.Time{}, time.Time{} }, false, true},
		{"no lines", func(e *entry, f *listed) { e.pos = position{} }, true, false},
		{"another beginning", func(_ *entry, f *listed) { f.name = "first" }, true, false},
		{"another end", func(_ *entry, f *listed) { f.name = "last" }, true, false},
	} {
		e, l := known, same
		c.change(&e, &l)
		file, err := f.m.Open("/s/" + l.name)
		f.check(err)
		if got := e.current(l); got != c.current {
			t.Errorf("%s: current is %t", c.what, got)
		}
		if got := e.continues(file, l); got != c.continues {
			t.Errorf("%s: continues is %t", c.what, got)
		}
		f.check(file.Close())
	}
}

// TestRename renames a session in an index of three.
func TestRename(t *testing.T) {
	for _, c := range []struct {
		id, to string
		shaped bool
		want   bool
	}{
		{"b", "b_title.jsonl", true, true},
		{"b", "b_.jsonl", true, true},
		{"b", "b.jsonl", true, true},
		{"b", "b_title.jsonl", false, false},
		{"b", "b.jsonl", false, false},
		{"b", "c_title.jsonl", true, false},
		{"b", "bb.jsonl", true, false},
		{"b", "b.json", true, false},
		{"b", "b_used.jsonl", true, false},
	} {
		x := &Index{byName: make(map[string]*entry), numbers: make(map[string]uint32)}
		for _, name := range []string{"a", "b_old", "b_used"} {
			x.insert(&entry{name: name + ".jsonl", id: name[:1], shaped: c.shaped})
		}
		e := x.byName["b_old.jsonl"]
		got := x.rename(e, c.to)
		if got != c.want || (e.name == c.to) != c.want || (x.byName[c.to] == e) != c.want || (x.byName["b_old.jsonl"] == nil) != c.want {
			t.Errorf("%+v: %t, %s", c, got, e.name)
		}
		removals := uint64(0)
		if c.want {
			removals = 1
		}
		if ordered := c.to != "b_zzz.jsonl"; x.removals != removals || x.ordered != ordered {
			t.Errorf("%+v: %d removals, ordered %t", c, x.removals, x.ordered)
		}
	}
	x := &Index{byName: make(map[string]*entry), numbers: make(map[string]uint32)}
	a, b := &entry{name: "a.jsonl", id: "a", shaped: true}, &entry{name: "a_b.jsonl", id: "a", shaped: true}
	x.insert(a)
	x.insert(b)
	if !x.rename(a, "a_c.jsonl") || x.ordered {
		t.Error("ordered after a name that is out of order")
	}
	if !x.rename(b, "a_d.jsonl") || x.ordered {
		t.Error("ordered again")
	}
	x = &Index{byName: make(map[string]*entry), numbers: make(map[string]uint32)}
	a, b = &entry{name: "a.jsonl", id: "a", shaped: true}, &entry{name: "a_b.jsonl", id: "a", shaped: true}
	x.insert(a)
	x.insert(b)
	delete(x.byName, "a.jsonl") // as while it is removed in steps
	if !x.rename(b, "a.jsonl") || !x.ordered {
		t.Error("out of order after the name of a removed entry")
	}
}

// TestEqualScoresAreOrderedByNewer searches messages with one text.
func TestEqualScoresAreOrderedByNewer(t *testing.T) {
	files := map[string]string{}
	for i := range 4 {
		text := metaLine("crab", "")
		for range 4 {
			text += messageLine("assistant", "needle")
		}
		files[fmt.Sprintf("crab_user_%d.jsonl", i+1)] = text
	}
	for _, ordered := range []bool{true, false} {
		f := newMemFolder(t, nil)
		x := f.index(&IndexOptions{Analyzer: analysis.Plain})
		for i := range 4 {
			if !ordered {
				i = 3 - i
			}
			name := fmt.Sprintf("crab_user_%d.jsonl", i+1)
			f.write(name, files[name])
			f.check(x.Refresh())
		}
		if x.ordered != ordered {
			t.Fatalf("ordered is %t", x.ordered)
		}
		q := Query{Text: "needle", Limit: 20}
		text := ""
		r, err := x.Search(t.Context(), q)
		f.check(err)
		for _, h := range r.Hits {
			text += fmt.Sprintf(" %s:%d", h.ID[10:], h.Line)
		}
		if want := " 4:5 4:4 4:3 4:2 3:5 3:4 3:3 3:2 2:5 2:4 2:3 2:2 1:5 1:4 1:3 1:2"; text != want {
			t.Errorf("ordered %t: %s, want %s", ordered, text, want)
		}
	}
}

// TestArenaHoldsTexts leaves exactly the room that a text needs, and one byte less:
// the arena never grows.
func TestArenaHoldsTexts(t *testing.T) {
	calls := `[{"id":"1","function":{"name":"` + strings.Repeat("n", 30) + `","arguments":"` + strings.Repeat("a", 500) + `"}}]`
	for _, c := range []struct {
		line string
		need int
	}{
		{`{"role":"user","content":"` + strings.Repeat("x", 100) + `"}`, 101},
		{`{"role":"assistant","content":"xyz","tool_calls":` + calls + `}`, 3 + len(calls) + 1},
		{`{"role":"assistant","tool_calls":` + calls + `}`, len(calls) + 1},
		{`{"compact":"` + strings.Repeat("s", 70) + `"}`, 71},
		{`{"role":"user","content":"` + strings.Repeat("x", 2*arenaSize) + `"}`, 2*arenaSize + 1},
	} {
		for _, lacking := range []int{0, 1} {
			r := &indexReader{tools: true}
			r.arena.Grow(3 * arenaSize)
			size := r.arena.Cap()
			r.arena.WriteString(strings.Repeat("-", size-c.need+lacking))
			r.record.Decode([]byte(c.line), false)
			text := r.text()
			want := size
			if lacking > 0 {
				want = len(text)
			}
			if r.arena.Len() != want && (lacking > 0 || r.arena.Len() != size-c.need+len(text)) {
				t.Errorf("%.60s: %d bytes lack: the arena has %d of %d bytes", c.line, lacking, r.arena.Len(), r.arena.Cap())
			}
			if capacity := r.arena.Cap(); lacking == 0 && capacity != size || lacking > 0 && (capacity < max(arenaSize, c.need) || capacity >= size) {
				t.Errorf("%.60s: %d bytes lack: the arena has a capacity of %d", c.line, lacking, capacity)
			}
		}
	}
}

// TestPlacesBeyondLimits creates places at the limits of line numbers and of roles
// without a class.
func TestPlacesBeyondLimits(t *testing.T) {
	r := &indexReader{}
	r.begin(nil)
	r.record.Decode([]byte(`{"role":"user","content":"x"}`), false)
	r.place(math.MaxUint32, 1, classUser, false)
	r.place(math.MaxUint32+1, 2, classUser, false)
	if len(r.places) != 1 || len(r.texts) != 1 || r.places[0].line != math.MaxUint32 {
		t.Errorf("%+v, %d texts", r.places, len(r.texts))
	}
	text := metaLine("crab", "") + strings.Repeat(messageLine("r0", "again"), 2*maxOthers)
	for i := range maxOthers + 3 {
		text += messageLine(fmt.Sprintf("r%d", i), "needle")
	}
	f := newMemFolder(t, map[string]string{"crab_user_1.jsonl": text})
	x := f.index(&IndexOptions{Analyzer: analysis.Plain})
	e := x.byName["crab_user_1.jsonl"]
	if len(e.others) != maxOthers || e.others[maxOthers-1] != "r255" {
		t.Errorf("%d roles", len(e.others))
	}
	for i, p := range e.places[2*maxOthers:] {
		want := ""
		if i < maxOthers {
			want = fmt.Sprintf("r%d", i)
		}
		if got := roleName(p.role, e.others); got != want || p.role < classes {
			t.Errorf("role %d is %q, want %q", i, got, want)
		}
	}
	for role, want := range map[string]int{"r0": 2*maxOthers + 1, "r255": 1, "r256": 0, "r1": 1} {
		if r, err := x.Search(t.Context(), Query{Text: "again needle", Roles: []string{role}}); err != nil || r.Total != want || r.Searched != want {
			t.Errorf("%s: %+v, %v", role, r, err)
		}
	}
}

// TestCallsOfOtherRecords indexes markers with calls, and lines whose calls are no list,
// which are bad: only the calls of messages are text.
func TestCallsOfOtherRecords(t *testing.T) {
	const calls = `"tool_calls":[{"id":"1","function":{"name":"needle","arguments":"needle"}}]`
	for line, want := range map[string]string{
		`{"compact":"sum",` + calls + `}`:                                `0 of 2`,
		`{"x":1,` + calls + `}`:                                          `0 of 1`,
		`{"role":"user","content":"hay","tool_calls":"needle"}`:          `0 of 1`,
		`{"role":"user","content":"hay","tool_calls":{"name":"needle"}}`: `0 of 1`,
		`{"role":"user","content":"hay",` + calls + `}`:                  `1 of 2; one:2 "hay\n[calls needle needle]"`,
	} {
		f := newMemFolder(t, map[string]string{"one.jsonl": metaLine("crab", "") + line + "\n"})
		x := f.index(&IndexOptions{Tools: true, Analyzer: analysis.Plain})
		if got := found(t, x, Query{Text: "needle"}); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}
