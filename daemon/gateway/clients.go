package gateway

import (
	"sync"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
	"crabmem/daemon/trust"
	"crabmem/daemon/wire"

	"golang.org/x/time/rate"
)

// clients has, for each key, its client of the daemon and what it occupies.
type clients struct {
	addr   wire.Addr
	limits *Limits

	mu   sync.Mutex
	byID map[string]*tenant
}

// tenant is an identity with a key. Its client uses the space of the identity.
type tenant struct {
	*client.Client
	limiter       *rate.Limiter
	untrusted     *rate.Limiter // of runs, if the identity is not trusted
	streams, runs slots

	mu    sync.Mutex
	level trust.Level // as the daemon said when asked; empty: it has not
	asked time.Time
}

// of returns the tenant of an identity. Each has a key, so they are few.
func (c *clients) of(id string) *tenant {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.byID[id]
	if t == nil {
		t = &tenant{
			Client: &client.Client{Addr: c.addr, Header: op.Header{As: id, By: crmem.Actor{Client: crmem.ClientHTTP}}}, limiter: rate.NewLimiter(rate.Limit(c.limits.Rate), c.limits.Burst),
			untrusted: rate.NewLimiter(rate.Every(time.Minute/time.Duration(c.limits.UntrustedRuns)), c.limits.UntrustedRuns),
			streams:   newSlots(c.limits.StreamsPerKey), runs: newSlots(c.limits.RunsPerKey),
		}
		c.byID[id] = t
	}
	return t
}

func (c *clients) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.byID {
		_ = t.Close()
	}
}
