package bm25

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"crabmem/bm25/analysis"
	"crabmem/fuzz/race"
	"crabmem/fuzz/seed"
)

// A talk is an index of messages and other documents. Documents with the same
// hundreds are a conversation, those below 100 are not messages.
type talk struct {
	x     *Index
	texts map[uint64][]string
	plain bool // re-ranking reads no texts
	alone bool // no author is known
}

func (k *talk) query(text string, limit int) Query {
	return Query{
		Text: text, Limit: limit, Count: true,
		Texts: func(id uint64) []string {
			if k.plain {
				return nil
			}
			return k.texts[id]
		},
		Context: &Context{Message: k.message, Weights: DefaultWeights},
	}
}

func (k *talk) message(id uint64) (m Message, ok bool) {
	if id < 100 {
		return m, false
	}
	m = Message{Conversation: id / 100, Author: k.author(id), Asks: k.asks(id)}
	m.Previous, m.HasPrevious = id-1, (id-1)/100 == id/100 && k.texts[id-1] != nil
	m.Next, m.HasNext = id+1, (id+1)/100 == id/100 && k.texts[id+1] != nil
	return m, true
}

func (k *talk) author(id uint64) uint32 {
	if k.alone {
		return 0
	}
	return Author([]string{"user", "Assistant", "user", ""}[id%4])
}

func (k *talk) asks(id uint64) analysis.TermSet {
	if id%2 == 1 {
		return 0
	}
	return analysis.Asked(strings.Join(k.texts[id], " ") + "?")
}

// weight is the weight of a neighbor for a term.
func (k *talk) weight(from, to uint64, term string) float64 {
	switch own := k.author(from) == k.author(to) && k.author(to) != 0; {
	case from > to:
		return 0.3
	case !k.asks(from).Has(analysis.TermSetOf([]byte(term))):
		return 0.4
	case own:
		return 0.9
	}
	return 1.2
}

// neighbors returns the messages next to a message.
func (k *talk) neighbors(id uint64) (list []uint64) {
	m, _ := k.message(id)
	if m.HasPrevious {
		list = append(list, m.Previous)
	}
	if m.HasNext {
		list = append(list, m.Next)
	}
	return list
}

var talkWords = strings.Fields("alpha beta gamma delta epsilon zeta eta theta iota kappa alphaBeta 東京 naïve Straße")

func talkText(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(talkWords[min(r.IntN(len(talkWords)), r.IntN(len(talkWords)))] + " ")
	}
	return b.String()
}

func newTalk(r *rand.Rand) *talk {
	k := &talk{x: New(analysis.Standard), texts: make(map[uint64][]string)}
	for id := range uint64(700) {
		if r.IntN(6) == 0 {
			continue
		}
		n := r.IntN(9)
		if r.IntN(8) == 0 {
			n = 150
		}
		k.add(id, fmt.Sprint("name ", talkText(r, 1)), talkText(r, n))
	}
	return k
}

func (k *talk) add(id uint64, texts ...string) {
	k.texts[id] = texts
	k.x.Add(Doc{ID: id, Class: uint8(id % 3), Fields: texts})
}

// sum adds the lines of an explanation.
func (e *Explanation) sum() (sum float64) {
	for _, l := range e.Terms {
		sum += l.Contribution
	}
	for _, l := range e.Near {
		sum += l.Contribution
	}
	for _, l := range e.Terms {
		sum += l.Early
	}
	for _, l := range e.Terms {
		sum += l.Exact
	}
	sum += e.Named
	for _, b := range e.Boosts {
		sum += b.Contribution
	}
	if e.Prior > 0 {
		sum = float64(sum*e.Prior) + e.Group
	}
	if e.Factor > 0 {
		sum *= e.Factor
	}
	return sum
}

