package crmem_test

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/internal/format"
)

// FuzzIndexFile changes bytes of an index file, whose checksums are then computed again,
// and searches. Each change is a region (a section, or the footer), an offset and a
// value. A search finds only entries of the store.
func FuzzIndexFile(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 5})
	f.Add([]byte{0, 8, 0, 0, 0, 255, 0, 16, 0, 0, 0, 255})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 1, 8, 0, 0, 0, 255})
	f.Add([]byte{3, 0, 0, 0, 0, 1})
	f.Add([]byte{4, 0, 0, 0, 0, 255, 4, 1, 0, 0, 0, 255})
	f.Add([]byte{4, 255, 255, 255, 255, 9, 4, 200, 255, 255, 255, 128})
	f.Add([]byte{5, 120, 0, 0, 0, 255})
	f.Add([]byte{5, 150, 0, 0, 0, 1, 5, 158, 0, 0, 0, 1})
	f.Add([]byte{5, 80, 0, 0, 0, 0, 5, 72, 0, 0, 0, 0})
	f.Add([]byte("10\x03\xe7(0")) // a wrong digest
	var base *indexScene
	var texts map[string]bool
	var file []byte
	f.Fuzz(func(t *testing.T, edits []byte) {
		if base == nil {
			base = damageScene(t, rand.New(rand.NewPCG(6, 1)))
			s := base.open(readAll)
			texts = textsOf(s)
			noErr(t, s.Close())
			file = base.bytes(indexFiles[0])
			base.removeIndexes()
		}
		b := append([]byte{}, file...)
		foot := b[len(b)-format.IndexFooterSize:]
		sections := footerOf(t, b).Sections
		for ; len(edits) >= 6; edits = edits[6:] {
			region := foot[:len(foot)-4]
			if i := int(edits[0]) % (len(sections) + 1); i < len(sections) {
				region = b[sections[i].Off : sections[i].Off+sections[i].Len]
			}
			if len(region) > 0 {
				region[binary.LittleEndian.Uint32(edits[1:])%uint32(len(region))] = edits[5]
			}
		}
		seal := append([]byte{}, foot...)
		binary.LittleEndian.PutUint32(seal[len(seal)-4:], crc32.Checksum(seal[:len(seal)-4], format.Castagnoli()))
		if _, err := format.ReadIndexFooter(seal, int64(len(b))); err == nil {
			copy(foot, seal)
			b = sealed(t, b, nil)
		} else {
			copy(foot, seal) // the store is opened without the file
		}
		c := base.copyOf()
		c.t = t
		c.fs.WriteFile(indexFiles[0], b, 0o600)
		err := c.useLazily(texts)
		if errors.Is(err, crmem.ErrForeign) { // a wrong digest: loading the store removed the file
			err = c.useLazily(texts)
		}
		noErr(t, err)
		if n := c.fs.OpenFiles(); n != 0 {
			t.Fatalf("%d open files", n)
		}
	})
}

// useLazily opens a store, searches it, and loads it. Every entry that it returns must be
// one of texts.
func (c *indexScene) useLazily(texts map[string]bool) error {
	s := c.open(readLazily)
	if e, err := s.Get("deploy 1"); err == nil && !texts[stateText(e)] {
		c.t.Fatalf("Get returned %v", e)
	}
	for _, q := range []string{"tea", "deploy memries relase", "the HTTP 日本語 café"} {
		for _, a := range []analysis.Analyzer{analysis.Standard, analysis.Plain} {
			r, err := s.Search(context.Background(), crmem.Query{Text: q, Analyzer: a, Limit: 5, Explain: true, Expand: 1})
			if err != nil {
				return errors.Join(err, s.Close())
			}
			for _, h := range r.Hits {
				if !texts[stateText(h.Entry)] {
					c.t.Fatalf("found %v", h.Entry)
				}
			}
		}
	}
	return errors.Join(s.Load(), s.Close())
}
