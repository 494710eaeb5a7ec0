package model

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"crabmem/daemon/model/chat"
)

const (
	firstBackoff = 100 * time.Millisecond
	// maxRetryAfter is the longest requested delay that is honored. After a
	// longer one the call fails; Error.RetryAfter has the delay.
	maxRetryAfter = 60 * time.Second
)

// retrying is one model of a provider.
type retrying struct {
	client  *chat.Client
	retries int
}

func (b *retrying) Send(ctx context.Context, r Request) (*Response, error) {
	for n := 0; ; n++ {
		res, err := b.client.Send(ctx, r)
		if err == nil {
			return res, nil
		}
		if err := b.again(ctx, n, err); err != nil {
			return nil, err
		}
	}
}

// Stream retries only before it yields the first chunk.
func (b *retrying) Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		for n := 0; ; n++ {
			begun, failed := false, error(nil)
			for chunk, err := range b.client.Stream(ctx, r) {
				if err != nil {
					failed = err
					break
				}
				begun = true
				if !yield(chunk, nil) {
					return
				}
			}
			if failed == nil {
				return
			}
			if !begun {
				failed = b.again(ctx, n, failed)
			}
			if failed != nil {
				yield(Chunk{}, failed)
				return
			}
		}
	}
}

// again waits before the next attempt, after n+1 failed ones. It returns the
// error if no attempt is left.
func (b *retrying) again(ctx context.Context, n int, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	e.Attempts = n + 1
	if !e.Transient() || n >= b.retries || e.RetryAfter > maxRetryAfter {
		return err
	}
	wait := backoff(n)
	if e.RetryAfter > 0 {
		wait = e.RetryAfter
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return err // it would not be there to be made
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// backoff doubles from 100 ms. It is a random value in its upper half, so that
// concurrent failures are not retried together.
func backoff(n int) time.Duration {
	b := firstBackoff << n
	return b/2 + rand.N(b/2+1)
}
