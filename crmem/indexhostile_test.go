package crmem_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/race"
)

// A forger changes a valid index file, whose checksums are then computed again.
type forger struct {
	rng *rand.Rand
	b   []byte
	f   *format.IndexFooter
}

// at returns the bytes of a section.
func (g *forger) at(section int) []byte {
	s := g.f.Sections[section]
	return g.b[s.Off : s.Off+s.Len]
}

// place changes a place.
func (g *forger) place(i int, change func(p *format.IndexPlace)) {
	b := g.at(format.IndexEntries)[i*format.IndexEntrySize:]
	p := format.ReadIndexPlace(b)
	change(&p)
	copy(b, p.Append(nil))
}

func (g *forger) places(change func(i int, p *format.IndexPlace)) {
	for i := range int(g.f.Entries()) {
		g.place(i, func(p *format.IndexPlace) { change(i, p) })
	}
}

// names changes the hashes and the owners of names.
func (g *forger) names(change func(i int, hash uint64, owner uint32) (uint64, uint32)) {
	b := g.at(format.IndexNames)
	for i := 0; i < len(b); i += format.IndexNameSize {
		h, o := change(i/format.IndexNameSize, binary.LittleEndian.Uint64(b[i:]), binary.LittleEndian.Uint32(b[i+8:]))
		binary.LittleEndian.PutUint64(b[i:], h)
		binary.LittleEndian.PutUint32(b[i+8:], o)
	}
}

// forgeries change an index file. A forged search index may only change a ranking. A
// forged list of names may hide a name; only readers use it here.
var forgeries = []struct {
	name   string
	names  bool
	change func(g *forger)
}{
	{"places outside the snapshot", false, func(g *forger) {
		g.places(func(_ int, p *format.IndexPlace) { p.Off = 1<<62 - uint64(g.rng.IntN(3)) })
	}},
	{"long places", false, func(g *forger) {
		g.places(func(_ int, p *format.IndexPlace) { p.Len = 1<<32 - 1 - uint32(g.rng.IntN(3)) })
	}},
	{"places of the complete snapshot", false, func(g *forger) {
		g.places(func(_ int, p *format.IndexPlace) { p.Off, p.Len = 0, uint32(g.f.Digest.Len) })
	}},
	{"wrong IDs", false, func(g *forger) { g.places(func(i int, p *format.IndexPlace) { p.ID += 3 }) }},
	{"one ID", false, func(g *forger) { g.places(func(_ int, p *format.IndexPlace) { p.ID = 1 }) }},
	{"unsorted IDs", false, func(g *forger) { g.places(func(_ int, p *format.IndexPlace) { p.ID = g.rng.Uint64N(60) }) }},
	{"no length", false, func(g *forger) { g.places(func(_ int, p *format.IndexPlace) { p.Len = 0 }) }},
	{"wrong checksum", false, func(g *forger) { g.places(func(_ int, p *format.IndexPlace) { p.CRC++ }) }},
	{"swapped places", false, func(g *forger) {
		var first format.IndexPlace
		g.place(0, func(p *format.IndexPlace) { first = *p })
		g.places(func(_ int, p *format.IndexPlace) { id := p.ID; *p = first; p.ID = id })
	}},
	{"one hash", true, func(g *forger) {
		g.names(func(_ int, _ uint64, o uint32) (uint64, uint32) { return g.f.NameHash("deploy 1"), o })
	}},
	{"one owner", true, func(g *forger) {
		g.names(func(_ int, h uint64, o uint32) (uint64, uint32) { return g.f.NameHash("deploy 1"), o & 1 })
	}},
	{"unsorted names", true, func(g *forger) {
		g.names(func(_ int, h uint64, o uint32) (uint64, uint32) { return g.rng.Uint64(), o })
	}},
	{"owners that do not exist", true, func(g *forger) {
		g.names(func(_ int, h uint64, o uint32) (uint64, uint32) { return h, o | 1<<31 })
	}},
	{"aliases as names", true, func(g *forger) {
		g.names(func(_ int, h uint64, o uint32) (uint64, uint32) { return h, o ^ 1 })
	}},
	{"no names", true, func(g *forger) { g.f.Sections[format.IndexNames].Len = 0 }},
	{"no search index", false, func(g *forger) { g.f.Sections[format.IndexSearch].Len = 0 }},
	{"related IDs", false, func(g *forger) { g.f.Sections[format.IndexRelations] = g.f.Sections[format.IndexSearch]; g.trim(8) }},
	{"other conversations", false, func(g *forger) { g.f.Sections[format.IndexConversations] = g.f.Sections[format.IndexSearch] }},
	{"no conversations", false, func(g *forger) { g.f.Sections[format.IndexConversations].Len = 0 }},
	{"many conversations", false, func(g *forger) { g.f.Sections[format.IndexConversations].Len = 1 << 62 }},
	{"messages that are no entries", false, func(g *forger) {
		b := g.at(format.IndexConversations)
		for n := uint32(0); len(b) > 0; {
			if n == 0 {
				n = binary.LittleEndian.Uint32(b[4:])
				b = b[8+binary.LittleEndian.Uint32(b):]
			}
			b[1]++ // the ID
			b, n = b[32:], n-1
		}
	}},
	{"many related IDs", false, func(g *forger) { g.f.Sections[format.IndexRelations].Len = 1 << 62 }},
	{"overlapping sections", false, func(g *forger) {
		g.f.Sections[format.IndexRelations] = g.f.Sections[format.IndexEntries]
	}},
	{"sections in another order", true, func(g *forger) {
		s := &g.f.Sections
		s[format.IndexNames], s[format.IndexSearch] = s[format.IndexSearch], s[format.IndexNames]
		s[format.IndexNames].Len -= s[format.IndexNames].Len % format.IndexNameSize
	}},
	{"other entries for search", false, func(g *forger) {
		for i := range int(g.f.Entries()) {
			g.place(i, func(p *format.IndexPlace) { p.ID = p.ID<<32 | 1 })
		}
	}},
	{"random search index", false, func(g *forger) {
		b := g.at(format.IndexSearch)
		for range 1 + g.rng.IntN(40) {
			b[g.rng.IntN(len(b))] = byte(g.rng.Uint32())
		}
	}},
	{"zero search index", false, func(g *forger) { clear(g.at(format.IndexSearch)[:len(g.at(format.IndexSearch))/2]) }},
	{"random entries", false, func(g *forger) {
		for _, i := range []int{format.IndexEntries, format.IndexNames, format.IndexRelations, format.IndexConversations} {
			if b := g.at(i); len(b) > 0 {
				b[g.rng.IntN(len(b))] ^= 1 << g.rng.IntN(8)
			}
		}
	}},
	{"bytes", false, func(g *forger) { g.f.Bytes = 1<<63 + 5 }},
	{"a later log", false, func(g *forger) { g.f.Seq += 3 }},
	{"an earlier log", false, func(g *forger) { g.f.Seq, g.f.LogSalt, g.f.LogSum = 0, 0, 0 }},
	{"another size", false, func(g *forger) { g.f.Digest.Len = 1 << 40 }},
	{"a time of the future", false, func(g *forger) { g.f.Hashed, g.f.Changed = 1<<63-1, -1<<63 }},
}

