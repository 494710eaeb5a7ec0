package bm25

import (
	"math"
	"sync"
	"sync/atomic"
	"unicode/utf8"
	"unsafe"

	"crabmem/bm25/analysis"
)

const (
	k1           = 1.2  // k1 of the formula: how fast repetitions of a term saturate
	lengthWeight = 0.75 // b of the formula: how much a document's length counts
)

// idf returns the weight of a term that df of n documents contain.
func idf(n, df int) float64 {
	return math.Log((float64(n)-float64(df)+0.5)/(float64(df)+0.5) + 1)
}

// Rarity returns the sum of a query's word IDFs, without stop words. A word
// that no document contains counts as the rarest one. Unspaced scripts do not count: their
// terms overlap, so the sum would count a word several times.
func (x *Index) Rarity(query string) (sum float64) {
	x.rlock()
	defer x.runlock()
	s := searchers.Get().(*searcher)
	defer searchers.Put(s)
	seen := make(map[string]bool)
	s.scanner.Query(x.analyzer, query, func(term []byte, weight float64) {
		if first, _ := utf8.DecodeRune(term); seen[string(term)] || analysis.IsStopWord(term) || analysis.IsUnspaced(first) {
			return
		}
		seen[string(term)] = true
		df := 0
		if id, ok := x.lookUp(term, true); ok {
			df = int(x.df[id])
		}
		sum += float64(weight * idf(x.lengths.counted, df))
	})
	return sum
}

// lenNorm returns the summand that damps term frequencies of a document of dl
// terms. The conversions here and below keep the compiler from fusing a product
// into a sum, so that every machine computes the same bits.
func lenNorm(dl int, pivot float64) float64 {
	ratio := float64(lengthWeight*float64(dl)) / pivot
	return float64(k1 * (1 - lengthWeight + ratio))
}

// tfNorm returns the saturated frequency of a term that occurs tf times in a
// document with this lenNorm.
func tfNorm(tf int, lenNorm float64) float64 {
	return float64(tf) * (k1 + 1) / (float64(tf) + lenNorm)
}

// contribution returns the share of one term in a document's score. A score is the
// sum of the contributions in ascending order of the terms.
func contribution(idf, tfNorm float64) float64 { return float64(idf * tfNorm) }

// lengths describes the lengths of the documents with terms. All its fields are exact
// sums, so they do not depend on the order of changes.
type lengths struct {
	counted int    // documents with at least one term
	length  int    // terms in these documents
	inverse uint64 // sum of inverseOf of their lengths
}

// inverseOf returns the inverse of a length in units of 2⁻³², rounded down. It is 0 for
// an empty document. The sum over 2³¹ documents fits.
func inverseOf(dl uint64) uint64 {
	if dl == 0 {
		return 0
	}
	return 1 << 32 / dl
}

// lengthsOf returns the lengths of one document.
func lengthsOf(dl int) lengths { return lengths{min(dl, 1), dl, inverseOf(uint64(dl))} }

func (l *lengths) add(o lengths) {
	l.counted += o.counted
	l.length += o.length
	l.inverse += o.inverse
}

func (l *lengths) subtract(o lengths) {
	l.counted -= o.counted
	l.length -= o.length
	l.inverse -= o.inverse
}

// possible reports whether some documents, at most docs of them with terms and none
// longer than maxStored, have these lengths.
func (l *lengths) possible(docs int) bool {
	n := uint64(l.counted)
	return l.counted <= docs && uint64(l.length) <= maxStored*n && uint64(l.length) >= n && l.inverse <= n<<32 && l.inverse >= inverseOf(maxStored)*n
}

// mean returns the mean length of the documents with terms.
func (l *lengths) mean() float64 { return float64(l.length) / float64(l.counted) }

// A pivot is the length at which the formula neither raises nor damps a document, and
// how uneven the lengths are. In a chat of short statements and long answers, an answer
// contains more words of any query, so the pivot is near the length of the statements.
// DESIGN.md has the derivation.
type pivot struct {
	length float64
	uneven float64 // from 0, for equal lengths, to 1
}

// pivot returns the pivot of a standard index.
func (l *lengths) pivot() pivot {
	mean := l.mean()
	harmonic := float64(float64(l.counted)*(1<<32)) / float64(l.inverse)
	u := min(harmonic/mean, 1) // rounding may exceed 1
	e := float64((1 - u) * (1 - u))
	return pivot{mean / (1 + float64(e*(1/float64(u*u)-1))), e}
}

// damping returns the factor of the bonuses of re-ranking for a document of dl terms.
// In uneven lengths, a long document has query words near each other by chance.
func (p pivot) damping(dl int) float64 {
	once := min(tfNorm(1, lenNorm(dl, p.length)), 1)
	return 1 / (1 + float64(p.uneven*(1/once-1)))
}

// damping returns the factor of the bonuses of re-ranking for a document.
func (x *Index) damping(id uint64) float64 {
	m, ok := x.match(id)
	if p := x.pivot(); ok && p.uneven > 0 {
		return p.damping(m.len())
	}
	return 1
}

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
