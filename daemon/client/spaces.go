package client

import (
	"context"
	"time"

	"crabmem/daemon/space"
	"crabmem/daemon/wire/pb"
)

// Space is a space with its description.
type Space struct {
	Name string
	space.About
}

// Spaces returns the spaces that the identity may read. The times of a space without
// entries and description are zero.
func (c *Client) Spaces(ctx context.Context) ([]Space, error) {
	return c.spaces(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_ListSpaces{ListSpaces: &pb.ListSpacesMsg{}}})
}

// CreateSpace creates an empty space. The daemon sets the times.
func (c *Client) CreateSpace(ctx context.Context, s *Space) (*Space, error) {
	return oneSpace(c.spaces(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_CreateSpace{CreateSpace: &pb.CreateSpaceMsg{Space: spaceMessage(s)}}}))
}

// DescribeSpace replaces the description of a space, and archives it if archive is set.
// s.UpdatedAt is that of the description to replace; the error for another one is of kind
// changed.
func (c *Client) DescribeSpace(ctx context.Context, s *Space, archive bool) (*Space, error) {
	return oneSpace(c.spaces(ctx, &pb.ClientMessage{Msg: &pb.ClientMessage_DescribeSpace{DescribeSpace: &pb.DescribeSpaceMsg{Space: spaceMessage(s), Archive: archive}}}))
}

// RemoveSpace removes a space with its entries.
func (c *Client) RemoveSpace(ctx context.Context, name string) error {
	_, err := callExt(ctx, c, &pb.ClientMessage{Msg: &pb.ClientMessage_RemoveSpace{RemoveSpace: &pb.RemoveSpaceMsg{Name: name}}}, (*pb.ServerMessage).GetPong)
	return OutcomeUnknown(err)
}

func (c *Client) spaces(ctx context.Context, m *pb.ClientMessage) ([]Space, error) {
	r, err := callExt(ctx, c, m, (*pb.ServerMessage).GetSpaces)
	var list []Space
	for _, s := range r.GetSpaces() {
		list = append(list, Space{s.GetName(), space.About{Title: s.GetTitle(), Description: s.GetDescription(), Metadata: s.GetMetadata(),
			CreatedAt: timeOf(s.GetCreatedAt()), UpdatedAt: timeOf(s.GetUpdatedAt()), ArchivedAt: timeOf(s.GetArchivedAt())}})
	}
	return list, err
}

func oneSpace(list []Space, err error) (*Space, error) {
	if err != nil {
		return nil, OutcomeUnknown(err)
	}
	if len(list) != 1 {
		return nil, &unexpectedError{&pb.ServerMessage{}}
	}
	return &list[0], nil
}

func spaceMessage(s *Space) *pb.Space {
	m := &pb.Space{Name: s.Name, Title: s.Title, Description: s.Description, Metadata: s.Metadata}
	if !s.UpdatedAt.IsZero() {
		m.UpdatedAt = s.UpdatedAt.UnixNano()
	}
	return m
}

// timeOf returns the time of Unix nanoseconds, or the zero time for 0.
func timeOf(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds).UTC()
}