// TestContext compares searches in a context with their explanations, with searches
// of other limits and without a context, and with an index of another history.
func TestContext(t *testing.T) {
	race.Skip(t)
	r := seed.Random(t)
	k := newTalk(r)
	other := &talk{x: New(analysis.Standard), texts: k.texts}
	for _, i := range r.Perm(700) {
		id := uint64(i)
		if r.IntN(3) == 0 {
			other.x.Add(Doc{ID: id, Fields: []string{talkText(r, 5)}})
			other.x.Remove(id)
		}
		if k.texts[id] != nil {
			other.x.Add(Doc{ID: id, Class: uint8(id % 3), Fields: k.texts[id]})
		}
	}
	boosted, added, factors, alone := 0, 0, 0, 0
	for range 25 {
		q := k.query(talkText(r, 1+r.IntN(5)), 0)
		if r.IntN(3) == 0 {
			q.Classes = uint8(1 + r.IntN(7))
		}
		if r.IntN(3) == 0 {
			q.Filter = func(id uint64) bool { return id%5 > 0 }
		}
		if r.IntN(2) == 0 {
			q.Factor, q.MaxFactor = func(id uint64) float64 { return 1 + 5*float64(id%61/60) }, 6
		}
		if r.IntN(3) == 0 {
			q.Named = []uint64{uint64(r.IntN(700)), uint64(r.IntN(700))}
		}
		all := k.x.Search(q)
		if got := other.x.Search(q); !slices.Equal(got.Hits, all.Hits) {
			t.Fatalf("%q: another history changes the hits", q.Text)
		}
		if all.Total != len(all.Hits) || !slices.IsSortedFunc(all.Hits, q.byRank) {
			t.Fatalf("%q: %d hits of %d in total", q.Text, len(all.Hits), all.Total)
		}
		without := q
		without.Context, without.Factor = nil, nil
		base := make(map[uint64]float64)
		for _, h := range k.x.Search(without).Hits {
			base[h.ID] = h.Score
		}
		for _, h := range all.Hits {
			if q.Classes != 0 && q.Classes>>(h.ID%3)&1 == 0 || q.Filter != nil && !q.Filter(h.ID) {
				t.Fatalf("%q: %d is excluded", q.Text, h.ID)
			}
			if h.ID < 100 && q.Factor == nil {
				if alone++; h.Score != base[h.ID] {
					t.Fatalf("%q: %d is no message and has score %v, want %v", q.Text, h.ID, h.Score, base[h.ID])
				}
			}
			if base[h.ID] == 0 {
				added++
			}
		}
		for _, limit := range []int{1, 10, 150} {
			q.Limit, q.Explain = limit, true
			some := k.x.Search(q)
			if want := all.Hits[:min(limit, len(all.Hits))]; !slices.Equal(some.Hits, want) || some.Total != all.Total {
				t.Fatalf("%q: limit %d: %d hits of %d differ from the first of all", q.Text, limit, len(some.Hits), some.Total)
			}
			for i, e := range some.Explanations {
				h := some.Hits[i]
				if e.ID != h.ID || e.Score != h.Score || e.sum() != h.Score {
					t.Fatalf("%q: %d has score %v, but the lines have %v: %+v", q.Text, h.ID, h.Score, e.sum(), e)
				}
				boosted += len(e.Boosts)
				if e.Factor > 0 {
					factors++
				}
			}
		}
		q.Limit, q.Explain = r.IntN(20), false
		k.compareExplained(t, r, q, all.Hits)
	}
	if boosted < 1000 || added < 50 || factors < 30 || alone < 300 {
		t.Errorf("only %d boosts, %d added hits, %d factors, %d hits that are no messages", boosted, added, factors, alone)
	}
}

// compareExplained compares explanations of some documents with all hits of a query.
func (k *talk) compareExplained(t *testing.T, r *rand.Rand, q Query, hits []Hit) {
	t.Helper()
	score := make(map[uint64]float64)
	for _, h := range hits {
		score[h.ID] = h.Score
	}
	for _, i := range r.Perm(700)[:40] {
		id := uint64(i)
		e, ok := k.x.Explain(q, id)
		passes := (q.Filter == nil || q.Filter(id)) && (q.Classes == 0 || q.Classes>>(id%3)&1 != 0)
		if ok != (k.texts[id] != nil) || e.Score != e.sum() || passes && e.Score != score[id] {
			t.Fatalf("%q: explained %d: %v, lines %v, want %v", q.Text, id, e.Score, e.sum(), score[id])
		}
	}
}

