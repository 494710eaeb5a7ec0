package session

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"

	"crabmem/daemon/errtable"
)

// Cancel ends the active run and reports whether there was one.
func (l *Session) Cancel(why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel == nil {
		return false
	}
	l.cancel(why)
	return true
}

// Active reports whether a run is active.
func (l *Session) Active() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cancel != nil
}

// dead reports whether the session was killed.
func (l *Session) dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.killed != nil
}

// kill marks the session as killed and cancels its run. It reports false if the
// session was killed before.
func (l *Session) kill(why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.killed != nil {
		return false
	}
	l.killed = why
	if l.cancel != nil {
		l.cancel(why)
	}
	return true
}

// Kill kills a session and reports false if it was killed before. It closes the
// file if no run holds the run slot; otherwise that run does.
func (m *Manager) Kill(l *Session) bool {
	if !l.kill(ErrKilled) {
		return false
	}
	m.asks.cancel(l.id)
	m.closeKilled(l)
	return true
}

// closeKilled closes the file of a killed session. If a run holds the run slot,
// that run closes it.
func (m *Manager) closeKilled(l *Session) {
	if !l.dead() || !l.slot.TryAcquire(1) {
		return
	}
	m.closeLog(l)
	l.slot.Release(1)
}

// closeLog closes the file of a killed session. The caller holds the run slot.
func (m *Manager) closeLog(l *Session) { m.close(l, l.log.Close) }

// close closes a session as closeLog does, but calls f to close the file.
func (m *Manager) close(l *Session, f func() error) {
	if l.closed {
		return
	}
	l.closed = true
	m.o.Forget(l.id)
	m.hold(l, nil)
	if err := f(); err != nil {
		m.o.Log.Warn("close session", "session", l.log.ID(), "error", err)
	}
	m.remove(l)
	close(l.done)
}

// Discard removes a session, and its file, if this process created it and it contains
// only the meta line. It does nothing while a run is active or waits.
func (m *Manager) Discard(l *Session) {
	if !l.idle() || !l.slot.TryAcquire(1) {
		return
	}
	if !l.unused || l.closed || !l.kill(errDiscarded) {
		m.release(l)
		return
	}
	m.asks.cancel(l.id)
	m.close(l, func() error {
		_, err := l.log.Discard()
		return err
	})
	l.slot.Release(1)
}

// justFound is how many of the most recently found sessions are never evicted:
// a request is about to use each.
const justFound = 64

// evictIdle unloads the least recently used histories over maxLoaded bytes, and
// closes the least recently used sessions over [limits] sessions. Their files
// stay.
func (m *Manager) evictIdle() {
	m.mu.Lock()
	n := len(m.byID)
	m.mu.Unlock()
	// The margin makes evictions rare.
	limit := m.o.Setup().Config.Limits.Sessions
	over := n > limit+limit/10
	if !over && m.loaded.Load() <= maxLoaded {
		return
	}
	list := m.List()
	slices.SortFunc(list, func(a, b *Session) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
	for _, l := range list {
		switch {
		case over && n > limit:
			if l.idle() && l.used.Load() < m.clock.Load()-justFound && l.kill(errEvicted) {
				m.closeKilled(l)
				n--
			}
		case m.loaded.Load() > maxLoaded/10*9:
			if l.bytes.Load() > 0 && l.slot.TryAcquire(1) {
				m.hold(l, nil)
				m.release(l)
			}
		default:
			return
		}
	}
}

// idle reports whether no run holds or awaits the run slot.
func (l *Session) idle() bool { return !l.Active() && l.waiting.Load() == 0 }

// WithIdle calls f for a session that is not loaded and that no request can
// load until f returns. It closes a loaded session without a run first, and
// returns an [*errtable.Error] if a run is active, or the session has or does open work.
func (m *Manager) WithIdle(ctx context.Context, id string, f func() error) error {
	unlock, err := m.stored.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	if m.o.InUse != nil {
		if err := m.o.InUse(id); err != nil {
			return err
		}
	}
	l, err := m.byLog(ctx, id)
	if err != nil {
		return err
	}
	if l != nil {
		if !l.slot.TryAcquire(1) {
			return &errtable.Error{HTTP: http.StatusConflict, Kind: "busy", Message: "session " + id + " has an active run", Fix: "wait for it to end, or cancel it"}
		}
		l.kill(ErrKilled)
		m.asks.cancel(l.id)
		m.closeLog(l)
		l.slot.Release(1)
	}
	if m.o.Rewrites != nil {
		m.o.Rewrites(id)
	}
	return f()
}

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
