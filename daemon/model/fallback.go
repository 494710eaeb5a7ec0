package model

import (
	"cmp"
	"context"
	"errors"
	"iter"

	"crabmem/sessionlog"
)

// candidate is a model that may answer a request.
type candidate struct {
	name string
	Backend
}

// candidates returns the model of a request, and those it falls back to.
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
		if f := r.models[name]; f != nil && name != model {
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

// Send requests a complete response. The error is that of ctx if ctx ended,
// else an [Error] of the requested model.
func (r *Registry) Send(ctx context.Context, q Request) (*Response, error) {
	list, err := r.candidates(q.Model)
	if err != nil {
		return nil, err
	}
	var first error
	for i, c := range list {
		q.Model = c.name
		res, err := c.Send(ctx, q)
		if err == nil {
			r.spend(ctx, &q, meter{res.Usage, requestSize(&Request{Messages: []sessionlog.Message{res.Message}})}, nil)
			if i > 0 {
				res.Model = c.name
			}
			return res, nil
		}
		r.spend(ctx, &q, meter{}, err)
		first = cmp.Or(first, err)
		if q.Once || !fallsBack(ctx, err) {
			break
		}
	}
	return nil, first
}

// Stream requests a response in chunks. Errors are those of Send; an error ends
// the stream. A fallback model responds only if the first sent no chunk.
func (r *Registry) Stream(ctx context.Context, q Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		list, first := r.candidates(q.Model)
		for i, c := range list {
			q.Model = c.name
			begun, failed, m := false, error(nil), meter{}
			for chunk, err := range c.Stream(ctx, q) {
				if err != nil {
					failed = err
					break
				}
				if i > 0 && !begun {
					chunk.Model = c.name
				}
				begun = true
				m.add(&chunk)
				if !yield(chunk, nil) {
					r.spend(ctx, &q, m, nil)
					return
				}
			}
			if r.spend(ctx, &q, m, failed); failed == nil {
				return
			}
			if first == nil || begun {
				first = failed
			}
			if q.Once || begun || !fallsBack(ctx, failed) {
				break
			}
		}
		yield(Chunk{}, first)
	}
}

// fallsBack reports whether to try a fallback model after an error: a transient
// one, a time-out, or a used-up quota.
func fallsBack(ctx context.Context, err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Transient() || e.Timeout() || errors.Is(e, ErrQuota)) && ctx.Err() == nil
}
