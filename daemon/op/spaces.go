package op

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"crabmem/daemon/errtable"
	"crabmem/daemon/once"
	"crabmem/daemon/space"
)

// Space is a space with its description.
type Space struct {
	Name string `json:"name"`
	space.About
}

// SpaceChange is a new space description. UpdatedAt identifies the description to replace.
type SpaceChange struct {
	Space
	Archive bool `json:"archive,omitempty"`
}

// SpaceName names a space.
type SpaceName struct {
	Name string `json:"name"`
}

var ListSpaces = Add(errtable.Store, Op[Daemon, None, []Space]{
	Name: "spaces.list", Does: "List the spaces that the caller may read.", Effect: Reads, Need: NeedOwn,
	Run: func(_ context.Context, d Daemon, _ *None) ([]Space, error) { return d.spaces() },
})

// CreateSpace creates a space, and then its description: after a crash between the two,
// the space has no description.
var CreateSpace = Add(errtable.Store, Op[Daemon, Space, Space]{
	Name: "spaces.create", Does: "Create an empty space.", Effect: Writes, Did: described[Space],
	Run: func(_ context.Context, d Daemon, in *Space) (Space, error) {
		about := in.About
		about.CreatedAt, about.ArchivedAt = time.Now().UTC(), time.Time{}
		about.UpdatedAt = about.CreatedAt
		if err := about.Check(); err != nil {
			return Space{}, err
		}
		if err := d.Home.Create(in.Name, d.Setup().Config.MaxSpaces); err != nil {
			return Space{}, err
		}
		return d.describe(in.Name, func(a *space.About) error {
			*a = about
			return nil
		})
	},
})

var DescribeSpace = Add(errtable.Store, Op[Daemon, SpaceChange, Space]{
	Name: "spaces.describe", Does: "Replace the description of a space, or archive it.", Effect: Writes, Did: described[SpaceChange],
	Run: func(_ context.Context, d Daemon, in *SpaceChange) (Space, error) {
		return d.describe(in.Name, func(a *space.About) error {
			if !a.UpdatedAt.Equal(in.UpdatedAt) {
				return &errtable.Error{Kind: "changed", HTTP: http.StatusConflict, Exit: errtable.ExitConflict,
					Message: fmt.Sprintf("describe space %q: its description has changed", in.Name), Fix: "read the description again, then retry"}
			}
			next := in.About
			next.CreatedAt, next.UpdatedAt, next.ArchivedAt = a.CreatedAt, time.Now().UTC(), a.ArchivedAt
			if in.Archive && next.ArchivedAt.IsZero() {
				next.ArchivedAt = next.UpdatedAt
			}
			*a = next
			return nil
		})
	},
})

var RemoveSpace = Add(errtable.Store, Op[Daemon, SpaceName, None]{
	Name: "spaces.remove", Does: "Remove a space with its entries.", Effect: Erases,
	Did: func(in *SpaceName, _ *None) once.Effect { return once.Effect{Space: in.Name} },
	Run: func(_ context.Context, d Daemon, in *SpaceName) (None, error) {
		if err := d.Spaces.Remove(&d.Home, in.Name); err != nil {
			return None{}, err
		}
		return None{}, d.Removed(in.Name)
	},
})

// described is the effect of a request that changed a space description.
func described[I any](_ *I, s *Space) once.Effect {
	return once.Effect{Space: s.Name, ETag: strconv.FormatInt(s.UpdatedAt.UnixNano(), 10)}
}

func (d *Daemon) describe(name string, change func(*space.About) error) (Space, error) {
	a, err := d.Spaces.Describe(name, func(a *space.About) error {
		if err := change(a); err != nil {
			return err
		}
		if a.Metadata == nil {
			a.Metadata = map[string]string{}
		}
		return nil
	})
	return Space{name, a}, err
}

// spaces returns the spaces that the identity may read. Its own space may not exist yet:
// its times are zero.
func (d *Daemon) spaces() ([]Space, error) {
	names, err := space.Names(d.Home.FS, d.Home.Path)
	if err != nil {
		return nil, err
	}
	if !d.As.Owner {
		names = slices.DeleteFunc(names, func(name string) bool { return !d.As.Scope.Memory.Reads.Allows(name) })
		if d.As.Writes && !slices.Contains(names, d.As.Space) {
			names = append(names, d.As.Space)
		}
	}
	list := make([]Space, len(names))
	for i, name := range names {
		a, err := d.Spaces.About(name)
		if err != nil && !space.IsUnwritten(name, err) {
			d.Log.Warn("description of a space", "space", name, "error", err)
		}
		if err != nil {
			a = space.About{Title: name}
		}
		list[i] = Space{name, a}
	}
	return list, nil
}
