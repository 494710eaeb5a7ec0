package crmem

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"crabmem/bm25"
	"crabmem/bm25/analysis"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/metadata"
)

// Weights of the neighbors of a message. DESIGN.md has their effects.
const (
	answerWeight   = 1.2 // of a question for the message after it
	previousWeight = 0.5 // of another message for the message after it
	nextWeight     = 0.3 // of a message for the message before it

	// maxQuestion is the length of a question, in bytes. A longer message with a
	// question mark is mostly something else.
	maxQuestion = 200

	// defaultPrior is the factor of messages of an assistant.
	defaultPrior = 0.7
	// evidenceWeight is the share of the score of a conversation that its messages get.
	evidenceWeight = 0.2
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
	day      int32 // of the metadata date, from 1970; noDay: none
	flags    uint32
}

// noDay is the day of a message without a date.
const noDay = -1 << 31

// The flags of a message.
const (
	asks        = 1 << iota // it is a question
	byAssistant             // the role of its author is assistant
)

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
	m = message{position: position, day: noDay}
	if day, ok := analysis.Day(meta.Text(metadata.Date)); ok {
		m.day = int32(day.Unix() / secondsPerDay)
	}
	if text := content[body:]; len(text) <= maxQuestion && analysis.HasQuestion(text) {
		m.flags |= asks
	}
	if strings.EqualFold(meta.Text(metadata.Role), "assistant") {
		m.flags |= byAssistant
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
	w := weights{answerWeight, previousWeight, nextWeight}
	if s.without&partPrevious != 0 {
		w.previous = 0
	}
	if s.without&partNext != 0 {
		w.next = 0
	}
	if s.without&partAnswers != 0 {
		w.answer = w.previous
	}
	prior, evidence := s.opts.AssistantPrior, evidenceWeight
	if s.without&partPrior != 0 {
		prior = 1
	}
	if s.without&partEvidence != 0 {
		evidence = 0
	}
	return &bm25.Context{
		Neighbors: func(list []bm25.Neighbor, id uint64) ([]bm25.Neighbor, bool) { return c.neighbors(list, id, w) },
		Prior: func(id uint64) float64 {
			if c.messages[id].flags&byAssistant != 0 {
				return prior
			}
			return 1
		},
		Group:       func(id uint64) uint64 { return c.messages[id].in.number },
		GroupWeight: evidence,
	}
}

// weights are the weights of neighbors.
type weights struct{ answer, previous, next float64 }

// neighbors appends the messages before and after a message, with their weights.
func (c *conversations) neighbors(list []bm25.Neighbor, id uint64, w weights) ([]bm25.Neighbor, bool) {
	m, ok := c.messages[id]
	if !ok {
		return list, false
	}
	turns := m.in.turns
	i, _ := slices.BinarySearchFunc(turns, turn{m.position, id}, compareTurns)
	if i > 0 {
		n := bm25.Neighbor{ID: turns[i-1].id, Weight: w.previous}
		if c.messages[n.ID].flags&asks != 0 {
			n.Weight = w.answer
		}
		list = append(list, n)
	}
	if i+1 < len(turns) {
		list = append(list, bm25.Neighbor{ID: turns[i+1].id, Weight: w.next})
	}
	return list, true
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
