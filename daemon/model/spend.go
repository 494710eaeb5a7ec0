package model

import (
	"context"
	"errors"
)

// meter measures a response.
type meter struct {
	usage *Usage
	size  int // bytes
}

func (m *meter) add(c *Chunk) {
	m.size += len(c.Content) + len(c.Reasoning)
	for i := range c.Calls {
		m.size += len(c.Calls[i].Name) + len(c.Calls[i].Arguments)
	}
	if c.Usage != nil {
		m.usage = c.Usage
	}
}

// spend calls Spent for a model call. A call that failed before the first byte counts
// only if the model may have worked on it.
func (r *Registry) spend(ctx context.Context, q *Request, m meter, err error) {
	e, _ := errors.AsType[*Error](err)
	if r.Spent == nil || m.size == 0 && err != nil && ctx.Err() == nil && (e == nil || !e.Timeout()) {
		return
	}
	if u := m.usage; u != nil && u.Prompt > 0 {
		r.Spent(ctx, q.Model, u.Prompt, u.Completion)
	} else {
		r.Spent(ctx, q.Model, requestSize(q)/bytesPerToken, m.size/bytesPerToken)
	}
}