// TestContextModel compares scores in a context with scores computed from those without.
func TestContextModel(t *testing.T) {
	race.Skip(t)
	r := rand.New(rand.NewPCG(3, 4))
	k := newTalk(r)
	k.plain = true
	prior := func(id uint64) float64 {
		if id%4 == 1 {
			return 0.72
		}
		return 1
	}
	for range 40 {
		q := k.query(talkText(r, 1+r.IntN(4)), 0)
		without := q
		without.Context = nil
		hits := k.x.Search(without).Hits
		parts := make(map[uint64]map[string]float64)
		of := func(id uint64) map[string]float64 {
			if parts[id] == nil {
				parts[id] = make(map[string]float64)
				e, _ := k.x.Explain(without, id)
				for _, line := range e.Terms {
					parts[id][line.Term] = line.Contribution
				}
			}
			return parts[id]
		}
		candidates := make(map[uint64]bool)
		for _, h := range hits[:min(len(hits), BoostLimit)] {
			if _, ok := k.message(h.ID); ok {
				for _, n := range append(k.neighbors(h.ID), h.ID) {
					candidates[n] = true
				}
			}
		}
		groups := make(map[uint64]map[string]float64)
		for id := range candidates {
			if groups[id/100] == nil {
				groups[id/100] = make(map[string]float64)
			}
			for term, v := range of(id) {
				groups[id/100][term] = max(groups[id/100][term], v)
			}
		}
		want := make(map[uint64]float64)
		for _, h := range hits {
			if want[h.ID] = h.Score; h.ID >= 100 {
				want[h.ID] *= prior(h.ID)
			}
		}
		for id := range candidates {
			boosts := make(map[string]float64)
			for _, n := range k.neighbors(id) {
				for term, v := range of(n) {
					if of(id)[term] == 0 {
						boosts[term] = max(boosts[term], k.weight(n, id, term)*v)
					}
				}
			}
			sum, evidence := 0.0, 0.0
			for _, m := range []map[string]float64{of(id), boosts} {
				for _, v := range m {
					sum += v
				}
			}
			for _, v := range groups[id/100] {
				evidence += v
			}
			want[id] = sum*prior(id) + 0.2*evidence
		}
		got := k.x.Search(q).Hits
		if len(got) != len(want) {
			t.Fatalf("%q: %d hits, want %d", q.Text, len(got), len(want))
		}
		for _, h := range got {
			if w := want[h.ID]; h.Score < w*(1-1e-12) || h.Score > w*(1+1e-12) {
				t.Fatalf("%q: %d has score %v, want %v", q.Text, h.ID, h.Score, w)
			}
		}
	}
}

// TestReply finds a reply that shares no word with the query, before the question.
func TestReply(t *testing.T) {
	k := &talk{x: New(analysis.Standard), texts: make(map[uint64][]string), alone: true}
	k.add(1, "lisbon has trains to porto")
	k.add(200, "which seat would you like on the train from Lisbon to Porto?")
	k.add(201, "window, on the ocean side")
	k.add(202, "good choice")
	r := k.x.Search(k.query("seat on the train from Lisbon to Porto", 2))
	if len(r.Hits) != 2 || r.Hits[0].ID != 201 || r.Hits[1].ID != 200 || r.Total != 3 {
		t.Errorf("%+v", r)
	}
}

// TestSentenceAsks compares a greeting that ends in a question with the reply to it, and a
// question with its answers by another author and by its own.
func TestSentenceAsks(t *testing.T) {
	k := &talk{x: New(analysis.Standard), texts: make(map[uint64][]string), alone: true}
	k.add(200, "hi Anna! I spent the weekend hiking in the Dolomites with my sister. How are you?")
	k.add(201, "pretty tired, the weekend was long")
	k.add(300, "which hotel in Porto has breakfast?")
	k.add(301, "the small one at the river")
	for query, want := range map[string]uint64{"weekend hiking in the Dolomites": 200, "hotel in Porto with breakfast": 301} {
		if r := k.x.Search(k.query(query, 1)); len(r.Hits) == 0 || r.Hits[0].ID != want {
			t.Errorf("%q: %+v, want %d", query, r.Hits, want)
		}
	}
}

// A factor for the author may lower hits to the score of matches that are not among them,
// and that rank before them as equals.
func TestContextTies(t *testing.T) {
	x := New(analysis.Standard)
	const first = 1000 // message of an assistant, with a better score before the factor
	texts := map[uint64]string{}
	for id := range uint64(99) {
		texts[first+id] = "tea tea milk sugar"
	}
	for id := uint64(1); id <= 50; id++ {
		texts[id] = "tea milk sugar spoon"
	}
	for id, text := range texts {
		x.Add(Doc{ID: id, Fields: []string{text}})
	}
	q := Query{Text: "tea", Texts: func(uint64) []string { return nil }}
	hits := x.Search(q).Hits
	low, high := hits[len(hits)-1].Score, hits[0].Score
	weight := low / high
	for float64(high*weight) < low {
		weight = math.Nextafter(weight, 1)
	}
	if float64(high*weight) != low || high == low {
		t.Fatalf("%v times %v is not %v", high, weight, low)
	}
	q.Context = &Context{Weights: Weights{Assistant: weight}, Message: func(id uint64) (Message, bool) {
		return Message{Conversation: id, Author: Author([]string{"user", "assistant"}[min(1, id/first)])}, true
	}}
	q.Limit = 20
	for i, h := range x.Search(q).Hits {
		if h != (Hit{uint64(i + 1), low}) {
			t.Errorf("hit %d: %v, want %v", i, h, Hit{uint64(i + 1), low})
		}
	}
}
