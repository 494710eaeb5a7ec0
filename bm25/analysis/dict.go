package analysis

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// A Dict numbers terms from 0 in the order of their first use. The number of a term
// never changes, as segments contain it; [Lexer.Renumber] makes a new Dict. Under
// Standard, word forms have numbers, too.
//
// A term of up to eight bytes is its own key, zero-padded: terms consist of
// letters, digits, and marks, so they contain no zero byte. The key of a longer
// term is its position in the arena with 0xff, which UTF-8 does not use, as the
// highest byte.
type Dict struct {
	keys  []uint64
	arena []byte // for each long term, its length (uvarint) and its bytes
	// slots is an open-addressing table. The low bits of a slot, as many as
	// index the table, are a term's number plus one. The others are a tag from its
	// hash. A free slot is 0.
	slots []uint32
	seed  uint64
}

const (
	minSlots = 256
	longKey  = 0xff << 56
	mix1     = 0x9e3779b97f4a7c15
	mix2     = 0xd1b54a32d192ed03
)

// prefixMask keeps the first n bytes of a little-endian word.
var prefixMask = [16]uint64{0, 1<<8 - 1, 1<<16 - 1, 1<<24 - 1, 1<<32 - 1, 1<<40 - 1, 1<<48 - 1, 1<<56 - 1, 1<<64 - 1}

