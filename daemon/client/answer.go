package client

import (
	"context"
	"errors"
	"iter"

	"crabmem/daemon/wire/pb"
)

// one asks for an answer of one message and returns what is in it.
func one[T any](ctx context.Context, c *Client, m *pb.ClientMessage, get func(*pb.ServerMessage) *T) (*T, error) {
	r, err := c.Request(ctx, m)
	if err != nil {
		return nil, err
	}
	if v := get(r); v != nil {
		return v, nil
	}
	return nil, &UnexpectedError{r}
}

// ours is one for an operation that other daemons do not have.
func ours[T any](ctx context.Context, c *Client, m *pb.ClientMessage, get func(*pb.ServerMessage) *T) (*T, error) {
	if err := c.agree(ctx); err != nil {
		return nil, err
	}
	return one(ctx, c, m, get)
}

// parts asks for an answer that comes in parts, an operation of ours.
func parts[T any, P interface {
	*T
	GetMore() bool
}](ctx context.Context, c *Client, m *pb.ClientMessage, get func(*pb.ServerMessage) P) iter.Seq2[P, error] {
	return func(yield func(P, error) bool) {
		if err := c.agree(ctx); err != nil {
			yield(nil, err)
			return
		}
		for r, err := range c.RequestStream(ctx, m, func(r *pb.ServerMessage) bool { return !get(r).GetMore() }) {
			if err != nil {
				yield(nil, err)
				return
			}
			p := get(r)
			if p == nil {
				yield(nil, &UnexpectedError{r})
				return
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

// long asks for something that tells how far it is.
func long[T any](ctx context.Context, c *Client, m *pb.ClientMessage, progress func(*pb.Progress), get func(*pb.ServerMessage) *T) (*T, error) {
	if err := c.agree(ctx); err != nil {
		return nil, err
	}
	for r, err := range c.RequestStream(ctx, m, func(r *pb.ServerMessage) bool { return r.GetProgress() == nil }) {
		if err != nil {
			return nil, err
		}
		if p := r.GetProgress(); p != nil {
			if progress != nil {
				progress(p)
			}
			continue
		}
		if v := get(r); v != nil {
			return v, nil
		}
		return nil, &UnexpectedError{r}
	}
	return nil, errors.New("unexpected response: no end")
}

// agree asks, once, whether the daemon has our operations as we know them.
func (c *Client) agree(ctx context.Context) error {
	c.mu.Lock()
	agreed := c.agreed
	c.mu.Unlock()
	if agreed {
		return nil
	}
	_, err := c.Hello(ctx)
	return err
}
