package client

import (
	"context"

	"crabmem/daemon/op"
	"crabmem/daemon/wire/pb"
)

// Call carries out an operation in the daemon. It is a method of [op.Caller].
func (c *Client) Call(ctx context.Context, row *op.Row, in, out any, part func() error) error {
	if err := c.agree(ctx); err != nil {
		return err
	}
	if t, ok := in.(*op.TreeLoad); ok {
		return inTree(t, out.(*op.LoadPart), part, func(part func() error) error { return c.call(ctx, row, in, out, part) })
	}
	return c.call(ctx, row, in, out, part)
}

// unagreed carries out operations of a daemon whose version is not known.
type unagreed struct{ *Client }

func (u unagreed) Call(ctx context.Context, row *op.Row, in, out any, part func() error) error {
	return u.call(ctx, row, in, out, part)
}

func (c *Client) call(ctx context.Context, row *op.Row, in, out any, part func() error) error {
	h := c.Header
	h.Once, _ = ctx.Value(onceKey{}).(*op.OnceKey)
	head, err := op.Encode(h)
	if err != nil {
		return err
	}
	request, err := op.Encode(in)
	if err != nil {
		return err
	}
	m := &pb.ClientMessage{Msg: &pb.ClientMessage_Call{Call: &pb.Call{Op: row.Name, Head: head, Body: request}}}
	var body []byte // of the part that is incomplete
	for r, err := range c.requestStream(ctx, m, func(r *pb.ServerMessage) bool { return !r.GetResult().GetMore() }) {
		result := r.GetResult()
		if err == nil && result == nil {
			err = &unexpectedError{r}
		}
		if err != nil && (row.Effect == op.Writes || row.Effect == op.Erases) {
			return OutcomeUnknown(err)
		}
		if err != nil || row.Parts && !result.GetMore() {
			return err
		}
		if body = append(body, result.GetBody()...); result.GetPartial() {
			continue
		}
		if err := op.Decode(body, out); err != nil {
			return err
		}
		if err := part(); err != nil {
			return err
		}
		body = nil
	}
	return nil
}

// agree asks, once, whether the daemon has our operations as we know them.
func (c *Client) agree(ctx context.Context) error {
	if c.agreed.Load() {
		return nil
	}
	_, err := c.Hello(ctx)
	return err
}

type onceKey struct{}

// WithOnce returns a context for a request that may be repeated with a key of at most 255
// bytes. The changes of entries and spaces that the request makes have one effect: after
// that, their error has the kind repeated, and [op.ReadOutcome] returns what they did. sum is
// a digest of the request.
func WithOnce(ctx context.Context, key string, sum []byte) context.Context {
	return context.WithValue(ctx, onceKey{}, &op.OnceKey{Key: key, Sum: sum})
}
