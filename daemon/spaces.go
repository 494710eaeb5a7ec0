package daemon

import (
	"context"
	"slices"

	"crabmem/crmem"
	"crabmem/crmem/recall"
	"crabmem/daemon/config"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/daemon/tool"
)

// maxOpenSpaces limits the spaces that are open at a time, without main.
const maxOpenSpaces = 64

// newSpaces returns the spaces of the home. open opens a store for writing.
func (d *Daemon) newSpaces(open func(file string) (*crmem.Store, error)) *space.Set {
	return space.NewSet(space.Options{
		FS: d.fs, Home: d.home, Main: d.store, Open: open, MaxOpen: maxOpenSpaces,
		Max: func() int { return d.setup().config.MaxSpaces },
	})
}

// inSpace calls f with the store of a space that it reads.
func (d *Daemon) inSpace(name string, f func(*crmem.Store) error) error {
	if space.IsOfWorkspace(name) {
		return d.useWorkspace(name, false, f)
	}
	return d.spaces.Use(name, false, f)
}

// writeSpace calls f with the store of a space that it writes.
func (d *Daemon) writeSpace(name string, f func(*crmem.Store) error) error {
	if space.IsOfWorkspace(name) {
		return d.useWorkspace(name, true, f)
	}
	return d.spaces.Use(name, true, f)
}

// spacesOf returns the spaces of an agent: the one that it writes, and then those
// that it only reads. In a workspace with a store, that is its only space.
func (d *Daemon) spacesOf(workspace, agent string) []string {
	if name := d.storeOf(workspace); name != "" {
		return []string{name}
	}
	a, _ := d.setupIn(workspace).config.Agent(agent)
	return a.Spaces()
}

// missingSpaces returns the spaces that a configuration names and that do not exist.
func (d *Daemon) missingSpaces(c *config.Config) []string {
	var want []string
	for _, a := range c.Agents {
		want = append(want, a.Spaces()...)
	}
	for _, r := range c.Origins {
		want = append(want, r.Reads...)
		if r.Space != "" {
			want = append(want, r.Space)
		}
	}
	slices.Sort(want)
	exist, err := space.Names(d.fs, d.home)
	if err != nil {
		d.log.Warn("spaces", "error", err)
	}
	return slices.DeleteFunc(slices.Compact(want), func(name string) bool {
		return slices.Contains(exist, name) || space.IsOfSender(name) // the first write of a sender creates its space
	})
}

// recallSpaces searches the spaces that the scope of a call permits to its agent. The hits
// of several spaces are in the order of their ranks, because scores of different
// spaces do not compare. Messages are of the sessions that session_search searches.
func (d *Daemon) recallSpaces(ctx context.Context, c tool.Call, q op.Question) (*recall.Answer, error) {
	spaces, err := c.Scope.ReadSpaces(d.spacesOf(c.Workspace, c.Agent))
	if err != nil {
		return nil, err
	}
	var found []*recall.Answer
	both := q.In == op.InBoth
	if both {
		q.In = op.InNotes
	} else if q.In == op.InSessions {
		spaces = nil
	}
	for _, name := range spaces {
		err := d.inSpace(name, func(s *crmem.Store) error {
			a, err := op.Recall.Do(ctx, op.Store{Store: s, Semantic: d.semantic, Now: d.now}, q)
			if err != nil {
				return err
			}
			for i := range a.Hits {
				a.Hits[i].Space = name
			}
			found = append(found, a)
			return nil
		})
		if err != nil && !space.IsUnwritten(name, err) {
			return nil, err
		}
	}
	if both || q.In == op.InSessions {
		q.In = op.InSessions
		a, err := op.Recall.Do(ctx, op.Store{Messages: d.messagesOf(c), Semantic: d.semantic, Now: d.now}, q)
		if err != nil {
			return nil, err
		}
		found = append(found, a)
	}
	return recall.Merge(found, q.Limit), nil
}
