package crmem

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/metadata"
)

// conversations are the messages among the entries of an index: those with the metadata
// conversation and position.
type conversations struct {
	messages map[uint64]message // by ID of the entry
	byName   map[string]*conversation
	made     uint64 // number of conversations made so far
}

type conversation struct {
	name   string
	number uint64
	turns  []turn // ascending by position and ID
}

type turn struct{ position, id uint64 }

func compareTurns(a, b turn) int {
	return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.id, b.id))
}

// A message is what the index contains of a message.
type message struct {
	in       *conversation
	position uint64
	asks     analysis.TermSet
	author   uint32 // see [bm25.Author]
	day      int32  // of the metadata date, from 1970; noDay: none
}

// noDay is the day of a message without a date.
const noDay = -1 << 31

// messageOf returns the message that a record is, without its conversation, and the name
// of that. ok is false if the record is no message.
func messageOf(r format.Record) (m message, name string, ok bool) {
	content, _ := r.Content()
	meta, body, ok := metadata.Parse(content)
	if !ok {
		return message{}, "", false
	}
	name = meta.Text(metadata.Conversation)
	position, err := strconv.ParseUint(meta.Text(metadata.Position), 10, 64)
	if name == "" || err != nil {
		return message{}, "", false
	}
	m = message{position: position, day: noDay, asks: analysis.Asked(content[body:]), author: bm25.Author(meta.Text(metadata.Role))}
	if day, ok := analysis.Day(meta.Text(metadata.Date)); ok {
		m.day = int32(day.Unix() / secondsPerDay)
	}
	return m, name, true
}

const secondsPerDay = 24 * 60 * 60

// change updates the message that an entry is; an empty record removes it.
func (c *conversations) change(id uint64, r format.Record) {
	if old, ok := c.messages[id]; ok {
		in := old.in
		if i, ok := slices.BinarySearchFunc(in.turns, turn{old.position, id}, compareTurns); ok {
			in.turns = slices.Delete(in.turns, i, i+1)
		}
		if len(in.turns) == 0 {
			delete(c.byName, in.name)
		}
		delete(c.messages, id)
	}
	if r == "" {
		return
	}
	if m, name, ok := messageOf(r); ok {
		t := c.put(id, m, name)
		in := c.byName[name]
		i, _ := slices.BinarySearchFunc(in.turns, t, compareTurns)
		in.turns = slices.Insert(in.turns, i, t)
	}
}

// put adds a message, except for its turn, which it returns.
func (c *conversations) put(id uint64, m message, name string) turn {
	if c.messages == nil {
		c.messages, c.byName = make(map[uint64]message), make(map[string]*conversation)
	}
	if m.in = c.byName[name]; m.in == nil {
		name = strings.Clone(name) // not the content
		c.made++
		m.in = &conversation{name: name, number: c.made}
		c.byName[name] = m.in
	}
	c.messages[id] = m
	return turn{m.position, id}
}

// build adds the messages among records.
func (c *conversations) build(recs []rec) {
	for _, r := range recs {
		if m, name, ok := messageOf(r.enc); ok {
			t := c.put(r.id, m, name)
			in := c.byName[name]
			in.turns = append(in.turns, t)
		}
	}
	for _, in := range c.byName {
		slices.SortFunc(in.turns, compareTurns)
	}
}

// Parts of the ranking that tests disable. DESIGN.md has the effect of each.
const (
	partAnswers  = 1 << iota // questions count as other messages do
	partPrevious             // for the next message
	partNext                 // for the previous message
	partPrior
	partEvidence
	partDates

	partNeighbors = partAnswers | partPrevious | partNext
	partContext   = partNeighbors | partPrior | partEvidence
)

// context returns the context of a search, or nil without messages.
func (s *Store) context(ix *index) *bm25.Context {
	c := &ix.conversations
	if len(c.messages) == 0 || s.without&partContext == partContext {
		return nil
	}
	w := bm25.DefaultWeights
	w.Assistant = s.opts.AssistantPrior
	if s.without&partPrevious != 0 {
		w.Previous = 0
	}
	if s.without&partNext != 0 {
		w.Next = 0
	}
	if s.without&partAnswers != 0 {
		w.Answer, w.OwnAnswer = w.Previous, w.Previous
	}
	if s.without&partPrior != 0 {
		w.Assistant = 1
	}
	if s.without&partEvidence != 0 {
		w.Evidence = 0
	}
	return &bm25.Context{Message: c.message, Weights: w}
}

// message returns a message with its neighbors.
func (c *conversations) message(id uint64) (b bm25.Message, ok bool) {
	m, ok := c.messages[id]
	if !ok {
		return b, false
	}
	turns := m.in.turns
	i, _ := slices.BinarySearchFunc(turns, turn{m.position, id}, compareTurns)
	b = bm25.Message{Conversation: m.in.number, Author: m.author, Asks: m.asks}
	if b.HasPrevious = i > 0; i > 0 {
		b.Previous = turns[i-1].id
	}
	if b.HasNext = i+1 < len(turns); b.HasNext {
		b.Next = turns[i+1].id
	}
	return b, true
}

// NextPosition returns the position of a new message: one more than the last one of the
// conversation, from 1. If the entry name is a message of it, NextPosition returns its
// position.
func (s *Store) NextPosition(ctx context.Context, conversation, name string) (uint64, error) {
	e, _ := s.find(name) // without an entry, the ID is 0; this counts no read
	ix, err := s.indexed(ctx, analysis.Standard)
	if err != nil {
		return 0, err
	}
	defer s.mu.RUnlock()
	in := ix.conversations.byName[conversation]
	if m, ok := ix.conversations.messages[e.ID]; ok && m.in == in {
		return m.position, nil
	}
	if in == nil {
		return 1, nil
	}
	return max(in.turns[len(in.turns)-1].position+1, 1), nil
}

// dayOf returns the day of a record: that of the metadata date, or of its creation.
func (ix *index) dayOf(r format.Record) time.Time {
	if m, ok := ix.conversations.messages[r.ID()]; ok && m.day != noDay {
		return time.Unix(int64(m.day)*secondsPerDay, 0)
	}
	content, _ := r.Content()
	if meta, _, ok := metadata.Parse(content); ok {
		if day, ok := analysis.Day(meta.Text(metadata.Date)); ok {
			return day
		}
	}
	return time.Unix(int64(min(r.CreatedAt(), 1<<40)), 0)
}
