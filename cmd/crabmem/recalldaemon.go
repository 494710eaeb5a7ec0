package main

import (
	"context"
	"errors"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/recall"
)

// recallWait is how long a daemon may take to say who it is before the files
// are read instead.
const recallWait = 500 * time.Millisecond

// recallFromDaemon has the daemon, which has the index, search the store. It
// returns false if no daemon that has the store open responds.
func (c *app) recallFromDaemon(ctx context.Context, q crmem.Query, o recall.Options) (a *recall.Answer, path string, ok bool) {
	hello, cancel := context.WithTimeout(ctx, recallWait)
	defer cancel()
	d, h, err := c.running(hello)
	if err != nil {
		if stopped := c.stoppedDaemon(); stopped != nil && errors.Is(err, context.DeadlineExceeded) {
			c.warnFailure(stopped)
		}
		return nil, "", false
	}
	defer d.Close()
	if !c.servesStore(h) {
		return nil, "", false
	}
	a, path, err = d.Search(ctx, q, o)
	return a, path, err == nil // the files tell the reason
}
