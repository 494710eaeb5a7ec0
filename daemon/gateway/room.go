package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"crabmem/daemon/trust"
)

// room limits what requests occupy at a time, such as slots or bytes: those of all keys,
// those of each key, and those of all keys that are not trusted. So no key, and no group
// of untrusted keys, can occupy it alone. It is safe for concurrent use.
type room struct {
	most int64

	mu        sync.Mutex
	used      int64
	untrusted int64
	byKey     map[string]int64
	changed   chan struct{} // closed and replaced when something is given back
}

func newRoom(most int64) *room {
	return &room{most: most, byKey: make(map[string]int64), changed: make(chan struct{})}
}

// party is who occupies a room.
type party struct {
	key         string // its identity
	isUntrusted bool
}

// share returns how much of the room a party may occupy: a half, or an eighth.
func (r *room) share(p party) int64 {
	if p.isUntrusted {
		return max(1, r.most/8)
	}
	return max(1, r.most/2)
}

// take occupies n. If it returns false, full reports whether the room is full, and not
// only the share of the party.
func (r *room) take(p party, n int64) (ok, full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	full = r.used+n > r.most
	if full || r.byKey[p.key]+n > r.share(p) || p.isUntrusted && r.untrusted+n > max(1, r.most/2) {
		return false, full
	}
	r.add(p, n)
	return true, false
}

func (r *room) give(p party, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(p, -n)
	close(r.changed)
	r.changed = make(chan struct{})
}

// add changes what a party occupies. The caller holds mu.
func (r *room) add(p party, n int64) {
	r.used += n
	if p.isUntrusted {
		r.untrusted += n
	}
	if r.byKey[p.key] += n; r.byKey[p.key] == 0 {
		delete(r.byKey, p.key)
	}
}

// wait occupies n as soon as that is possible.
func (r *room) wait(ctx context.Context, p party, n int64) error {
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if ok, _ := r.take(p, n); ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *room) occupied() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// occupy takes n of a room for the call, or returns why not. what names it in the plural.
func (c *call) occupy(r *room, what string, n int64) (give func(), p *Problem) {
	by := c.party()
	ok, full := r.take(by, n)
	switch {
	case ok:
		return func() { r.give(by, n) }, nil
	case full:
		return nil, busy(what)
	}
	return nil, problemf(http.StatusTooManyRequests, what, "too many concurrent %s of the key", what).fix("wait until one of them ends").after(1)
}

// trustTime is how long the gateway uses the daemon's answer about a key.
const trustTime = time.Second

// trust returns the trust in the key, as the daemon said at most trustTime ago.
func (c *call) trust() (trust.Level, error) {
	t := c.daemon
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := c.g.o.Now(); t.level == "" || now.Sub(t.asked).Abs() > trustTime {
		ctx, cancel := context.WithTimeout(c.r.Context(), pingTime)
		defer cancel()
		d, err := t.Hello(ctx)
		if err != nil {
			return trust.Untrusted, err
		}
		t.level, t.asked = trust.Level(d.Trust), now
	}
	return t.level, nil
}

// party returns who makes the call. While the daemon does not answer, no key is trusted.
func (c *call) party() party {
	level, _ := c.trust()
	return party{c.key.Identity(), level == trust.Untrusted}
}
