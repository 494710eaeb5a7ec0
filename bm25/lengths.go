package bm25

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
