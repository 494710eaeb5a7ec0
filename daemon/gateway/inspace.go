package gateway

import (
	"encoding/json"
	"errors"

	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

// spaceParam is the space of an operation.
var spaceParam = op.Field{Name: "space", Doc: "a space that the key may use; absent: its own", Type: of[string](), Size: 64}

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
	d := &client.Client{Addr: c.daemon.Addr, Header: c.daemon.Header}
	d.Space = space
	return d
}

// use calls f with a client, and closes it.
func use(d *client.Client, f func(*client.Client) error) error { return errors.Join(f(d), d.Close()) }

// raw is JSON of another package.
type raw = json.RawMessage
