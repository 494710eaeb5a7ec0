package daemon

import (
	"context"
	"slices"

	"crabmem/crmem"
	"crabmem/daemon/config"
	"crabmem/daemon/op"
	"crabmem/daemon/secret/scan"
	"crabmem/daemon/space"
	"crabmem/sessionlog"
	"crabmem/sessionlog/search"
)

// onStore calls f with the store of the space that a request names, on which operations
// run.
func (d *Daemon) onStore(r *request, f func(op.Store) error) error {
	use := d.inSpace
	if r.Space == r.as.Space && r.as.Writes {
		use = d.writeSpace // creates it
	}
	sessions := func() ([]sessionlog.Info, error) { return d.readable(r.as.MayRead) }
	if r.as.Owner && r.Space != space.Main {
		sessions = nil // sessions of the home are of no other space
	}
	return use(r.Space, func(s *crmem.Store) error {
		return f(op.Store{
			Store: s, FS: d.fs, As: r.as, By: crmem.By(r.By), Guard: d.guardOf(r), Semantic: d.semantic, Messages: d.messagesFor(&r.as), Now: d.now, Sessions: sessions,
			NoHistory: d.setup().config.History == crmem.HistoryOff,
			Purged:    func() error { return d.forgetPurged(s, r.Space) },
		})
	})
}

// messagesFor returns a search in the messages of the sessions that an identity may read.
func (d *Daemon) messagesFor(as *op.Identity) op.MessageSearcher {
	return func(ctx context.Context, q search.Query) (*search.Result, error) {
		if !as.Owner {
			q.Created = as.MayRead
		}
		return d.searchIn(ctx, false, q)
	}
}

// readable lists the sessions that some identities created.
func (d *Daemon) readable(createdBy func(string) bool) ([]sessionlog.Info, error) {
	list, err := d.sessions.List()
	return slices.DeleteFunc(list, func(i sessionlog.Info) bool { return !createdBy(i.Meta.CreatedBy) }), err
}

// guardOf returns the guard of a request: each text that a client changes passes it once.
func (d *Daemon) guardOf(r *request) op.Guard {
	g := d.guard()
	log := g.Warn
	g.Warn = func(text string) {
		log(text)
		r.warnings = append(r.warnings, text)
	}
	g.Policy = func() (scan.Policy, error) { // as a command without a daemon reads it
		c, err := config.LoadStructure(d.fs, d.home, d.opts.Getenv)
		if err != nil {
			c = d.setup().config
		}
		return c.Secrets, nil
	}
	g.AllowSecrets, g.AllowEmpty = r.as.Owner && r.AllowSecrets, r.AllowEmpty
	if c := r.By.Client; r.as.Name == "" && (c == crmem.ClientCLI || c == crmem.ClientImport) {
		g.Fix = op.OwnerFix
	}
	return g
}
