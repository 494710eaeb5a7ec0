package vector

import (
	"cmp"
	"maps"
	"slices"

	"crabmem/crmem/internal/format"
)

// MaxDim is the largest number of components of a vector.
const MaxDim = 4096

// A Set contains the vectors of entries, one for each chunk of their texts. All have the
// same number of components and come from one model. Methods that do not change the set
// may be called concurrently.
type Set struct {
	model   string // identity of the model
	dim     int
	entries map[uint64]entry // by ID
	rows    []row
	values  []int8 // dim for each row
	free    []uint32
	empty   int // entries without a vector
}

// An entry is the digest of a text and the first of its vectors.
type entry struct {
	digest format.Digest
	first  uint32 // place of the row, plus 1; 0: no vector
}

// A row describes a vector.
type row struct {
	scale float32
	next  uint32 // place of the next row of the entry, plus 1; 0: last
	id    uint64 // of the entry; 0: free
}

// New returns an empty set of vectors with dim components, from 1 to MaxDim, of a model.
func New(model string, dim int) *Set {
	return &Set{model: model, dim: dim, entries: make(map[uint64]entry)}
}

// Model returns the identity of the model. Dim returns the number of components.
func (s *Set) Model() string { return s.model }
func (s *Set) Dim() int      { return s.dim }

// Len returns the number of entries, Empty that of the entries without a vector, and Rows
// that of the vectors.
func (s *Set) Len() int   { return len(s.entries) }
func (s *Set) Empty() int { return s.empty }
func (s *Set) Rows() int  { return len(s.rows) - len(s.free) }

// IDs returns the entries, ascending.
func (s *Set) IDs() []uint64 { return slices.Sorted(maps.Keys(s.entries)) }

// Digest returns the digest of the text of an entry, and whether the set contains it.
func (s *Set) Digest(id uint64) (format.Digest, bool) {
	e, ok := s.entries[id]
	return e.digest, ok
}

// Put adds or replaces the vectors of an entry. Without vectors, the set only contains
// that the model cannot represent the text. The set does not keep vectors.
func (s *Set) Put(id uint64, digest format.Digest, vectors [][]float32) {
	s.Remove(id)
	e := entry{digest: digest}
	for _, v := range slices.Backward(vectors) {
		i := s.allocate()
		scale := Quantize(s.vector(i), v)
		s.rows[i] = row{scale: scale, next: e.first, id: id}
		e.first = i + 1
	}
	s.put(id, e)
}

func (s *Set) put(id uint64, e entry) {
	if s.entries[id] = e; e.first == 0 {
		s.empty++
	}
}

// allocate returns the place of an unused row.
func (s *Set) allocate() uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	s.rows = append(s.rows, row{})
	s.values = slices.Grow(s.values, s.dim)[:len(s.rows)*s.dim]
	return uint32(len(s.rows) - 1)
}

func (s *Set) vector(i uint32) []int8 { return s.values[int(i)*s.dim : (int(i)+1)*s.dim] }

// Remove removes an entry, if the set contains it.
func (s *Set) Remove(id uint64) {
	e, ok := s.entries[id]
	if !ok {
		return
	}
	if delete(s.entries, id); e.first == 0 {
		s.empty--
	}
	for i := e.first; i != 0; {
		r := &s.rows[i-1]
		s.free = append(s.free, i-1)
		i = r.next
		*r = row{}
	}
}

// Clone returns a copy without unused rows, for [Set.Write].
func (s *Set) Clone() *Set {
	c := New(s.model, s.dim)
	c.rows = slices.Grow(c.rows, s.Rows())
	c.values = slices.Grow(c.values, s.Rows()*s.dim)
	for _, id := range s.IDs() {
		e := s.entries[id]
		copied := entry{digest: e.digest}
		for i := e.first; i != 0; i = s.rows[i-1].next {
			r := s.rows[i-1]
			if copied.first == 0 {
				copied.first = uint32(len(c.rows)) + 1
			}
			c.values = append(c.values, s.vector(i-1)...)
			if r.next != 0 {
				r.next = uint32(len(c.rows)) + 2
			}
			c.rows = append(c.rows, r)
		}
		c.put(id, copied)
	}
	return c
}

// A Query is a vector to compare with the vectors of a set.
type Query struct {
	values []int8
	scale  float32
}

// NewQuery returns the query of a vector.
func NewQuery(v []float32) *Query {
	q := &Query{values: make([]int8, len(v))}
	q.scale = Quantize(q.values, v)
	return q
}

// cosine returns the cosine of the query and a row, from the product of their integers.
// The vectors have length 1, except for rounding.
func (q *Query) cosine(product int32, scale float32) float64 {
	return float64(product) * float64(q.scale) * float64(scale)
}

// A Match is an entry with the largest cosine of the query and one of its vectors.
type Match struct {
	ID     uint64
	Cosine float64
}

// compareMatches orders the best match first.
func compareMatches(a, b Match) int {
	return cmp.Or(cmp.Compare(b.Cosine, a.Cosine), cmp.Compare(a.ID, b.ID))
}

// block is the number of rows that are compared at a time.
const block = 1024

// Search returns the k entries with the largest cosines, the best first, of those that
// selects returns true for. It compares all vectors. q must have as many components as
// the set.
func (s *Set) Search(q *Query, k int, selects func(id uint64) bool) []Match {
	if k <= 0 {
		return nil
	}
	var products [block]int32
	best := make([]Match, 0, min(k, len(s.entries))+1) // sorted
	for from := 0; from < len(s.rows); from += block {
		rows := s.rows[from:min(from+block, len(s.rows))]
		Dots(products[:len(rows)], q.values, s.values[from*s.dim:(from+len(rows))*s.dim])
		for i := range rows {
			m := Match{rows[i].id, q.cosine(products[i], rows[i].scale)}
			if len(best) == k && compareMatches(m, best[k-1]) >= 0 || m.ID == 0 || !selects(m.ID) {
				continue
			}
			if best = insert(best, m); len(best) > k {
				best = best[:k]
			}
		}
	}
	return best
}

// insert adds a match to a sorted list, which contains each entry once.
func insert(list []Match, m Match) []Match {
	at, _ := slices.BinarySearchFunc(list, m, compareMatches)
	for i, o := range list {
		if o.ID == m.ID {
			if i < at {
				return list // a better chunk
			}
			copy(list[at+1:i+1], list[at:i])
			list[at] = m
			return list
		}
	}
	return slices.Insert(list, at, m)
}

// Cosine returns the largest cosine of the query and a vector of an entry. ok is false
// if the entry has no vector.
func (s *Set) Cosine(q *Query, id uint64) (best float64, ok bool) {
	for i := s.entries[id].first; i != 0; i = s.rows[i-1].next {
		c := q.cosine(Dot(q.values, s.vector(i-1)), s.rows[i-1].scale)
		if !ok || c > best {
			best, ok = c, true
		}
	}
	return best, ok
}

// Similarity returns the largest cosine of two vectors of two entries. ok is false if one
// of them has no vector.
func (s *Set) Similarity(a, b uint64) (best float64, ok bool) {
	for i := s.entries[a].first; i != 0; i = s.rows[i-1].next {
		q := Query{s.vector(i - 1), s.rows[i-1].scale}
		if c, has := s.Cosine(&q, b); has && (!ok || c > best) {
			best, ok = c, true
		}
	}
	return best, ok
}
