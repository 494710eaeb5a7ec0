package daemon

import (
	"context"
	"fmt"
	"net/http"

	"crabmem/crmem"
	"crabmem/crmem/recall"
	"crabmem/daemon/errtable"
	"crabmem/daemon/memtool"
	"crabmem/daemon/space"
	"crabmem/daemon/tool"
)

// inSpace calls f with the store of a space.
func (d *Daemon) inSpace(name string, f func(*crmem.Store) error) error {
	if name != space.Main {
		return &errtable.Error{Kind: "not_found", HTTP: http.StatusNotFound, Exit: errtable.ExitNotFound, Err: crmem.ErrNoStore,
			Message: fmt.Sprintf("space %q does not exist", name), Fix: "name the space main in the configuration"}
	}
	return f(d.store)
}

// spacesOf returns the spaces of an agent: the one that it writes, and then those
// that it only reads.
func (d *Daemon) spacesOf(string) []string { return []string{space.Main} }

// recallSpaces searches the spaces that a scope permits to an agent. The hits of
// several spaces are in the order of their ranks, because scores of different
// spaces do not compare. It returns the space of each hit.
func (d *Daemon) recallSpaces(ctx context.Context, scope tool.Scope, agent string, q crmem.Query) (*recall.Answer, []string, error) {
	spaces, err := scope.ReadSpaces(d.spacesOf(agent))
	if err != nil {
		return nil, nil, err
	}
	var found []memtool.Found
	for _, name := range spaces {
		err := d.inSpace(name, func(s *crmem.Store) error {
			a, err := recall.Search(ctx, s, q, recall.Options{Weights: true})
			found = append(found, memtool.Found{Space: name, Answer: a})
			return err
		})
		if err != nil {
			return nil, nil, err
		}
	}
	a, of := memtool.MergeSpaces(found, q.Limit)
	return a, of, nil
}
