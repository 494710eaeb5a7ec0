package daemon

import (
	"slices"

	"crabmem/bm25/analysis"
	"crabmem/crmem"
	"crabmem/crmem/fusion"
	"crabmem/crmem/recall"
	"crabmem/daemon/errtable"
	"crabmem/daemon/memtool"
	"crabmem/daemon/wire/pb"
)

func (d opened) recall(r *request, m *pb.RecallMsg) error {
	q := crmem.Query{Text: m.GetQuery(), Limit: int(min(m.GetLimit(), 1<<30)), Syntax: m.GetSyntax()}
	var err error
	if q.Kinds, err = kinds(m.Kind); err != nil {
		return err
	}
	if m.GetAnalyzer() != "" {
		if q.Analyzer, err = analysis.ParseAnalyzer(m.GetAnalyzer()); err != nil {
			return errtable.Invalidf("analyzer: %v", err)
		}
	}
	if err := memtool.ReadFilter(&q, m); err != nil {
		return err
	}
	if m.GetSemantic() {
		q.Semantic = d.semanticRequest()
	}
	a, err := recall.Search(r.ctx, d.store, q, recall.Options{Explain: m.GetExplain(), WhyNot: m.GetWhyNot(), Budget: int(min(m.GetBudget(), 1<<30))})
	if err != nil {
		return err
	}
	d.noModel(a.Meaning)
	reply := &pb.RecallReply{Total: uint64(a.Total), Searched: uint64(a.Searched), Path: d.store.Path()}
	for _, c := range a.Corrections {
		reply.Corrections = append(reply.Corrections, &pb.Correction{Word: c.Word, Words: c.Words, Kind: c.Kind, Weight: c.Weight})
	}
	if b := a.Budgeted; b != nil {
		reply.Budget = &pb.BudgetUse{Budget: uint32(b.Budget), Tokens: uint32(b.Tokens), Encoding: b.Encoding, Estimated: b.Estimated, LeftOut: uint32(b.LeftOut)}
	}
	if a.WhyNot != nil {
		if reply.WhyNot, err = encode(a.WhyNot); err != nil {
			return err
		}
	}
	if a.Meaning != nil {
		if reply.Meaning, err = encode(a.Meaning); err != nil {
			return err
		}
	}
	hits := make([]*pb.RecallHit, len(a.Hits))
	for i := range a.Hits {
		if hits[i], err = hitOf(&a.Hits[i]); err != nil {
			return err
		}
	}
	for part, more := range parts(slices.Values(hits)) {
		reply.Hits, reply.More = part, more
		if err := r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Recalled{Recalled: reply}}); err != nil {
			return err
		}
		reply = &pb.RecallReply{}
	}
	return nil
}

func hitOf(h *recall.Hit) (*pb.RecallHit, error) {
	m := &pb.RecallHit{Score: h.Score, Snippet: h.Snippet, Entry: &pb.Entry{
		Id: h.ID, Name: h.Name, Kind: pb.EntryKind(h.Kind), CreatedAt: h.CreatedAt, Aliases: h.Aliases, Bytes: uint64(h.Bytes)}}
	if h.Content != nil {
		m.Entry.Content = *h.Content
	}
	if h.Tokens != nil {
		n := uint32(*h.Tokens)
		m.Tokens = &n
	}
	var err error
	if h.Explain != nil {
		m.Explain, err = encode(h.Explain)
	}
	if h.Marks != nil && err == nil {
		m.Marks, err = encode(h.Marks)
	}
	return m, err
}

// semanticRequest returns how a search uses the embedding model.
func (d *Daemon) semanticRequest() *fusion.Request {
	if d.semantic == nil {
		return &fusion.Request{}
	}
	r := *d.semantic
	return &r
}

// noModel adds the remedy to a result that lacks a model.
func (d *Daemon) noModel(m *fusion.Meaning) {
	if m != nil && d.semantic == nil {
		m.Reason = "the daemon has no embedding model: check [embedder] in config.toml, then run crabmem daemon restart"
	}
}
