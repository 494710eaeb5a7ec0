package session

import (
	"context"
	"sync"
)

// nameLocks are locks by name.
type nameLocks struct {
	mu   sync.Mutex
	held map[string]*nameLock
}

type nameLock struct {
	wanted int           // waiters and the holder
	turn   chan struct{} // capacity 1; full while the lock is held
}

// lock waits for the lock of a name until ctx ends.
func (n *nameLocks) lock(ctx context.Context, of string) (unlock func(), err error) {
	n.mu.Lock()
	if n.held == nil {
		n.held = make(map[string]*nameLock)
	}
	l := n.held[of]
	if l == nil {
		l = &nameLock{turn: make(chan struct{}, 1)}
		n.held[of] = l
	}
	l.wanted++
	n.mu.Unlock()
	leave := func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if l.wanted--; l.wanted == 0 {
			delete(n.held, of)
		}
	}
	select {
	case l.turn <- struct{}{}:
		return func() {
			<-l.turn
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
