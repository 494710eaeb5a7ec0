package client

import (
	"context"

	"crabmem/crmem"
	"crabmem/daemon/op"
)

// update has the daemon apply the operations of plan, on condition that the
// entries that they change are as the files have them.
func (s *store) update(ctx context.Context, d *Client, plan func(*crmem.Store) ([]crmem.Op, error)) ([]crmem.Entry, error) {
	var ops []crmem.Op
	err := s.Read(func(v *crmem.Store) error {
		changes, err := plan(v)
		for i := 0; i < len(changes) && err == nil; i++ {
			err = changes[i].Validate()
		}
		if err == nil && len(changes) > 0 {
			ops = append(op.Conditions(v, changes), changes...)
		}
		return err
	})
	if err != nil || len(ops) == 0 {
		return nil, err
	}
	return op.ApplyOps(ctx, d, ops...)
}
