package crmem

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/crmem/internal/format"
)

func messageRecord(id uint64, content string) format.Record {
	return format.NewRecord(id, 0, format.KindNote, fmt.Sprint("entry ", id), content, nil)
}

// content returns what messages with their conversations contain.
func (c *conversations) content() map[string][]string {
	m := make(map[string][]string)
	for name, in := range c.byName {
		for _, t := range in.turns {
			v := c.messages[t.id]
			m[name] = append(m[name], fmt.Sprint(t.position, t.id, v.position, v.day, v.asks, v.author, v.in == in))
		}
	}
	return m
}

// TestConversations changes messages at random, and compares them with those that a
// new index of the same entries contains, and with those of an index file.
func TestConversations(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	records := make(map[uint64]format.Record)
	var c conversations
	for step := range 3000 {
		id := 1 + rng.Uint64N(40)
		content := fmt.Sprintf("---\nconversation: %c\nposition: %d\nrole: %s\ndate: %s\n---\ntext%s", 'a'+rune(rng.IntN(4)), rng.IntN(6),
			[]string{"user", "Assistant"}[rng.IntN(2)], []string{"2026-03-14", "1960-01-01", "x"}[rng.IntN(3)], []string{"?", ""}[rng.IntN(2)])
		switch rng.IntN(6) {
		case 0:
			content = "no message"
		case 1:
			delete(records, id)
			c.change(id, "")
			continue
		}
		records[id] = messageRecord(id, content)
		c.change(id, records[id])
		if step%50 > 0 {
			continue
		}
		var list []rec
		for id, r := range records {
			list = append(list, rec{id: id, enc: r}) // in any order
		}
		var built, read conversations
		built.build(list)
		if !reflect.DeepEqual(c.content(), built.content()) {
			t.Fatalf("step %d: %v\nwant %v", step, c.content(), built.content())
		}
		if err := read.decode(c.encode()); err != nil || !reflect.DeepEqual(read.content(), built.content()) {
			t.Fatalf("step %d: read %v, %v\nwant %v", step, read.content(), err, built.content())
		}
		read.change(id, "")
		read.change(id, records[id])
		if !reflect.DeepEqual(read.content(), built.content()) {
			t.Fatalf("step %d: changed after it was read: %v", step, read.content())
		}
	}
	for id := range records {
		c.change(id, "")
	}
	if len(c.messages)+len(c.byName) > 0 || len(c.encode()) > 0 {
		t.Errorf("without entries: %v", c.content())
	}
}

// TestMessageOf reads the metadata of messages.
func TestMessageOf(t *testing.T) {
	for content, want := range map[string]string{
		"---\nconversation: trip\nposition: 3\nrole: assistant\ndate: 2026-03-14\n---\nWhich port?": `trip 3 20526 true true`,
		"---\nconversation: trip\nposition: 0\n---\n":                                               `trip 0 -2147483648 false false`,
		"---\nposition: 18446744073709551615\nconversation: [a b]\nrole: user\n---\nport? y":        `a b 18446744073709551615 -2147483648 false true`,
		"---\nconversation: t\nposition: 1\n---\nhttp://a/?q=1":                                     `t 1 -2147483648 false false`,
		"---\nconversation: t\nposition: -1\n---\n":                                                 ``,
		"---\nconversation: t\nposition: 1.5\n---\n":                                                ``,
		"---\nconversation: t\n---\n":                                                               ``,
		"---\nposition: 1\n---\n":                                                                   ``,
		"---\nconversation: \"\"\nposition: 1\n---\n":                                               ``,
		"---\nconversation: [a, b]\nposition: 1\n---\n":                                             ``,
		"conversation: t": ``,
	} {
		got := ""
		if m, name, ok := messageOf(messageRecord(1, content)); ok {
			got = fmt.Sprint(name, " ", m.position, " ", m.day, " ", m.author == bm25.Author("assistant"), " ", m.asks == analysis.Asked("port?"))
		}
		if got != want {
			t.Errorf("%.80q: %q, want %q", content, got, want)
		}
	}
}

// TestConversationsInvalid decodes invalid sections.
func TestConversationsInvalid(t *testing.T) {
	var c conversations
	for id := range uint64(3) {
		c.change(id+1, messageRecord(id+1, fmt.Sprintf("---\nconversation: %c\nposition: %d\n---\n", 'a'+rune(id/2), id)))
	}
	valid := c.encode() // a of two messages, b of one
	put := func(at int, v uint32) []byte {
		b := slices.Clone(valid)
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	second := 8 + 1 + 2*turnSize
	for what, b := range map[string][]byte{
		"no messages":             put(4, 0),
		"many messages":           put(4, 1<<32-1),
		"a long name":             put(0, 1<<32-1),
		"no name":                 append(make([]byte, 4), slices.Concat(valid[4:8], valid[9:])...),
		"the same position":       put(9+turnSize, 0),
		"an ID that occurs twice": put(second+9, 1),
		"names out of order":      append(slices.Clone(valid[:8]), append([]byte("c"), valid[9:]...)...),
		"a name twice":            append(slices.Clone(valid[:8]), append([]byte("b"), valid[9:]...)...),
	} {
		if what == "the same position" {
			binary.LittleEndian.PutUint64(b[9+turnSize+8:], 0)
		}
		if err := c.decode(b); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	for n := range valid {
		if err := c.decode(valid[:n]); err == nil && n > 0 && n != second {
			t.Errorf("%d of %d bytes: no error", n, len(valid))
		}
	}
	if err := c.decode(valid); err != nil || len(c.messages) != 3 {
		t.Errorf("%v, %v", c.content(), err)
	}
}
