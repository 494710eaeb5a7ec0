package faultfs

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"io/fs"
	"maps"
	"slices"
)

// Outcome is the effect of a power cut on one unsynced change. For a change of
// names or of a file's size, every outcome except [Lost] means [Kept].
type Outcome uint16

const (
	Lost    Outcome = iota // the change is not on disk
	Kept                   // the complete change is on disk
	Zeroed                 // zeros are on disk instead of the written bytes
	Garbage                // pseudo-random bytes are on disk instead of the written bytes
	cut                    // cut+k is the result of Cut(k)
)

// Cut returns the outcome of a torn write: only the bytes before the k-th
// 512-byte boundary inside the written bytes are on disk. k starts at 1. If the
// bytes contain fewer boundaries, all of them are on disk.
func Cut(k int) Outcome { return cut + Outcome(k) }

// Change is an unsynced change: bytes written to one 4 KiB block of a file, a
// new size of a file, or a change of names.
type Change struct {
	Op   string // write, truncate, create, link, mkdir, remove, rename
	Name string // new name for a rename or link, else any name of the file
	Off  int64  // offset of the bytes, or the new size
	Len  int    // number of bytes of a write
	Cuts int    // largest k for Cut; 0 = no boundary inside the bytes
}

// Unsynced lists the changes that a power cut may keep or lose. The list starts
// with changes of names, oldest first. Changes of contents follow, by inode,
// then oldest first. The list omits changes that a failed sync lost.
func (m *Mem) Unsynced() []Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Change
	for _, c := range m.pending {
		list = append(list, Change{Op: c.op, Name: c.path})
	}
	for _, f := range m.dirty() {
		for _, p := range f.node.pieces {
			c := Change{Op: "write", Name: f.name, Off: p.off, Len: len(p.data), Cuts: p.cuts()}
			if p.resize {
				c.Op = "truncate"
			}
			list = append(list, c)
		}
	}
	return list
}

// dirtyFile is a file with unsynced contents.
type dirtyFile struct {
	node *node
	name string // one of the file's names
}

// dirty returns the files with unsynced contents that have a name before the
// crash or can have a name after it. The files are sorted by inode.
func (m *Mem) dirty() []dirtyFile {
	var files []dirtyFile
	seen := make(map[*node]bool, 16)
	var visit func(dir *node, dirName string)
	found := func(n *node, name func() string) {
		if seen[n] {
			return
		}
		seen[n] = true
		if len(n.pieces) > 0 {
			files = append(files, dirtyFile{n, name()})
		}
		if n.mode.IsDir() {
			visit(n, name())
		}
	}
	visit = func(dir *node, dirName string) {
		for base, n := range dir.names {
			found(n, func() string { return dirName + "/" + base })
		}
		for base, n := range dir.durable {
			found(n, func() string { return dirName + "/" + base })
		}
	}
	visit(m.dir, "")
	for _, c := range m.pending {
		found(c.node, func() string { return c.path })
	}
	slices.SortFunc(files, func(a, b dirtyFile) int { return cmp.Compare(a.node.ino, b.node.ino) })
	return files
}

// Crash returns the machine after a power cut: the durable state, plus the
// unsynced changes that have an outcome other than [Lost]. The outcomes are in
// the order of [Mem.Unsynced]; changes without an outcome are lost. The returned
// machine has no hook and counts calls from 1. Crash does not change m.
func (m *Mem) Crash(outcomes ...Outcome) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.newMachine()
	c.boot++
	copies := make(map[*node]*node)
	var copyOf func(n *node) *node
	copyOf = func(n *node) *node {
		if r := copies[n]; r != nil {
			return r
		}
		r := &node{ino: n.ino, mode: n.mode, mtime: n.mtime, target: n.target, disk: n.disk.share()}
		copies[n] = r
		if n.durable != nil {
			r.durable = make(map[string]*node, len(n.durable))
			for base, child := range n.durable {
				r.durable[base] = copyOf(child)
			}
		}
		return r
	}
	c.dir = copyOf(m.dir)
	for i, d := range m.pending {
		if i < len(outcomes) && outcomes[i] != Lost {
			d.apply(copyOf)
		}
	}
	if at := len(m.pending); at < len(outcomes) {
		for _, f := range m.dirty() {
			r := copyOf(f.node)
			for _, p := range f.node.pieces {
				if at < len(outcomes) {
					r.disk.apply(p, outcomes[at])
					at++
				}
			}
		}
	}
	c.settle(c.dir, map[*node]bool{})
	return c
}

