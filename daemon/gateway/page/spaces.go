package page

import (
	"sync"

	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/daemon/wire"
)

// spaceLabel is a space as people read it.
type spaceLabel struct{ Name, Owner string }

// stores are the clients of the daemon by the space that they use.
type stores struct {
	addr wire.Addr

	mu     sync.Mutex
	byKind map[storeKind]*client.Client
}

// storeKind is a space, and whether its texts are written without checks.
type storeKind struct {
	space string
	exact bool
}

// of returns the client of a kind.
func (s *stores) of(k storeKind) *client.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byKind[k]
	if c == nil {
		c = &client.Client{Addr: s.addr, Header: op.Header{By: crmem.Actor{Client: "page"}, Space: k.space, AllowSecrets: k.exact, AllowEmpty: k.exact}}
		s.byKind[k] = c
	}
	return c
}

func (s *stores) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.byKind {
		_ = c.Close() // the page sends nothing more
	}
}

// use makes a space that of the request, and of the browser. A form contains the space of
// its page: another tab may have chosen another one.
func (v *visit) use(name string) error {
	label := name
	name = space.Named(v.p.o.FS, v.p.o.Home, label)
	if err := space.Exists(v.p.o.FS, v.p.o.Home, name); err != nil {
		return space.Relabel(err, name, label)
	}
	v.space = name
	v.p.browsers.setSpace(v.browser, name)
	return nil
}

// store returns the client for the space of the request.
func (v *visit) store() *client.Client { return v.p.stores.of(storeKind{space: v.space}) }

// exactStore returns a client that writes the texts of an earlier version as they were.
func (v *visit) exactStore() *client.Client { return v.p.stores.of(storeKind{v.space, true}) }

// chooseSpace changes the space of the browser.
func (v *visit) chooseSpace() error {
	if err := v.use(v.r.PostForm.Get("choice")); err != nil {
		return err
	}
	return v.see("/ui/memories")
}
