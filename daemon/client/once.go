package client

import (
	"context"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/memtool"
	"crabmem/daemon/wire/pb"
)

type onceKey struct{}

// WithOnce returns a context for a request that may be repeated with a key of at most 255
// bytes. The changes of entries and spaces that the request makes have one effect: after
// that, their error has the kind repeated, and Client.Outcome returns what they did. sum is
// a digest of the request.
func WithOnce(ctx context.Context, key string, sum []byte) context.Context {
	return context.WithValue(ctx, onceKey{}, &pb.Once{Key: key, Sum: sum})
}

// Outcome is what a request did that may be repeated.
type Outcome struct {
	Begun bool // an earlier request with the key began, and its effect is unknown
	Done  bool
	Space string
	Entry *crmem.Entry // after the change; nil: the request removed it, or changed no entry
	Seq   uint64       // of the change; 0: unknown
	Time  time.Time    // of the change; zero: unknown
}

// Outcome returns what the request of ctx did, with the Client's identity. It waits while
// that runs.
func (c *Client) Outcome(ctx context.Context) (o Outcome, err error) {
	r, err := callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_Outcome{Outcome: &pb.OutcomeMsg{}}}, (*pb.ServerMessage).GetOutcome)
	if err != nil {
		return o, err
	}
	o = Outcome{Begun: r.GetBegun(), Done: r.GetDone(), Space: r.GetSpace(), Seq: r.GetSeq(), Time: timeOf(r.GetTime())}
	if r.GetEntry() != nil {
		e := memtool.Entry(r.GetEntry())
		o.Entry = &e
	}
	return o, nil
}
