package gateway

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

// once returns the function of a route that changes the memory: with an Idempotency-Key,
// f has one effect, and replay returns the response of an earlier request with the key.
func once(f func(*call) (any, error), replay func(*call, *op.Outcome) (any, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		return c.only(nil, func() (any, error) { return f(c) }, replay)
	}
}

// onceWith is once for a route whose body is a T.
func onceWith[T any](f func(*call, *T) (any, error), replay func(*call, *op.Outcome) (any, error)) func(*call) (any, error) {
	return with(func(c *call, in *T) (any, error) {
		return c.only(in, func() (any, error) { return f(c, in) }, replay)
	})
}

// only calls f, unless an earlier request with the Idempotency-Key had its effect.
func (c *call) only(in any, f func() (any, error), replay func(*call, *op.Outcome) (any, error)) (any, error) {
	if c.once == "" {
		return f()
	}
	sum, err := c.sumOf(in)
	if err != nil {
		return nil, err
	}
	c.r = c.r.WithContext(client.WithOnce(c.r.Context(), c.once, sum))
	for {
		o, err := op.ReadOutcome.Do(c.r.Context(), c.daemon, op.OnceKey{Key: c.once, Sum: sum})
		if err != nil {
			return nil, err
		}
		if o.Done {
			return replay(c, &o)
		}
		c.begun = o.Begun
		out, err := f()
		if !isKind(err, "repeated") {
			return out, err
		}
	}
}

// sumOf returns a digest of all that determines the effect of the request.
func (c *call) sumOf(in any) ([]byte, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	for _, part := range []string{c.r.Method, c.r.URL.Path, c.query.Encode(), strings.Join(c.r.Header.Values("If-Match"), ","), string(body)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return h.Sum(nil), nil
}

// gone is the refusal of a repeated request whose outcome is no longer known.
func gone() *Problem {
	return problemf(http.StatusConflict, "spent", "an earlier request has this key, and its outcome is no longer kept").fix("read the entries, then use another key")
}

// replayStored returns the memory as the request left it.
func (c *call) replayStored(o *op.Outcome) (any, error) {
	if o.Entry == nil {
		return nil, gone()
	}
	m := c.storedOf(o.Entry, c.text("view") == "full")
	if o.Seq != 0 {
		m.setVersion(o.Entry.ID, o.Seq, o.Time)
	}
	return m, nil
}

// replayStore returns the description of a memory store, unless it has changed since.
func (c *call) replayStore(o *op.Outcome) (any, error) {
	all, err := op.ListSpaces.Do(c.r.Context(), c.daemon, op.None{})
	if err != nil {
		return nil, err
	}
	for i := range all {
		if s := &all[i]; s.Name == o.Space && s.UpdatedAt.Equal(o.Time) {
			return c.storeOf(s), nil
		}
	}
	return nil, gone()
}
