package lint

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unicode"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
)

// Near duplicates are entries whose texts have the same pairs of adjacent words, except
// for a fifth. The work per entry is bounded, so a check of many similar texts can
// miss some.
const (
	minWords   = 5   // shorter texts, such as a value, may be equal for a reason
	same       = 0.8 // share of the pairs of both texts, at least
	estimated  = 0.7 // the share that a comparison of sketches must find
	maxSketch  = 64  // pairs of an entry that sketches contain
	maxShared  = 16  // earlier entries with the same pair that are compared
	maxCompare = 3   // earlier entries that are compared exactly
)

// sketch are the lowest hashes of the pairs of adjacent words of a text, ascending.
// Texts with a large common share have many of these in common.
type sketch []uint32

// text is an entry that is compared.
type text struct {
	entry  crmem.Entry
	sketch sketch
}

// comparer compares the texts of entries.
type comparer struct {
	texts        []text
	first        []uint32 // by text, the first of its slots; then the number of slots
	owner        []uint32 // by slot, the text
	prev         []int32  // by slot, the slot of the closest earlier text with the same hash, or -1
	hits         []uint8  // by text, 0 between calls of candidates
	mine, theirs []uint64 // word pairs
}

// duplicates finds entries with nearly the same text as an earlier one. It does not
// compare settled pairs.
func (c *linter) duplicates(settled map[pair]bool) {
	x := newComparer(c.s, func(*crmem.Entry) bool { return true })
	for i := range x.texts {
		e := x.texts[i].entry
		at, share, compared := -1, 0.0, 0
		for _, o := range x.candidates(i) {
			if settled[pairOf(e.ID, x.texts[o.text].entry.ID)] {
				continue
			}
			if len(x.texts[i].sketch) == maxSketch || len(x.texts[o.text].sketch) == maxSketch {
				if compared++; compared > maxCompare {
					break
				}
				o.share = x.share(i, o.text, compared == 1)
			}
			if o.share >= same && o.share > share {
				at, share = o.text, o.share
			}
		}
		if at >= 0 {
			c.duplicate(e, x.texts[at].entry, share)
		}
	}
}

// duplicate adds the finding about an entry and an earlier one.
func (c *linter) duplicate(e, other crmem.Entry, share float64) {
	message := fmt.Sprintf("%.0f%% of the word pairs are those of another entry", math.Floor(share*100))
	if metadata.Text(e.Content) == metadata.Text(other.Content) {
		message = "the text is that of another entry"
	}
	c.add(NearDuplicate, e, 0, fmt.Sprintf("compare crabmem show %s and crabmem show %s, then %s if one is enough",
		arg(other.Name), arg(e.Name), forget(e)), message, other.Name)
}

// Repeats reports whether two contents are near duplicates.
func Repeats(a, b string) bool {
	mine, theirs := wordPairs(nil, metadata.Text(a)), wordPairs(nil, metadata.Text(b))
	return min(len(mine), len(theirs)) >= minWords-1 && shareOf(mine, theirs) >= same
}

// A Pair is an entry, and the earlier one that has most of its text.
type Pair struct {
	Earlier, Later crmem.Entry
	Share          float64 // of the sequences of 3 words of both texts
}

// maxPairs limits the earlier entries that Pairs compares exactly with an entry.
const maxPairs = 25

// Pairs returns the pairs of entries that permit returns true for, ascending by the ID of the
// later one. Of their sequences of 3 words, at least a share is in both texts. later
// selects the later entries to compare.
func Pairs(s *crmem.Store, least float64, permit, later func(*crmem.Entry) bool) (list []Pair) {
	x := newComparer(s, permit)
	for i := range x.texts {
		e := x.texts[i].entry
		if !later(&e) {
			continue
		}
		found := x.candidates(i)
		x.mine = sequences(x.mine[:0], metadata.Text(e.Content), 3)
		best := Pair{Later: e}
		for _, o := range found[:min(len(found), maxPairs)] {
			other := x.texts[o.text].entry
			x.theirs = sequences(x.theirs[:0], metadata.Text(other.Content), 3)
			if share := shareOf(x.mine, x.theirs); share >= least && share > best.Share {
				best.Earlier, best.Share = other, share
			}
		}
		if best.Share > 0 {
			list = append(list, best)
		}
	}
	return list
}

