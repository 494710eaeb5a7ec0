package embed

import (
	"cmp"
	"context"
	"time"
)

// interval is the time between two calls of Save, and of Batch if nothing wakes it.
const interval = 30 * time.Second

// Background embeds texts in batches.
type Background struct {
	Batch  func(ctx context.Context) (left bool, err error) // embeds a batch, and reports whether texts are left
	Save   func()                                           // writes the vectors to a file
	Failed func(err error, retryAt time.Time)               // notes an error of Batch
	Wake   <-chan struct{}                                  // receives a value after new texts

	FirstRetry, LastRetry time.Duration // waits after errors; 0: 1 s and 5 min
}

// Run embeds texts until ctx ends. After an error it waits, for longer each time.
func (b *Background) Run(ctx context.Context) {
	first, last := cmp.Or(b.FirstRetry, time.Second), cmp.Or(b.LastRetry, 5*time.Minute)
	retry, saved := first, time.Now()
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
			retry = min(2*retry, last)
			b.Failed(err, time.Now().Add(wait))
		case left:
			retry = first
			continue
		}
		select {
		case <-wake:
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}
