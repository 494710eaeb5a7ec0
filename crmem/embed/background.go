package embed

import (
	"context"
	"time"
)

// interval is the time between two calls of Save, and of Batch if nothing wakes it.
const interval = 30 * time.Second

// Waits after errors.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
)

// Background embeds texts in batches.
type Background struct {
	Batch  func(ctx context.Context) (left bool, err error) // embeds a batch, and reports whether texts are left
	Save   func()                                           // writes the vectors to a file
	Failed func(err error, retryAt time.Time)               // notes an error of Batch
	Wake   <-chan struct{}                                  // receives a value after new texts
}

// Run embeds texts until ctx ends. After an error it waits, for longer each time.
func (b *Background) Run(ctx context.Context) {
	retry, saved := firstRetry, time.Now()
	for ctx.Err() == nil {
		left, err := b.Batch(ctx)
		if time.Since(saved) >= interval {
			b.Save()
			saved = time.Now()
		}
		wait, wake := interval, b.Wake
		switch {
		case err != nil:
			wait, wake = retry, nil
			retry = min(2*retry, lastRetry)
			b.Failed(err, time.Now().Add(wait))
		case left:
			retry = firstRetry
			continue
		}
		select {
		case <-wake:
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}
