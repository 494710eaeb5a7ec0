package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"crabmem/daemon/model/chat"
)

const (
	// After n earlier failures, the wait after a rate limit or a server error is
	// firstBackoff << n, at most topBackoff, plus a random part of up to half. So it
	// is at most 30 s.
	firstBackoff = time.Second
	topBackoff   = 20 * time.Second
	// shortBackoff replaces firstBackoff after other failures, such as a lost
	// connection.
	shortBackoff = 100 * time.Millisecond
	// shortRetries limits the retries after other failures, and all retries before a
	// fallback.
	shortRetries = 2
	// maxRetryAfter is the longest requested delay that is honored. After a
	// longer one the call fails; Error.RetryAfter has the delay.
	maxRetryAfter = 60 * time.Second
)

// Network is the connection to the providers. The zero value uses the machine's
// network and clock.
type Network struct {
	Transport http.RoundTripper
	// Wait waits for d. If ctx ends first, Wait returns its cause. If nil, a timer
	// waits.
	Wait func(ctx context.Context, d time.Duration) error
	// Jitter returns a duration from 0 to limit. If nil, the duration is random.
	Jitter func(limit time.Duration) time.Duration
}

// orDefault returns n with defaults in place of nil fields.
func (n Network) orDefault() Network {
	if n.Transport == nil {
		n.Transport = newTransport()
	}
	if n.Wait == nil {
		n.Wait = sleep
	}
	if n.Jitter == nil {
		n.Jitter = func(limit time.Duration) time.Duration { return rand.N(limit + 1) }
	}
	return n
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// retrying is one model of a provider.
type retrying struct {
	client  *chat.Client
	network *Network
	retries int
}

func (b *retrying) Send(ctx context.Context, r Request) (*Response, error) {
	end := time.Now().Add(stepTime)
	for n := 0; ; n++ {
		res, err := b.client.Send(ctx, r)
		if err == nil {
			return res, nil
		}
		if err := b.again(ctx, &r, end, n, err); err != nil {
			return nil, err
		}
	}
}

// Stream retries only before it yields the first chunk.
func (b *retrying) Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		end := time.Now().Add(stepTime)
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
				failed = b.again(ctx, &r, end, n, failed)
			}
			if failed != nil {
				yield(Chunk{}, failed)
				return
			}
		}
	}
}

// again waits before the next attempt, after n+1 failed ones. It returns the
// error if no attempt is left: the next one begins before end and r.Until. A model with a
// rate limit is not called again while another model follows.
func (b *retrying) again(ctx context.Context, r *Request, end time.Time, n int, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	e.Attempts = n + 1
	long := errors.Is(e, ErrRateLimit) || errors.Is(e, ErrServer)
	retries := b.retries
	if !long || r.Followed {
		retries = min(retries, shortRetries)
	}
	if r.Once || r.Followed && limited(e) || !e.Transient() || n >= retries || e.RetryAfter > maxRetryAfter {
		return err
	}
	wait := e.RetryAfter
	if wait == 0 {
		wait = b.backoff(n, long)
	}
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	if !r.Until.IsZero() && r.Until.Before(end) {
		end = r.Until
	}
	if time.Until(end) <= wait {
		return err // the attempt would be too late
	}
	in := ""
	if wait >= time.Second/2 {
		in = fmt.Sprintf(" in %.0f s", math.Ceil(wait.Seconds()))
	}
	r.Notice(fmt.Sprintf("%s; retrying%s (attempt %d of %d)", e.Cause(), in, n+2, retries+1))
	return b.network.Wait(ctx, wait)
}

// backoff returns the wait after n earlier failures. It doubles with each failure. A
// random part separates the attempts of concurrent calls.
func (b *retrying) backoff(n int, long bool) time.Duration {
	first := shortBackoff
	if long {
		first = firstBackoff
	}
	d := min(first<<n, topBackoff)
	return d + b.network.Jitter(d/2)
}
