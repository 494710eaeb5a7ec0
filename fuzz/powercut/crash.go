//go:build linux

package main

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"
)

// block is the unit that a crash keeps or loses: the block size of the file
// system. Smaller units would tear the superblock, and then the file system would
// not mount.
const block = 4096

// crash is one crash state: the durable blocks and some of the unflushed writes.
type crash struct {
	epoch int     // number of the flush interval
	kept  []piece // kept writes of the epoch, in order
	marks int     // bytes of the mark file written before the cut
	how   string  // describes the choice of kept
}

// piece is the part of a write in one block.
type piece struct {
	off  int64
	data []byte
}

// epoch contains the events between two flushes.
type epoch struct {
	pieces []piece
	writes []point // ends of the writes
	marks  int     // bytes of the mark file at the end of the epoch
}

// point is the end of a write in an epoch. It counts the written pieces, and the
// bytes of the mark file before the next write.
type point struct{ pieces, marks int }

// split divides the events at the flushes.
func split(events []event) []epoch {
	epochs := make([]epoch, 1)
	marks := 0
	for _, ev := range events {
		e := &epochs[len(epochs)-1]
		switch ev.kind {
		case wrote:
			for off, data := ev.off, ev.data; len(data) > 0; {
				n := min(int64(len(data)), block-off%block)
				e.pieces = append(e.pieces, piece{off, data[:n]})
				off, data = off+n, data[n:]
			}
			e.writes = append(e.writes, point{len(e.pieces), marks})
		case marked:
			marks += len(ev.data)
			if n := len(e.writes); n > 0 {
				e.writes[n-1].marks = marks
			}
		case flushed:
			e.marks = marks
			epochs = append(epochs, epoch{})
		}
	}
	epochs[len(epochs)-1].marks = marks
	return epochs
}

// crashes returns at most want distinct crash states of the epochs. At each write a
// state keeps none, all, or a random part of the unflushed writes. If several
// moments have equal disks, crashes keeps the last, which has the most
// acknowledgements.
//
// For a control it returns every state that keeps no unflushed writes.
func crashes(base []byte, epochs []epoch, want int, control bool, rng *rand.Rand) []crash {
	if control {
		none := slices.Clone(epochs)
		for i := range none {
			none[i].writes = nil
		}
		return candidates(base, none, 0, rng)
	}
	var all []crash
	for perEpoch := 4; ; perEpoch *= 2 {
		all = candidates(base, epochs, perEpoch, rng)
		if len(all) >= want || perEpoch > 256 {
			break
		}
	}
	if len(all) > want {
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:want]
	}
	slices.SortStableFunc(all, func(a, b crash) int { return a.epoch - b.epoch })
	return all
}

// candidates returns distinct crash states. Each epoch with writes adds random
// states with a random part of the unflushed writes.
func candidates(base []byte, epochs []epoch, random int, rng *rand.Rand) []crash {
	d := newDisk(base)
	seen := make(map[uint64]int)
	var all []crash
	add := func(c crash) {
		h := d.hashWith(c.kept)
		if i, ok := seen[h]; !ok {
			seen[h] = len(all)
			all = append(all, c)
		} else if all[i].marks < c.marks {
			all[i] = c
		}
	}
	for n, e := range epochs {
		add(crash{n, nil, e.marks, "nothing unflushed"})
		for _, p := range e.writes {
			add(crash{n, e.pieces[:p.pieces], p.marks, "all unflushed"})
		}
		for range random {
			if len(e.writes) == 0 {
				break
			}
			p := e.writes[rng.IntN(len(e.writes))]
			kept, how := subset(e.pieces[:p.pieces], rng)
			add(crash{n, kept, p.marks, how})
		}
		d.write(e.pieces)
	}
	return all
}

// subset keeps some of the pieces, in order.
func subset(pieces []piece, rng *rand.Rand) ([]piece, string) {
	one := rng.IntN(len(pieces))
	switch rng.IntN(6) {
	case 0:
		return slices.Delete(slices.Clone(pieces), one, one+1), "all but one"
	case 1:
		return pieces[one : one+1], "only one"
	}
	quarters := 1 + rng.IntN(3)
	var kept []piece
	for _, p := range pieces {
		if rng.IntN(4) < quarters {
			kept = append(kept, p)
		}
	}
	return kept, "a random part"
}

// disk is a disk image with hashes of its blocks.
type disk struct {
	image []byte
	zero  []bool   // by block
	sums  []uint64 // by block
	sum   uint64   // sum of sums
}

var (
	hashSeed  = maphash.MakeSeed()
	zeroBlock [block]byte
)

func newDisk(base []byte) *disk {
	d := &disk{image: slices.Clone(base), zero: make([]bool, len(base)/block), sums: make([]uint64, len(base)/block)}
	for b := range d.zero {
		d.rehash(b)
	}
	return d
}

func (d *disk) write(pieces []piece) {
	for _, p := range pieces {
		copy(d.image[p.off:], p.data)
		d.rehash(int(p.off / block))
	}
}

// rehash updates the hash of block b after a change.
func (d *disk) rehash(b int) {
	data := d.image[b*block : (b+1)*block]
	d.zero[b] = [block]byte(data) == zeroBlock
	d.sum -= d.sums[b]
	d.sums[b] = blockSum(b, data)
	d.sum += d.sums[b]
}

// hashWith returns the hash of the image with the pieces written.
func (d *disk) hashWith(pieces []piece) uint64 {
	changed := make(map[int][]byte)
	for _, p := range pieces {
		b := int(p.off / block)
		if changed[b] == nil {
			changed[b] = slices.Clone(d.image[b*block : (b+1)*block])
		}
		copy(changed[b][p.off%block:], p.data)
	}
	sum := d.sum
	for b, data := range changed {
		sum += blockSum(b, data) - d.sums[b]
	}
	return sum
}

func blockSum(b int, data []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	h.Write(data)
	h.Write([]byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)})
	return h.Sum64()
}
