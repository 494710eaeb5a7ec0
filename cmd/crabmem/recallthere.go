package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"crabmem/bm25"
	"crabmem/crmem"
	"crabmem/crmem/recall"
	"crabmem/daemon/wire/pb"
)

// recallWait is how long a daemon may take to say who it is before the files
// are read instead.
const recallWait = 500 * time.Millisecond

// maxAsked is the most that a number in a request can say.
const maxAsked = 1 << 30

// recallThere has the daemon search, which has the index, when one has the
// store: it answers what the files answer. false when none does.
func (c *app) recallThere(ctx context.Context, q crmem.Query, f recallFlags) (a *recall.Answer, path string, ok bool) {
	if q.Limit > maxAsked || f.budget > maxAsked {
		return nil, "", false
	}
	hello, cancel := context.WithTimeout(ctx, recallWait)
	defer cancel()
	d, h, err := c.running(hello)
	if err != nil {
		if stopped := c.stoppedDaemon(); stopped != nil && errors.Is(err, context.DeadlineExceeded) {
			c.warnFailure(stopped)
		}
		return nil, "", false
	}
	defer d.Close()
	if !c.servesStore(h) {
		return nil, "", false
	}
	m := &pb.RecallMsg{
		Query: q.Text, Limit: uint32(q.Limit), Analyzer: f.analyzer, Syntax: f.syntax, WhyNot: f.whyNot, Budget: uint32(f.budget),
		Explain: f.explain || !c.JSON, // a person's snippets are cut by what matched
	}
	if len(q.Kinds) > 0 {
		k := pb.EntryKind(q.Kinds[0])
		m.Kind = &k
	}
	r, err := d.Recall(ctx, m)
	if err != nil {
		return nil, "", false // the files tell what is wrong
	}
	a, err = answerOf(q.Text, r, f.explain)
	return a, r.GetPath(), err == nil
}

// answerOf is the answer that went over the wire.
func answerOf(query string, r *pb.RecallReply, explain bool) (*recall.Answer, error) {
	a := &recall.Answer{Query: query, Total: int(r.GetTotal()), Searched: int(r.GetSearched()), Hits: make([]recall.Hit, len(r.GetHits()))}
	for i, m := range r.GetHits() {
		e := m.GetEntry()
		h := recall.Hit{
			ID: e.GetId(), Name: e.GetName(), Kind: crmem.Kind(e.GetKind()), CreatedAt: e.GetCreatedAt(), Snippet: m.Snippet,
			Aliases: append([]string{}, e.GetAliases()...), Score: m.GetScore(), Bytes: int(e.GetBytes()),
		}
		if h.Snippet == nil {
			h.Content = &e.Content
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
	return a, nil
}