// trim makes the length of section IndexRelations a multiple of n.
func (g *forger) trim(n uint64) {
	s := &g.f.Sections[format.IndexRelations]
	s.Len -= s.Len % n
}

// forge returns a changed copy of an index file, with valid checksums.
func forge(t *testing.T, rng *rand.Rand, b []byte, change func(g *forger)) []byte {
	g := &forger{rng: rng, b: slices.Clone(b), f: footerOf(t, b)}
	change(g)
	return sealed(t, g.b, func(f *format.IndexFooter) {
		sum, data := f.SumsCRC, f.Data
		*f = *g.f
		f.SumsCRC, f.Data = sum, data
	})
}

// textsOf returns the entries of a store by their text.
func textsOf(s *crmem.Store) map[string]bool {
	m := map[string]bool{}
	for e := range s.All() {
		m[stateText(e)] = true
	}
	return m
}

// TestIndexForged opens stores with forged index files. No call panics, memory and calls
// are bounded, each entry that is found is one of the store, and after writes the store
// is valid.
func TestIndexForged(t *testing.T) {
	race.Skip(t)
	rng := rand.New(rand.NewPCG(4, 1))
	base := damageScene(t, rng)
	s := base.open(readAll)
	texts, size := textsOf(s), s.Stats().SnapshotBytes
	noErr(t, s.Close())
	for round := range len(forgeries) {
		for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
			forged := forgeries[round%len(forgeries)]
			c := base.copyOf()
			name := indexFiles[a&1]
			if !strings.HasSuffix(name, a.String()) {
				name = indexFiles[1-a&1]
			}
			only := c.bytes(name)
			c.removeIndexes()
			c.fs.WriteFile(name, forge(t, rng, only, forged.change), 0o600)
			calls := 0
			c.fs.Hook = func(faultfs.Call) error { calls++; return nil }
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for _, o := range []crmem.Options{readLazily, writeLazily} {
				s, err := crmem.Open("/m.db", c.options(o))
				if err != nil {
					t.Errorf("%s: %v: open, lazy %+v: %v", forged.name, a, o.ReadOnly, err)
					continue
				}
				if e, err := s.Get("deploy 1"); err == nil && !texts[stateText(e)] {
					t.Errorf("%s: Get returned %v", forged.name, e)
				}
				for _, q := range []string{"tea", "deploy release", "memries indxes", "kind:note café -tea"} {
					for _, b := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
						r, err := s.Search(context.Background(), crmem.Query{Text: q, Analyzer: b, Syntax: true, Expand: 1, Explain: true})
						if err != nil {
							t.Errorf("%s: search: %v", forged.name, err)
						}
						for _, h := range r.Hits {
							if !texts[stateText(h.Entry)] {
								t.Fatalf("%s: found %v", forged.name, h.Entry)
							}
						}
					}
				}
				if !o.ReadOnly && !forged.names {
					c.writeSome(s)
				}
				if err := s.Close(); err != nil {
					t.Errorf("%s: close: %v", forged.name, err)
				}
			}
			runtime.ReadMemStats(&after)
			if n := int64(after.TotalAlloc - before.TotalAlloc); n > 200*size+64<<20 {
				t.Errorf("%s: %d bytes of memory for %d bytes", forged.name, n, size)
			}
			if calls > 20_000 {
				t.Errorf("%s: %d calls", forged.name, calls)
			}
			c.fs.Hook = nil
			c.removeIndexes()
			s, err := crmem.Open("/m.db", c.options(writeAll))
			if err != nil {
				t.Errorf("%s: %v: the store is damaged: %v", forged.name, a, err)
				continue
			}
			seen := map[string]bool{}
			for e := range s.All() {
				if seen[e.Name] {
					t.Errorf("%s: two entries have the name %q", forged.name, e.Name)
				}
				seen[e.Name] = true
			}
			noErr(t, s.Close())
		}
	}
}

