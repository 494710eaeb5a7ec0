package daemon

import (
	"context"
	"sync"
)

// names are locks, one for each name that anybody wants.
type names struct {
	mu   sync.Mutex
	held map[string]*name
}

type name struct {
	wanted int           // by how many: those that wait, and the one that has it
	turn   chan struct{} // has room for one
}

// lock waits for a name, until ctx ends.
func (n *names) lock(ctx context.Context, of string) (unlock func(), err error) {
	n.mu.Lock()
	if n.held == nil {
		n.held = make(map[string]*name)
	}
	l := n.held[of]
	if l == nil {
		l = &name{turn: make(chan struct{}, 1)}
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