// settle makes the durable state under n visible. It counts the names of each
// node and the used space.
func (m *Mem) settle(n *node, seen map[*node]bool) {
	n.links++
	if seen[n] {
		return
	}
	seen[n] = true
	n.data = n.disk.share()
	m.used += n.data.size
	if n.durable != nil {
		n.names = maps.Clone(n.durable)
		for _, child := range n.durable {
			m.settle(child, seen)
		}
	}
}

// Kill returns the machine after the process dies. All changes are visible and
// as durable as before, and all locks are released. The returned machine has no
// hook and counts calls from 1. Kill does not change m.
func (m *Mem) Kill() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.newMachine()
	copies := make(map[*node]*node)
	var copyOf func(n *node) *node
	copyOf = func(n *node) *node {
		if r := copies[n]; r != nil {
			return r
		}
		r := &node{
			ino: n.ino, mode: n.mode, mtime: n.mtime, target: n.target, links: n.links,
			data: n.data.share(), disk: n.disk.share(), pieces: slices.Clone(n.pieces), hasLost: n.hasLost,
		}
		copies[n] = r
		r.names, r.durable = copyAll(n.names, copyOf), copyAll(n.durable, copyOf)
		if n.links > 0 {
			k.used += n.data.size
		}
		return r
	}
	k.dir = copyOf(m.dir)
	for _, c := range m.pending {
		c.node = copyOf(c.node)
		if c.from != nil {
			c.from = copyOf(c.from)
		}
		if c.to != nil {
			c.to = copyOf(c.to)
		}
		k.pending = append(k.pending, c)
	}
	return k
}

// copyAll returns a map with the copy of each node. It returns nil for nil.
func copyAll(set map[string]*node, copyOf func(*node) *node) map[string]*node {
	if set == nil {
		return nil
	}
	r := make(map[string]*node, len(set))
	for base, n := range set {
		r[base] = copyOf(n)
	}
	return r
}

// newMachine returns a machine with the clock, limit, and counters of m, except
// the counter of calls. The caller sets the root directory.
func (m *Mem) newMachine() *Mem {
	h := &Mem{Now: m.Now, Limit: m.Limit, lastIno: m.lastIno, lastTmp: m.lastTmp, boot: m.boot}
	h.m = h
	return h
}

// Hash returns the SHA-256 hash of the durable state: names, types, permission
// bits, contents, and link targets. It ignores unsynced changes, inode numbers,
// and times.
func (m *Mem) Hash() [sha256.Size]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return sha256.Sum256(m.dir.appendImage(make([]byte, 0, 4096)))
}

// appendImage appends an unambiguous encoding of the durable state under n.
func (n *node) appendImage(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(n.mode))
	switch n.mode.Type() {
	case fs.ModeDir:
		b = binary.LittleEndian.AppendUint32(b, uint32(len(n.durable)))
		for _, base := range slices.Sorted(maps.Keys(n.durable)) {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(base)))
			b = append(b, base...)
			b = n.durable[base].appendImage(b)
		}
	case fs.ModeSymlink:
		b = append(append(b, n.target...), 0)
	default:
		b = binary.LittleEndian.AppendUint64(b, uint64(n.disk.size))
		for _, block := range n.disk.blocks {
			for len(block) > 0 && block[len(block)-1] == 0 {
				block = block[:len(block)-1] // written zeros are equal to a hole
			}
			b = binary.LittleEndian.AppendUint16(b, uint16(len(block)))
			b = append(b, block...)
		}
	}
	return b
}
