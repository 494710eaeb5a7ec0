package daemon

import (
	"crabmem/crmem"
	"crabmem/daemon/errtable"
	"crabmem/daemon/op"
)

// identity returns what the current configuration permits to an identity.
func (d *Daemon) identity(name string) op.Identity {
	return op.IdentityOf(d.setup().config.Origins, name)
}

// identify records the identity that asks as the origin of changes.
func (r *request) identify() error {
	if len(r.as.Name) > crmem.MaxActorField {
		return errtable.Invalidf("as: %d bytes, want at most %d", len(r.as.Name), crmem.MaxActorField)
	}
	if r.as.Name != "" {
		r.By.Origin = r.as.Name
	}
	return nil
}
