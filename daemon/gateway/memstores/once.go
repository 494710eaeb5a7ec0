package memstores

import (
	"net/http"

	"crabmem/daemon/client"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
)

// once returns the function of a route that changes the memory: with an Idempotency-Key,
// f has one effect, and replay returns the response of an earlier request with the key.
func once(f func(*Request) (any, error), replay func(*Request, *op.Outcome) (any, error)) func(*Request) (any, error) {
	return func(r *Request) (any, error) {
		return r.only(nil, func() (any, error) { return f(r) }, replay)
	}
}

// onceWith is once for a route whose body is a T.
func onceWith[T any](f func(*Request, *T) (any, error), replay func(*Request, *op.Outcome) (any, error)) func(*Request) (any, error) {
	return func(r *Request) (any, error) {
		in := new(T)
		if err := r.Decode(in); err != nil {
			return nil, err
		}
		return r.only(in, func() (any, error) { return f(r, in) }, replay)
	}
}

// only calls f, unless an earlier request with the Idempotency-Key had its effect.
func (r *Request) only(in any, f func() (any, error), replay func(*Request, *op.Outcome) (any, error)) (any, error) {
	if r.Once == "" {
		return f()
	}
	sum, err := r.Sum(in)
	if err != nil {
		return nil, err
	}
	r.Request = r.WithContext(client.WithOnce(r.Context(), r.Once, sum))
	for {
		o, err := op.ReadOutcome.Do(r.Context(), r.Daemon, op.OnceKey{Key: r.Once, Sum: sum})
		if err != nil {
			return nil, err
		}
		if o.Done {
			return replay(r, &o)
		}
		r.begun = o.Begun
		out, err := f()
		if !client.IsKind(err, "repeated") {
			return out, err
		}
	}
}

// gone is the refusal of a repeated request whose outcome is no longer known.
func gone() *errtable.Error {
	return refuse(http.StatusConflict, "spent", "read the entries, then use another key", "an earlier request has this key, and its outcome is no longer kept")
}

// replayStored returns the memory as the request left it.
func (r *Request) replayStored(o *op.Outcome) (any, error) {
	if o.Entry == nil {
		return nil, gone()
	}
	m := r.storedOf(o.Entry, r.text("view") == "full")
	if o.Seq != 0 {
		m.setVersion(o.Entry.ID, o.Seq, o.Time)
	}
	return m, nil
}

// replayStore returns the description of a memory store, unless it has changed since.
func (r *Request) replayStore(o *op.Outcome) (any, error) {
	all, err := op.ListSpaces.Do(r.Context(), r.Daemon, op.None{})
	if err != nil {
		return nil, err
	}
	for i := range all {
		if s := &all[i]; s.Name == o.Space && s.UpdatedAt.Equal(o.Time) {
			return r.storeOf(s), nil
		}
	}
	return nil, gone()
}