// options returns options with the clock and the files of the scene.
func (c *indexScene) options(o crmem.Options) *crmem.Options {
	o.FS, o.Now = c.fs, c.fs.Now
	o.Warn = func(s string) { c.warn = append(c.warn, s) }
	return &o
}

// writeSome applies operations of all kinds, some of which may fail.
func (c *indexScene) writeSome(s *crmem.Store) {
	for i := range 4 {
		_ = s.Apply(crmem.Remember{Name: fmt.Sprint("deploy ", i), Content: "tea"})
		_ = s.Apply(crmem.Rename{Name: fmt.Sprint("deploys ", i), To: fmt.Sprint("deploy ", i+5)})
		_ = s.Apply(crmem.Add{Name: fmt.Sprint("deployed ", i), Content: "coffee"})
		_ = s.Apply(crmem.Alias{Name: fmt.Sprint("deploying ", i), Aliases: []string{"café"}})
		_ = s.Apply(crmem.Remove{Name: fmt.Sprint("deployed ", i+1)})
	}
}

// TestIndexForgedState opens a store with the index file of a log state that claims to
// be that of the snapshot. The operations of the log contradict it.
func TestIndexForgedState(t *testing.T) {
	c := newIndexScene(t)
	c.apply(writeAll, few(4)...)
	c.fold()
	c.apply(writeAll, crmem.Remove{Name: "deploy 1"})
	c.save(analysis.Standard)
	forged := forge(t, nil, c.bytes(indexFiles[0]), func(g *forger) { g.f.LogSalt, g.f.Seq, g.f.LogSum = 0, 0, 0 })
	for _, o := range []crmem.Options{readLazily, writeLazily} {
		c.fs.WriteFile(indexFiles[0], forged, 0o600)
		s := c.open(o)
		c.want(fmt.Sprint("read-only ", o.ReadOnly), s)
		noErr(t, s.Close())
		if n := c.fs.OpenFiles(); n != 0 {
			t.Errorf("%d open files", n)
		}
	}
}
