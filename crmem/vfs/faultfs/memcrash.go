package faultfs

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"io/fs"
	"maps"
	"slices"
)

// Outcome is the effect of a power cut on one unsynced change.
type Outcome uint16

const (
	Lost    Outcome = iota // it is not on the disk
	Kept                   // all of it is on the disk
	Zeroed                 // written bytes became zeros
	Garbage                // written bytes became others
	cut                    // plus k: see Cut
)

// Cut returns the fate of written bytes of which those before the k-th 512
// byte boundary inside them are on the disk, and the others are not.
func Cut(k int) Outcome { return cut + Outcome(k) }

// Change is an unsynced change: bytes of one 4 KiB block of a file, a new size
// of a file, or a change of names.
type Change struct {
	Op   string // write, truncate, create, link, mkdir, remove, rename
	Name string // a name of the file; of a rename, the new one
	Off  int64  // of the bytes, or the new size
	Len  int    // bytes
	Cuts int    // k of Cut goes from 1 to this
}

// Unsynced lists the changes that a power cut now may keep or lose, in the same
// order for equal states: first changes of names, then those of each file, by
// inode, oldest first. It omits changes that a failed sync lost.
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
			if p.cut {
				c.Op = "truncate"
			}
			list = append(list, c)
		}
	}
	return list
}

// dirtyFile is a file with pending contents, and a name of it.
type dirtyFile struct {
	node *node
	name string
}

// dirty returns the files with pending contents that a crash can leave a name
// for, by inode.
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

// Crash returns the machine after a power cut: the durable state, with an
// outcome for each unsynced change in the order of [Mem.Unsynced]. Changes
// without an outcome are lost. The returned machine has no hook. Crash does not
// change m.
func (m *Mem) Crash(fates ...Outcome) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.heir()
	c.boot++
	copies := make(map[*node]*node)
	var renew func(n *node) *node
	renew = func(n *node) *node {
		if r := copies[n]; r != nil {
			return r
		}
		r := &node{ino: n.ino, mode: n.mode, mtime: n.mtime, target: n.target, disk: n.disk.share()}
		copies[n] = r
		if n.durable != nil {
			r.durable = make(map[string]*node, len(n.durable))
			for base, child := range n.durable {
				r.durable[base] = renew(child)
			}
		}
		return r
	}
	c.dir = renew(m.dir)
	for i, d := range m.pending {
		if i < len(fates) && fates[i] != Lost {
			d.apply(renew)
		}
	}
	if at := len(m.pending); at < len(fates) {
		for _, f := range m.dirty() {
			r := renew(f.node)
			for _, p := range f.node.pieces {
				if at < len(fates) {
					r.disk.apply(p, fates[at])
					at++
				}
			}
		}
	}
	c.settle(c.dir, map[*node]bool{})
	return c
}

// settle makes the durable state visible, and counts names and space.
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

// Kill returns the machine after the death of its process: all its writes are
// visible and as durable as before, and its locks are released. The returned
// machine has no hook. Kill does not change m.
func (m *Mem) Kill() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.heir()
	copies := make(map[*node]*node)
	var renew func(n *node) *node
	renew = func(n *node) *node {
		if r := copies[n]; r != nil {
			return r
		}
		r := &node{
			ino: n.ino, mode: n.mode, mtime: n.mtime, target: n.target, links: n.links,
			data: n.data.share(), disk: n.disk.share(), pieces: slices.Clone(n.pieces), lied: n.lied,
		}
		copies[n] = r
		r.names, r.durable = renewAll(n.names, renew), renewAll(n.durable, renew)
		if n.links > 0 {
			k.used += n.data.size
		}
		return r
	}
	k.dir = renew(m.dir)
	for _, c := range m.pending {
		c.node = renew(c.node)
		if c.from != nil {
			c.from = renew(c.from)
		}
		if c.to != nil {
			c.to = renew(c.to)
		}
		k.pending = append(k.pending, c)
	}
	return k
}

func renewAll(set map[string]*node, renew func(*node) *node) map[string]*node {
	if set == nil {
		return nil
	}
	r := make(map[string]*node, len(set))
	for base, n := range set {
		r[base] = renew(n)
	}
	return r
}

// heir returns a machine with the settings and counters of m, without a hook.
func (m *Mem) heir() *Mem {
	h := &Mem{Now: m.Now, Limit: m.Limit, lastIno: m.lastIno, lastTmp: m.lastTmp, boot: m.boot}
	h.m = h
	return h
}

// Hash identifies the durable image: names, types, permission bits, contents,
// link targets. Unsynced changes, inode numbers and times are left out.
func (m *Mem) Hash() [sha256.Size]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return sha256.Sum256(m.dir.appendImage(make([]byte, 0, 4096)))
}

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
				block = block[:len(block)-1] // zeros, written or not
			}
			b = binary.LittleEndian.AppendUint16(b, uint16(len(block)))
			b = append(b, block...)
		}
	}
	return b
}
