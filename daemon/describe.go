package daemon

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"crabmem/daemon/errtable"
	"crabmem/daemon/once"
	"crabmem/daemon/space"
	"crabmem/daemon/wire/pb"
)

// listSpaces answers with the spaces that the identity may read. Its own space may not
// exist yet.
func (d *Daemon) listSpaces(r *request) error {
	names, err := space.Names(d.fs, d.home)
	if err != nil {
		return err
	}
	if !r.as.owner {
		names = slices.DeleteFunc(names, func(name string) bool { return !r.as.scope.Memory.Reads.Allows(name) })
		if r.as.writes && !slices.Contains(names, r.as.space) {
			names = append(names, r.as.space)
		}
	}
	list := make([]*pb.Space, 0, len(names))
	for _, name := range names {
		a, err := d.spaces.About(name)
		if err != nil && !isUnwritten(name, err) {
			d.log.Warn("description of a space", "space", name, "error", err)
		}
		if err != nil {
			a = space.About{Title: name}
		}
		list = append(list, spaceMessage(name, &a))
	}
	return r.sendSpaces(list...)
}

func (r *request) sendSpaces(list ...*pb.Space) error {
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Spaces{Spaces: &pb.SpaceList{Spaces: list}}})
}

// sendDescribed sends the space that the request created or described.
func (r *request) sendDescribed(s *pb.Space) error {
	r.effect = &once.Effect{Space: s.GetName(), ETag: strconv.FormatInt(s.GetUpdatedAt(), 10)}
	return r.sendSpaces(s)
}

// createSpace creates a space, and then its description: after a crash between the two,
// the space has no description.
func (d *Daemon) createSpace(r *request, m *pb.CreateSpaceMsg) error {
	name := m.GetSpace().GetName()
	about := aboutOf(m.GetSpace())
	about.CreatedAt = time.Now().UTC()
	about.UpdatedAt = about.CreatedAt
	if err := about.Check(); err != nil {
		return err
	}
	if err := d.manageSpaces().Create(name, d.setup().config.MaxSpaces); err != nil {
		return err
	}
	a, err := d.spaces.Describe(name, func(a *space.About) error {
		*a = about
		return nil
	})
	if err != nil {
		return err
	}
	return r.sendDescribed(spaceMessage(name, &a))
}

func (d *Daemon) describeSpace(r *request, m *pb.DescribeSpaceMsg) error {
	name := m.GetSpace().GetName()
	a, err := d.spaces.Describe(name, func(a *space.About) error {
		if nanoseconds(a.UpdatedAt) != m.GetSpace().GetUpdatedAt() {
			return &errtable.Error{Kind: "changed", HTTP: http.StatusConflict, Exit: errtable.ExitConflict,
				Message: fmt.Sprintf("describe space %q: its description has changed", name), Fix: "read the description again, then retry"}
		}
		next := aboutOf(m.GetSpace())
		next.CreatedAt, next.UpdatedAt, next.ArchivedAt = a.CreatedAt, time.Now().UTC(), a.ArchivedAt
		if m.GetArchive() && next.ArchivedAt.IsZero() {
			next.ArchivedAt = next.UpdatedAt
		}
		*a = next
		return nil
	})
	if err != nil {
		return err
	}
	return r.sendDescribed(spaceMessage(name, &a))
}

func (d *Daemon) removeSpace(r *request, m *pb.RemoveSpaceMsg) error {
	if err := d.spaces.Remove(d.manageSpaces(), m.GetName()); err != nil {
		return err
	}
	r.effect = &once.Effect{Space: m.GetName()}
	if err := d.repeats.PurgeSpace(m.GetName()); err != nil {
		return err
	}
	return r.pong()
}

// manageSpaces returns the spaces of the home, to create and remove them.
func (d *Daemon) manageSpaces() *space.Home {
	return &space.Home{FS: d.fs, Path: d.home, Command: "daemon", Warn: func(line string) { d.log.Warn("spaces", "warning", line) }}
}

func aboutOf(m *pb.Space) space.About {
	metadata := m.GetMetadata()
	if metadata == nil {
		metadata = map[string]string{}
	}
	return space.About{Title: m.GetTitle(), Description: m.GetDescription(), Metadata: metadata}
}

func spaceMessage(name string, a *space.About) *pb.Space {
	return &pb.Space{Name: name, Title: a.Title, Description: a.Description, Metadata: a.Metadata,
		CreatedAt: nanoseconds(a.CreatedAt), UpdatedAt: nanoseconds(a.UpdatedAt), ArchivedAt: nanoseconds(a.ArchivedAt)}
}

// nanoseconds returns a Unix time, or 0 for the zero time.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
