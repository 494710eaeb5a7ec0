package op

import (
	"context"
	"errors"
	"net/http"

	"crabmem/crmem/vfs"
	"crabmem/daemon/board"
	"crabmem/daemon/cortex"
	"crabmem/daemon/errtable"
)

// ProposalList are proposals of changes of notes.
type ProposalList struct {
	Proposals []cortex.Proposal `json:"proposals" jsonschema:"ascending by number"`
}

// ProposalAnswer accepts or rejects a proposal.
type ProposalAnswer struct {
	Number int  `json:"number"`
	Accept bool `json:"accept" jsonschema:"apply the change; false: reject it"`
}

// Answered is an answered proposal.
type Answered struct {
	cortex.Proposal
	Accepted bool `json:"accepted"`
}

var MakeProposals = Add(errtable.Store, Op[Store, None, ProposalList]{
	Name: "proposals.make", Does: "Propose changes of notes by rules, without a model.", Effect: Writes,
	Run: func(_ context.Context, s Store, _ *None) (out ProposalList, err error) {
		out.Proposals = []cortex.Proposal{}
		skip := func(name string) bool {
			_, task := board.Title(name)
			return task
		}
		return out, cortex.Change(s.files(), s.Path(), func(b *cortex.Book) error {
			list, err := b.Pass(s.Store, s.now(), skip)
			out.Proposals = append(out.Proposals, list...)
			return err
		})
	},
})

var ListProposals = Add(errtable.Store, Op[Store, None, ProposalList]{
	Name: "proposals.list", Does: "List the proposals without an answer.", Effect: Reads,
	Run: func(_ context.Context, s Store, _ *None) (ProposalList, error) {
		b, err := cortex.Read(s.files(), s.Path())
		if err != nil {
			return ProposalList{}, err
		}
		return ProposalList{append([]cortex.Proposal{}, b.Open(s.Store)...)}, nil
	},
	NoStore: func() ProposalList { return ProposalList{[]cortex.Proposal{}} },
})

var AnswerProposal = Add(errtable.Store, Op[Store, ProposalAnswer, Answered]{
	Name: "proposals.answer", Does: "Apply a proposal, or reject it.", Effect: Writes,
	Run: func(ctx context.Context, s Store, in *ProposalAnswer) (out Answered, err error) {
		out.Accepted = in.Accept
		err = cortex.Change(s.files(), s.Path(), func(b *cortex.Book) error {
			if out.Proposal, err = b.Find(in.Number); err != nil {
				return err
			}
			if !in.Accept {
				out.Name(s.Store)
			} else if _, err = s.Update(ctx, out.Ops); err != nil { // one batch; the answer follows
				return err
			}
			return b.Answer(in.Number, in.Accept, s.now())
		})
		return out, proposalError(err)
	},
})

// proposalError returns the error of an answer to a proposal.
func proposalError(err error) error {
	e := &errtable.Error{HTTP: http.StatusConflict, Kind: "conflict", Exit: errtable.ExitConflict, Err: err, Fix: "run crabmem cortex proposals to list the open proposals"}
	switch {
	case errors.Is(err, cortex.ErrNotFound):
		e.HTTP, e.Kind, e.Exit = http.StatusNotFound, "not_found", errtable.ExitNotFound
	case !errors.Is(err, cortex.ErrAnswered) && !errors.Is(err, cortex.ErrChanged):
		return err
	}
	e.Message = "answer proposal: " + err.Error()
	return e
}

// files returns the file system of the store.
func (s Store) files() vfs.FS {
	if s.FS == nil {
		return vfs.OS{}
	}
	return s.FS
}
