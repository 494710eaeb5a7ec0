package daemon

import (
	"crabmem/crmem/fusion"
	"crabmem/daemon/op"
)

// semanticRequest returns how a search uses the embedding model.
func (d *Daemon) semanticRequest() *fusion.Request {
	if d.semantic == nil {
		return &fusion.Request{}
	}
	r := *d.semantic
	return &r
}

// noModel adds the remedy to a result that lacks a model.
func (d *Daemon) noModel(m *fusion.Meaning) {
	if m != nil && d.semantic == nil {
		m.Reason = op.NoModel
	}
}
