package fault

import (
	"bytes"

	"crabmem/crmem/vfs/faultfs"
)

// Corruption changes the bytes of a read or a write that reports success.
type Corruption struct {
	Name string
	Op   string // read or write
	// Bytes returns the changed bytes. It may modify its argument.
	Bytes func(b []byte) []byte
	// Swap, without Bytes, delays a write until after the next write to the file.
	Swap bool
}

const block = 512

var corruptBytes = []Corruption{
	{Name: "first bit", Bytes: func(b []byte) []byte { return flip(b, 0) }},
	{Name: "middle bit", Bytes: func(b []byte) []byte { return flip(b, len(b)/2) }},
	{Name: "last bit", Bytes: func(b []byte) []byte { return flip(b, len(b)-1) }},
	{Name: "zeros", Bytes: func(b []byte) []byte { clear(b); return b }},
	{Name: "zeros in the second half", Bytes: func(b []byte) []byte { clear(b[len(b)/2:]); return b }},
	{Name: "short by a byte", Bytes: func(b []byte) []byte { return b[:max(0, len(b)-1)] }},
	{Name: "short by a third", Bytes: func(b []byte) []byte { return b[:len(b)*2/3] }},
	{Name: "nothing", Bytes: func([]byte) []byte { return nil }},
	{Name: "halves exchanged", Bytes: func(b []byte) []byte { return append(bytes.Clone(b[len(b)/2:]), b[:len(b)/2]...) }},
	{Name: "first half twice", Bytes: func(b []byte) []byte { copy(b[len(b)/2:], b[:len(b)/2]); return b }},
	{Name: "blocks exchanged", Bytes: func(b []byte) []byte {
		if len(b) >= 3*block {
			first := bytes.Clone(b[block : 2*block])
			copy(b[block:], b[2*block:3*block])
			copy(b[2*block:], first)
		}
		return b
	}},
	{Name: "block twice", Bytes: func(b []byte) []byte {
		if len(b) >= 3*block {
			copy(b[2*block:3*block], b[block:])
		}
		return b
	}},
}

func flip(b []byte, i int) []byte {
	if len(b) > 0 {
		b[i] ^= 4
	}
	return b
}

// Corruptions returns all corruptions of reads and writes.
func Corruptions() []Corruption {
	var list []Corruption
	for _, op := range []string{"read", "write"} {
		for _, c := range corruptBytes {
			c.Op = op
			c.Name = op + ", " + c.Name
			list = append(list, c)
		}
	}
	return append(list,
		Corruption{Name: "write, all twice", Op: "write", Bytes: func(b []byte) []byte { return append(b, b...) }},
		Corruption{Name: "write, after the next", Op: "write", Swap: true})
}

// Corrupting corrupts the N-th call that a Corruption applies to. Calls of Hook
// must not overlap.
type Corrupting struct {
	Corruption
	N   int
	Hit int          // number of calls so far that the corruption applies to
	At  faultfs.Call // the corrupted call

	held []byte // the delayed write of Swap
}

// Hook is the hook of a [faultfs.Mem].
func (c *Corrupting) Hook(k faultfs.Call) error {
	if k.Op != c.Op {
		return nil
	}
	if c.Swap && c.held != nil && k.Name == c.At.Name {
		return &faultfs.Fault{Corrupt: func(b []byte) []byte {
			b, c.held = append(b, c.held...), nil
			return b
		}}
	}
	if c.Hit++; c.Hit != c.N {
		return nil
	}
	c.At = k
	if c.Swap {
		return &faultfs.Fault{Corrupt: func(b []byte) []byte {
			c.held = b
			return nil
		}}
	}
	return &faultfs.Fault{Corrupt: c.Bytes}
}