// newComparer returns a comparer of the permitted entries with enough words. Its slots are the
// first hashes of each sketch: texts that share most of their hashes share some of
// these.
func newComparer(s *crmem.Store, permit func(*crmem.Entry) bool) *comparer {
	x := &comparer{}
	var keys []uint64 // hash and slot
	for e := range s.All() {
		if !permit(&e) {
			continue
		}
		if x.mine = wordPairs(x.mine[:0], metadata.Text(e.Content)); len(x.mine) < minWords-1 {
			continue
		}
		sk := newSketch(x.mine)
		x.first = append(x.first, uint32(len(x.owner)))
		for _, h := range sk[:len(sk)-int(math.Ceil(estimated*float64(len(sk))))+1] {
			keys = append(keys, uint64(h)<<32|uint64(len(x.owner)))
			x.owner = append(x.owner, uint32(len(x.texts)))
		}
		x.texts = append(x.texts, text{e, sk})
	}
	x.first = append(x.first, uint32(len(x.owner)))
	x.hits = make([]uint8, len(x.texts))
	x.prev = make([]int32, len(x.owner))
	slices.Sort(keys)
	for i, k := range keys {
		x.prev[uint32(k)] = -1
		if i > 0 && keys[i-1]>>32 == k>>32 {
			x.prev[uint32(k)] = int32(uint32(keys[i-1]))
		}
	}
	return x
}

// candidate is an earlier text and the estimated share of pairs.
type candidate struct {
	text  int
	share float64
}

// candidates returns the earlier texts that are probably near duplicates of text i,
// the best first.
func (x *comparer) candidates(i int) (list []candidate) {
	var touched [maxSketch * maxShared]uint32
	n := 0
	for slot := x.first[i]; slot < x.first[i+1]; slot++ {
		at := x.prev[slot]
		for k := 0; at >= 0 && k < maxShared; k++ {
			o := x.owner[at]
			if x.hits[o] == 0 {
				touched[n] = o
				n++
			}
			x.hits[o]++
			at = x.prev[at]
		}
	}
	for _, o := range touched[:n] {
		slots := min(x.first[i+1]-x.first[i], x.first[o+1]-x.first[o])
		if uint32(x.hits[o]) > slots/5 {
			if share := x.texts[i].sketch.share(x.texts[o].sketch); share >= estimated {
				list = append(list, candidate{int(o), share})
			}
		}
		x.hits[o] = 0
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(a.text, b.text))
	})
	return list
}

// share returns the share of the pairs of texts i and o that both have. first is true
// if the last call had another i.
func (x *comparer) share(i, o int, first bool) float64 {
	if first {
		x.mine = wordPairs(x.mine[:0], metadata.Text(x.texts[i].entry.Content))
	}
	x.theirs = wordPairs(x.theirs[:0], metadata.Text(x.texts[o].entry.Content))
	return shareOf(x.mine, x.theirs)
}

// shareOf returns the share of the hashes of both lists, which ascend, that both have.
func shareOf(a, b []uint64) float64 {
	both := common(a, b)
	return float64(both) / float64(len(a)+len(b)-both)
}

// newSketch returns the sketch of hashes, which ascend.
func newSketch(hashes []uint64) sketch {
	s := make(sketch, 0, min(len(hashes), maxSketch))
	for _, h := range hashes {
		if x := uint32(h >> 32); len(s) == 0 || s[len(s)-1] != x {
			if s = append(s, x); len(s) == maxSketch {
				break
			}
		}
	}
	return s
}

// share estimates the share of the pairs of two texts that both have. It is exact if
// no sketch is full.
func (s sketch) share(o sketch) float64 {
	both, all := 0, 0
	i, k := 0, 0
	for i < len(s) || k < len(o) {
		if i == maxSketch || k == maxSketch {
			break // the other hashes are unknown
		}
		switch {
		case k == len(o) || i < len(s) && s[i] < o[k]:
			i++
		case i == len(s) || o[k] < s[i]:
			k++
		default:
			both++
			i++
			k++
		}
		all++
	}
	return float64(both) / float64(all)
}

// common returns the number of hashes in both lists, which ascend.
func common(a, b []uint64) (n int) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			a = a[1:]
		case b[0] < a[0]:
			b = b[1:]
		default:
			n++
			a, b = a[1:], b[1:]
		}
	}
	return n
}

// wordPairs returns the sequences of 2 words.
func wordPairs(hashes []uint64, text string) []uint64 { return sequences(hashes, text, 2) }

// sequences appends a hash of each sequence of 2 or 3 adjacent words of a text, ascending
// and each once. Case and punctuation do not count. In scripts without spaces, each
// character is a word.
func sequences(hashes []uint64, text string, n int) []uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	before, last, word := uint64(0), uint64(0), uint64(offset)
	end := func() {
		if word == offset {
			return
		}
		if n == 2 && last != 0 {
			hashes = append(hashes, mix(last*prime^word))
		} else if before != 0 {
			hashes = append(hashes, mix((before*prime^last)*prime^word))
		}
		if n > 2 {
			before = last
		}
		last, word = word, offset
	}
	for _, r := range text {
		switch {
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			word = (word ^ uint64(r)) * prime
		case 'A' <= r && r <= 'Z':
			word = (word ^ uint64(r+'a'-'A')) * prime
		case r < 0x80 || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
			end()
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar):
			end()
			word = (word ^ uint64(r)) * prime
			end()
		default:
			word = (word ^ uint64(unicode.ToLower(r))) * prime
		}
	}
	end()
	slices.Sort(hashes)
	return slices.Compact(hashes)
}

// mix spreads the bits of a hash.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
