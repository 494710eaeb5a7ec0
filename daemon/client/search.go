package client

import (
	"context"
	"encoding/json"
	"fmt"

	"crabmem/bm25"
	"crabmem/crmem"
	"crabmem/crmem/fusion"
	"crabmem/crmem/recall"
	"crabmem/daemon/memtool"
	"crabmem/daemon/wire/pb"
)

// maxNumber limits the numbers in a request.
const maxNumber = 1 << 30

// Search has the daemon search its store, and returns the answer and the path of
// the store. The content of a hit that has a snippet is not part of the answer.
func (c *Client) Search(ctx context.Context, q crmem.Query, o recall.Options) (a *recall.Answer, path string, err error) {
	if q.Limit > maxNumber || o.Budget > maxNumber {
		return nil, "", fmt.Errorf("search: limit or budget over %d", maxNumber)
	}
	m := &pb.RecallMsg{
		Query: q.Text, Analyzer: q.Analyzer.String(), Limit: uint32(q.Limit), Syntax: q.Syntax, WhyNot: o.WhyNot, Budget: uint32(max(o.Budget, 0)),
		Explain: o.Explain || o.Weights,
	}
	if len(q.Kinds) > 0 {
		k := pb.EntryKind(q.Kinds[0])
		m.Kind = &k
	}
	memtool.SetFilter(m, &q)
	r, err := c.recall(ctx, m)
	if err != nil {
		return nil, "", err
	}
	a, err = answerOf(q.Text, r, o.Explain)
	return a, r.GetPath(), err
}

// answerOf returns the answer of a message.
func answerOf(query string, r *pb.RecallReply, explain bool) (*recall.Answer, error) {
	a := &recall.Answer{Query: query, Total: int(r.GetTotal()), Searched: int(r.GetSearched()), Hits: make([]recall.Hit, len(r.GetHits()))}
	for i, m := range r.GetHits() {
		e := m.GetEntry()
		h := recall.Hit{
			ID: e.GetId(), Name: e.GetName(), Kind: crmem.Kind(e.GetKind()), CreatedAt: e.GetCreatedAt(), Snippet: m.Snippet,
			Aliases: append([]string{}, e.GetAliases()...), Score: m.GetScore(), Bytes: int(e.GetBytes()),
		}
		if h.Snippet == nil {
			text := e.GetContent()
			h.Content = &text
		}
		if m.Tokens != nil {
			n := int(m.GetTokens())
			h.Tokens = &n
		}
		if len(m.GetExplain()) > 0 {
			x := new(recall.Explanation)
			if err := json.Unmarshal(m.GetExplain(), x); err != nil {
				return nil, err
			}
			h.Weights = x.Weights()
			if explain {
				h.Explain = x
			}
		}
		if len(m.GetMarks()) > 0 {
			if err := json.Unmarshal(m.GetMarks(), &h.Marks); err != nil {
				return nil, err
			}
		}
		a.Hits[i] = h
	}
	for _, x := range r.GetCorrections() {
		a.Corrections = append(a.Corrections, bm25.Correction{Word: x.GetWord(), Kind: x.GetKind(), Words: x.GetWords(), Weight: x.GetWeight()})
	}
	if b := r.GetBudget(); b != nil {
		a.Budgeted = &recall.Budgeted{Budget: int(b.GetBudget()), Tokens: int(b.GetTokens()), Encoding: b.GetEncoding(), Estimated: b.GetEstimated(), LeftOut: int(b.GetLeftOut())}
	}
	if len(r.GetWhyNot()) > 0 {
		a.WhyNot = new(recall.WhyNot)
		if err := json.Unmarshal(r.GetWhyNot(), a.WhyNot); err != nil {
			return nil, err
		}
	}
	if len(r.GetMeaning()) > 0 {
		a.Meaning = new(fusion.Meaning)
		if err := json.Unmarshal(r.GetMeaning(), a.Meaning); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// recall returns the answer, with the hits of all messages.
func (c *Client) recall(ctx context.Context, m *pb.RecallMsg) (*pb.RecallReply, error) {
	var all *pb.RecallReply
	for r, err := range callStream(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Recall{Recall: m}}, (*pb.ServerMessage).GetRecalled) {
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = r
		} else {
			all.Hits = append(all.Hits, r.GetHits()...)
		}
	}
	return all, nil
}
