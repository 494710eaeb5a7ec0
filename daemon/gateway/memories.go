package gateway

import (
	"encoding/json"
	"errors"
	"net/http"

	"crabmem/crmem"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

// spaceParam is the space of an operation.
var spaceParam = param{name: "space", summary: "a space that the key may use; absent: its own", kind: "string", size: 64}

var limitParam = param{name: "limit", summary: "items of a page, at least 1; absent: 50", kind: "integer", most: 200}

const defaultPage = 50

// in calls f with a client for the space of the request.
func (c *call) in(f func(*client.Client) error) error { return c.inSpace(c.text("space"), f) }

// inSpace calls f with a client for a space. An empty name is that of the key.
func (c *call) inSpace(name string, f func(*client.Client) error) error {
	if name == "" {
		return f(c.daemon.Client)
	}
	return use(c.clientOf(name), f)
}

// clientOf returns a client for a space, which the caller closes.
func (c *call) clientOf(space string) *client.Client {
	return &client.Client{Addr: c.daemon.Addr, As: c.daemon.As, By: c.daemon.By, Space: space}
}

// use calls f with a client, and closes it.
func use(d *client.Client, f func(*client.Client) error) error { return errors.Join(f(d), d.Close()) }

// entry returns the entry with the ID in the path.
func (c *call) entry(d *client.Client) (*crmem.Entry, error) {
	id, ok := positive(c.r.PathValue("id"))
	if !ok {
		return nil, c.noEntry()
	}
	e, err := op.GetEntry.Do(c.r.Context(), d, op.EntryName{ID: id})
	if errors.Is(err, crmem.ErrNotFound) {
		return nil, c.noEntry()
	}
	return &e, err
}

// noEntry returns the problem that no entry has the ID in the path.
func (c *call) noEntry() *Problem {
	return problemf(http.StatusNotFound, "not_found", "no entry %s", printable(c.r.PathValue("id"))).fix("GET /v1/memories lists the entries")
}

// raw is JSON of another package.
type raw = json.RawMessage
