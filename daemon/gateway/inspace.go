package gateway

import (
	"encoding/json"
	"errors"

	"crabmem/daemon/client"
	"crabmem/daemon/op"
)

// spaceParam is the space of an operation.
var spaceParam = op.Field{Name: "space", Doc: "a space that the key may use, or the identity api:NAME of a key for its space; absent: its own", Type: of[string](), Size: 80}

// inSpace calls f with a client for a space. An empty name is that of the key.
func (c *call) inSpace(name string, f func(*client.Client) error) error {
	if name == "" {
		return f(c.daemon.Client)
	}
	d := &client.Client{Addr: c.daemon.Addr, Header: c.daemon.Header}
	d.Space = name
	return errors.Join(f(d), d.Close())
}

// raw is JSON of another package.
type raw = json.RawMessage
