package model

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"sync"
	"time"

	"crabmem/sessionlog"
)

const (
	// maxFallbacks limits the models that follow a model that failed.
	maxFallbacks = 3
	// stepTime limits the time in which the attempts of a call begin. With fallbacks it
	// also limits the time until the first byte.
	stepTime = 5 * time.Minute
	// maxCooldown limits the Retry-After that a cooldown honors.
	maxCooldown = 24 * time.Hour
)

// cooling contains the models that reached a rate limit. Registries that replace each
// other share it.
type cooling struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// add cools a model for d.
func (c *cooling) add(model string, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for name, until := range c.until { // the map contains no model that was removed long ago
		if !now.Before(until) {
			delete(c.until, name)
		}
	}
	c.until[model] = now.Add(d)
}

// sort moves the models that cool to the end.
func (c *cooling) sort(list []candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	rank := func(m candidate) int {
		if now.Before(c.until[m.name]) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return rank(a) - rank(b) })
}

// candidate is a model that may answer a request.
type candidate struct {
	name string
	Backend
}

// candidates returns the model of a request, and those that it falls back to. A fallback
// has no fallbacks, so that no call repeats a model.
func (r *Registry) candidates(model string) ([]candidate, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if model == "" {
		model = r.active
	}
	e := r.models[model]
	if e == nil {
		return nil, unknown(model)
	}
	list := []candidate{{model, e.Backend}}
	for _, name := range e.fallback {
		known := func(c candidate) bool { return c.name == name }
		if f := r.models[name]; f != nil && len(list) <= maxFallbacks && !slices.ContainsFunc(list, known) {
			list = append(list, candidate{name, f.Backend})
		}
	}
	return list, nil
}

// Check returns an error if the registry does not contain the model.
func (r *Registry) Check(model string) error {
	_, err := r.candidates(model)
	return err
}

// Fallback returns the first fallback of a model that the registry contains, or the model.
func (r *Registry) Fallback(model string) string {
	if list, err := r.candidates(model); err == nil && len(list) > 1 {
		return list[1].name
	}
	return model
}

// each calls a request's models, one after the other, until one responds or begins to.
// Models that cool come last. standIn is the name of a model that is not the requested
// one. The error is the requested model's, or that of the model that began.
func (r *Registry) each(ctx context.Context, q Request, call func(b Backend, q *Request, standIn string) (begun bool, err error)) error {
	list, err := r.candidates(q.Model)
	if err != nil {
		return err
	}
	requested, end := list[0].name, time.Now().Add(stepTime)
	if r.cooling.sort(list); q.Once {
		list = list[:1]
	}
	var failed error
	for i, c := range list {
		left := time.Until(end)
		if left <= 0 {
			break
		}
		q.Model, q.Followed = c.name, i < len(list)-1
		standIn := ""
		if c.name != requested {
			standIn = c.name
		}
		if len(list) > 1 { // a model that hangs leaves time for the others
			q.Until = time.Now().Add(left / time.Duration(len(list)-i))
		}
		begun, err := call(c, &q, standIn)
		if err == nil {
			return nil
		}
		r.cool(c.name, err)
		if failed == nil || begun || standIn == "" {
			failed = err
		}
		if begun || !fallsBack(ctx, err) {
			break
		}
	}
	return failed
}

// cool begins the cooldown of a model that reached a rate limit.
func (r *Registry) cool(model string, err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok || r.Cooldown <= 0 || !limited(e) {
		return
	}
	d := r.Cooldown
	if e.RetryAfter > 0 {
		d = min(e.RetryAfter, maxCooldown)
	}
	r.cooling.add(model, d)
}

// limited reports whether a provider refuses further calls of a model for a while.
func limited(e *Error) bool {
	return errors.Is(e, ErrRateLimit) || e.Status == http.StatusTooManyRequests
}

// Send requests a complete response. The error is that of ctx if ctx ended,
// else an [Error] of the requested model.
func (r *Registry) Send(ctx context.Context, q Request) (res *Response, err error) {
	err = r.each(ctx, q, func(b Backend, q *Request, standIn string) (bool, error) {
		var err error
		if res, err = b.Send(ctx, *q); err != nil {
			r.spend(ctx, q, meter{}, err)
			return false, err
		}
		r.spend(ctx, q, meter{res.Usage, requestSize(&Request{Messages: []sessionlog.Message{res.Message}})}, nil)
		if standIn != "" {
			res.Model = standIn
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// Stream requests a response in chunks. Errors are those of Send; an error ends
// the stream. A fallback model responds only if the models before it sent no chunk.
func (r *Registry) Stream(ctx context.Context, q Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		err := r.each(ctx, q, func(b Backend, q *Request, standIn string) (begun bool, failed error) {
			var m meter
			for chunk, err := range b.Stream(ctx, *q) {
				if failed = err; err != nil {
					break
				}
				if !begun && standIn != "" {
					chunk.Model = standIn
				}
				begun = true
				m.add(&chunk)
				if !yield(chunk, nil) {
					break
				}
			}
			r.spend(ctx, q, m, failed)
			return begun, failed
		})
		if err != nil {
			yield(Chunk{}, err)
		}
	}
}

// fallsBack reports whether to try a fallback model after an error: a transient
// one, a time-out, or a used-up quota.
func fallsBack(ctx context.Context, err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Transient() || e.Timeout() || errors.Is(e, ErrQuota)) && ctx.Err() == nil
}
