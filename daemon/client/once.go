package client

import (
	"context"

	"crabmem/daemon/op"
)

type onceKey struct{}

// WithOnce returns a context for a request that may be repeated with a key of at most 255
// bytes. The changes of entries and spaces that the request makes have one effect: after
// that, their error has the kind repeated, and [op.ReadOutcome] returns what they did. sum is
// a digest of the request.
func WithOnce(ctx context.Context, key string, sum []byte) context.Context {
	return context.WithValue(ctx, onceKey{}, &op.OnceKey{Key: key, Sum: sum})
}
