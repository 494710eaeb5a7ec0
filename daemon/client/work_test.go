package client

import (
	"context"
	"slices"
	"testing"

	"crabmem/daemon/op"
	"crabmem/daemon/role"
)

// workCaller is a daemon with work, some of which has ended.
type workCaller struct{ canceled []string }

func (c *workCaller) Call(_ context.Context, row *op.Row, in, out any, part func() error) error {
	switch row.Name {
	case "work.list":
		*out.(*[]role.View) = []role.View{{Session: "a", ID: "w1"}, {Session: "a", ID: "w2"}, {Session: "a", ID: "b1"}, {Session: "b", ID: "w1"}, {Session: "a", ID: "w3"}}
	case "work.cancel":
		switch id := in.(*op.WorkID); id.Work {
		case "w1":
			return &Error{Code: 409, Kind: "conflict", Message: "w1 is failed"}
		case "b1":
			return &Error{Code: 404, Kind: "not_found", Message: "no such work: b1"}
		default:
			c.canceled = append(c.canceled, id.Session+" "+id.Work)
		}
	}
	return part()
}

// TestCancelWork cancels a session's open work, although other work has ended.
func TestCancelWork(t *testing.T) {
	c := &workCaller{}
	list, err := CancelWork(t.Context(), c, []string{"a"})
	if err != nil || len(list) != 2 || !slices.Equal(c.canceled, []string{"a w2", "a w3"}) {
		t.Errorf("canceled %q, returned %v, %v", c.canceled, list, err)
	}
}