// newDict returns an empty dict. Its hashes are seeded, so that hostile texts
// cannot force collisions.
func newDict() *Dict {
	return &Dict{slots: make([]uint32, minSlots), seed: rand.Uint64()}
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func (d *Dict) hashShort(key uint64) uint64 { return fold(key^d.seed, mix1) }

// hashLong hashes a term of more than eight bytes. With every seed, a term has the
// same hash as at most seven others, each of another length.
func (d *Dict) hashLong(term []byte) uint64 {
	h := d.seed ^ uint64(len(term))
	for i := 0; i < len(term)-8; i += 8 {
		h = fold(h^binary.LittleEndian.Uint64(term[i:]), mix2)
	}
	return fold(h^binary.LittleEndian.Uint64(term[len(term)-8:]), mix1)
}

// shortKey returns the key of a term of at most eight bytes.
func shortKey(term []byte) uint64 {
	key := uint64(0)
	for i, c := range term {
		key |= uint64(c) << (8 * i)
	}
	return key
}

// addShort returns the number of the term with this key. It adds the term if
// necessary.
func (d *Dict) addShort(key uint64) uint32 {
	h := d.hashShort(key)
	mask := uint32(len(d.slots) - 1)
	for i := uint32(h>>32) & mask; ; i = (i + 1) & mask {
		s := d.slots[i]
		if s == 0 {
			return d.insert(i, h, key)
		}
		if (s^uint32(h))&^mask == 0 {
			if id := s&mask - 1; d.keys[id] == key {
				return id
			}
		}
	}
}

// addLong is addShort for a term of more than eight bytes.
func (d *Dict) addLong(term []byte) uint32 {
	h := d.hashLong(term)
	mask := uint32(len(d.slots) - 1)
	for i := uint32(h>>32) & mask; ; i = (i + 1) & mask {
		s := d.slots[i]
		if s == 0 {
			key := longKey | uint64(len(d.arena))
			d.arena = binary.AppendUvarint(d.arena, uint64(len(term)))
			d.arena = append(d.arena, term...)
			return d.insert(i, h, key)
		}
		if (s^uint32(h))&^mask == 0 {
			if id := s&mask - 1; d.keys[id] >= longKey && bytes.Equal(d.long(d.keys[id]), term) {
				return id
			}
		}
	}
}

// Add returns the number of a term. It adds the term if necessary.
func (d *Dict) Add(term []byte) uint32 {
	if len(term) <= 8 {
		return d.addShort(shortKey(term))
	}
	return d.addLong(term)
}

// Find returns the number of a term. It reports false if d does not contain it.
func (d *Dict) Find(term []byte) (uint32, bool) {
	var h, key uint64
	long := len(term) > 8
	if long {
		h = d.hashLong(term)
	} else {
		key = shortKey(term)
		h = d.hashShort(key)
	}
	mask := uint32(len(d.slots) - 1)
	for i := uint32(h>>32) & mask; ; i = (i + 1) & mask {
		s := d.slots[i]
		if s == 0 {
			return 0, false
		}
		if (s^uint32(h))&^mask != 0 {
			continue
		}
		id := s&mask - 1
		if k := d.keys[id]; k == key && !long || long && k >= longKey && bytes.Equal(d.long(k), term) {
			return id, true
		}
	}
}

// insert numbers a new term in the free slot i.
func (d *Dict) insert(i uint32, h, key uint64) uint32 {
	id := uint32(len(d.keys))
	mask := uint32(len(d.slots) - 1)
	d.slots[i] = uint32(h)&^mask | (id + 1)
	d.keys = append(d.keys, key)
	if len(d.keys) > len(d.slots)*4/5 {
		d.resize(2 * len(d.slots))
	}
	return id
}

// tableSize returns the size of a table for n terms: the smallest power of two, at
// least minSlots, of which they take at most four fifths.
func tableSize(n int) int { return 1 << bits.Len(uint(max(n*5/4, minSlots-1))) }

// resize makes the table n slots large, a power of two.
func (d *Dict) resize(n int) {
	d.slots = make([]uint32, n)
	mask := uint32(n - 1)
	for id, key := range d.keys {
		var h uint64
		if key >= longKey {
			h = d.hashLong(d.long(key))
		} else {
			h = d.hashShort(key)
		}
		i := uint32(h>>32) & mask
		for d.slots[i] != 0 {
			i = (i + 1) & mask
		}
		d.slots[i] = uint32(h)&^mask | uint32(id+1)
	}
}

// long returns the term of a long key.
func (d *Dict) long(key uint64) []byte {
	b := d.arena[key&^longKey:]
	if n := b[0]; n < 0x80 {
		return b[1 : 1+n]
	}
	n, size := binary.Uvarint(b)
	return b[size : size+int(n)]
}

// AppendTerm appends the term with number id.
func (d *Dict) AppendTerm(dst []byte, id uint32) []byte {
	key := d.keys[id]
	if key >= longKey {
		return append(dst, d.long(key)...)
	}
	dst = binary.LittleEndian.AppendUint64(dst, key)
	return dst[:len(dst)-bits.LeadingZeros64(key)/8]
}

// Grow makes room for n more terms.
func (d *Dict) Grow(n int) {
	d.keys = slices.Grow(d.keys, n)
	if size := tableSize(len(d.keys) + n); size > len(d.slots) {
		d.resize(size)
	}
}

// Prefix returns the first eight bytes of a term as a big-endian number, so that
// numbers compare as the bytes do. A shorter term ends with zeros.
func (d *Dict) Prefix(id uint32) uint64 {
	key := d.keys[id]
	if key >= longKey {
		return binary.BigEndian.Uint64(d.long(key))
	}
	return bits.ReverseBytes64(key)
}

// Len returns the number of terms and word forms.
func (d *Dict) Len() int { return len(d.keys) }

// clip frees memory that growth reserved.
func (d *Dict) clip() {
	d.keys, d.arena = slices.Clone(d.keys), slices.Clone(d.arena)
	if n := tableSize(len(d.keys)); n < len(d.slots) {
		d.resize(n)
	}
}

func (d *Dict) bytes() int {
	return 8*cap(d.keys) + cap(d.arena) + 4*cap(d.slots)
}

// A probe is a short term and the content of its slot of the dict when the lexer
// read it.
type probe struct {
	key       uint64
	tag, slot uint32
}

// term returns the number of the term if the slot contained it. keys and mask are
// those of the dict.
func (p *probe) term(keys []uint64, mask uint32) (id uint32, ok bool) {
	id = p.slot&mask - 1
	return id, (p.slot^p.tag)&^mask == 0 && id < uint32(len(keys)) && keys[id] == p.key
}
