package gateway

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// keyWait is the time before a wrong key is refused.
const keyWait = 200 * time.Millisecond

// authenticate finds the key of the request, and takes a token of its rate.
func (c *call) authenticate() *Problem {
	for name := range c.r.URL.Query() {
		switch strings.ToLower(name) {
		case "key", "api_key", "apikey", "token", "access_token":
			return invalidf("a URL must not contain a key: it is in logs and histories").fix("send the header Authorization: Bearer KEY, and replace the key")
		}
	}
	h := c.r.Header
	if c.route != nil && strings.HasPrefix(c.route.path, hookPath) {
		h = h.Clone()
		h["X-Api-Key"] = slices.Concat(h.Values("X-Api-Key"), h.Values("X-Webhook-Token"))
	}
	text, p := keyOf(h)
	if p != nil {
		return p
	}
	if p := c.identify(text); p != nil {
		return p
	}
	return c.spend()
}

// identify sets the key of the request to the one with a text.
func (c *call) identify(text string) *Problem {
	k, err := c.g.keys.find(text)
	if err != nil {
		c.g.o.Log.Error("read keys", "error", err)
		return problemf(http.StatusServiceUnavailable, "keys", "the keys cannot be read").fix("the log of the gateway has the cause").after(1)
	}
	if k == nil {
		select {
		case <-time.After(keyWait):
		case <-c.r.Context().Done():
		}
		return problemf(http.StatusUnauthorized, "key", "unknown key").fix("run crabmem gateway key add NAME on the machine of the gateway")
	}
	if k.Expired(c.g.o.Now()) {
		return problemf(http.StatusUnauthorized, "expired", "the key has expired").fix("run crabmem gateway key add NAME on the machine of the gateway")
	}
	c.key, c.daemon = k, c.g.clients.of(k.Identity())
	return nil
}

// spend takes a token of the rate of the key.
func (c *call) spend() *Problem {
	if wait := delayOf(c.daemon.limiter, c.g.o.Now()); wait > 0 {
		return problemf(http.StatusTooManyRequests, "rate", "too many requests with this key").fix("send at most %v requests per second", c.g.o.Config.Limits.Rate).after(1 + int(wait/time.Second))
	}
	return nil
}

// delayOf takes a token of a limiter, or returns after which time it has one.
func delayOf(l *rate.Limiter, now time.Time) time.Duration {
	r := l.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

// keyOf returns the key of a request: exactly one, in one header.
func keyOf(h http.Header) (string, *Problem) {
	bearer, plain := h.Values("Authorization"), h.Values("X-Api-Key")
	missing := problemf(http.StatusUnauthorized, "no_key", "the request needs exactly one key").fix("send the header Authorization: Bearer KEY, or X-Api-Key: KEY")
	switch {
	case len(bearer)+len(plain) != 1:
		return "", missing
	case len(plain) == 1:
		return plain[0], nil
	}
	scheme, text, _ := strings.Cut(bearer[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", missing
	}
	return strings.TrimSpace(text), nil
}
