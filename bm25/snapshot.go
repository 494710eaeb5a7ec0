package bm25

import "slices"

// Snapshot returns a copy of the index for [Index.WriteTo], which does not change when
// the index does. It copies only what changes in place, a small part of the index.
func (x *Index) Snapshot() *Index {
	x.mu.RLock()
	defer x.mu.RUnlock()
	c := &Index{analyzer: x.analyzer, lexer: x.lexer.Snapshot(), df: slices.Clone(x.df), live: x.live, lengths: x.lengths, stored: x.stored}
	for _, s := range x.segments {
		own := *s
		own.class, own.termsAt = slices.Clone(s.class), slices.Clone(s.termsAt)
		c.segments = append(c.segments, &own)
	}
	if len(x.tail.where) > 0 {
		t := x.tail
		t.head, t.where = slices.Clone(t.head), nil
		c.segments = append(c.segments, t.freeze())
	}
	return c
}
