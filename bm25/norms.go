package bm25

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// A codeSet is the set of posting codes in use. It only grows.
type codeSet struct {
	has    [1 << 16 / 64]uint64
	list   []uint16
	maxLen int // longest document, except for escaped codes
}

func (c *codeSet) add(code uint16) {
	if c.has[code>>6]>>(code&63)&1 == 0 {
		c.has[code>>6] |= 1 << (code & 63)
		c.list = append(c.list, code)
		if code != escaped {
			c.maxLen = max(c.maxLen, int(code&maxLen))
		}
	}
}

func (c *codeSet) bytes() int { return len(c.has)*8 + 2*cap(c.list) }

// A normTable contains the saturated term frequencies by posting code, for one
// pivot.
type normTable struct {
	approximate [1 << 16]float32 // of codes in use; 0 for escaped
	lens        [maxLen + 1]float64
}

// exact returns the saturated frequency of a code that is not escaped.
func (t *normTable) exact(code uint16) float64 {
	return tfNorm(int(code>>lenBits), t.lens[code&maxLen])
}

// norms is the table of norms for one pivot. The first search after a change
// updates it.
//
// Searches hold the index's read lock while they use the table. The pivot and
// the codes change only under the write lock. So concurrent searches need the
// same table, and none rewrites a table that another reads.
type norms struct {
	mu    sync.Mutex
	ready atomic.Pointer[normKey]
	table *normTable
}

// A normKey identifies the inputs of a table.
type normKey struct {
	pivot float64
	codes int
}

// of returns the table for a pivot and the codes in use.
func (n *norms) of(pivot float64, used *codeSet) *normTable {
	codes := used.list
	want := normKey{pivot, len(codes)}
	if k := n.ready.Load(); k != nil && *k == want {
		return n.table
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	old := n.ready.Load()
	switch {
	case old != nil && *old == want:
		return n.table
	case n.table == nil:
		n.table = new(normTable)
	case old != nil && old.pivot == pivot:
		codes = codes[old.codes:]
	}
	t := n.table
	for dl := range used.maxLen + 1 {
		t.lens[dl] = lenNorm(dl, pivot)
	}
	for _, c := range codes {
		if c != escaped {
			t.approximate[c] = float32(t.exact(c))
		}
	}
	n.ready.Store(&want)
	return t
}

func (n *norms) bytes() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.table == nil {
		return 0
	}
	return int(unsafe.Sizeof(*n.table))
}
