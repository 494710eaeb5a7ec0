package crmem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"crabmem/bm25/analysis"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/metadata"
)

// turnSize is the size of a message in section IndexConversations.
const turnSize = 32

// encode returns section IndexConversations.
func (c *conversations) encode() []byte {
	b := make([]byte, 0, turnSize*len(c.messages))
	for _, name := range slices.Sorted(maps.Keys(c.byName)) {
		in := c.byName[name]
		b = binary.LittleEndian.AppendUint32(b, uint32(len(name)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(in.turns)))
		b = append(b, name...)
		for _, t := range in.turns {
			m := c.messages[t.id]
			b = binary.LittleEndian.AppendUint64(b, t.id)
			b = binary.LittleEndian.AppendUint64(b, t.position)
			b = binary.LittleEndian.AppendUint64(b, uint64(m.asks))
			b = binary.LittleEndian.AppendUint32(b, m.author)
			b = binary.LittleEndian.AppendUint32(b, uint32(m.day))
		}
	}
	return b
}

// decode replaces the messages by those of a section.
func (c *conversations) decode(b []byte) error {
	*c = conversations{}
	if len(b) == 0 {
		return nil
	}
	c.messages, c.byName = make(map[uint64]message, len(b)/turnSize), make(map[string]*conversation)
	last := ""
	for len(b) > 0 {
		if len(b) < 8 {
			return errors.New("conversations: a truncated header")
		}
		name, n := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
		if b = b[8:]; name > metadata.MaxBytes || n == 0 || name+turnSize*n > uint64(len(b)) {
			return fmt.Errorf("conversations: a name of %d bytes and %d messages in %d bytes", name, n, len(b))
		}
		in := &conversation{name: string(b[:name]), number: uint64(len(c.byName) + 1), turns: make([]turn, n)}
		if in.name <= last {
			return fmt.Errorf("conversations: %q after %q", in.name, last)
		}
		last, c.byName[in.name] = in.name, in
		b = b[name:]
		for i := range in.turns {
			t := turn{id: binary.LittleEndian.Uint64(b), position: binary.LittleEndian.Uint64(b[8:])}
			m := message{in: in, position: t.position, asks: analysis.TermSet(binary.LittleEndian.Uint64(b[16:])),
				author: binary.LittleEndian.Uint32(b[24:]), day: int32(binary.LittleEndian.Uint32(b[28:]))}
			if i > 0 && compareTurns(in.turns[i-1], t) >= 0 {
				return fmt.Errorf("conversations: invalid message %d of %q", t.id, in.name)
			}
			if _, ok := c.messages[t.id]; ok {
				return fmt.Errorf("conversations: entry %d occurs twice", t.id)
			}
			in.turns[i], c.messages[t.id] = t, m
			b = b[turnSize:]
		}
	}
	c.made = uint64(len(c.byName))
	return nil
}

// conversations reads section IndexConversations.
func (x *indexFile) conversations(c *conversations) error {
	b, err := x.all(format.IndexConversations)
	if err != nil {
		return err
	}
	return c.decode(b)
}
