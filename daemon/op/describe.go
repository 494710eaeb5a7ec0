package op

import (
	"context"

	"crabmem/daemon/errtable"
	"crabmem/daemon/space"
)

// DaemonInfo describes a daemon.
type DaemonInfo struct {
	Protocol    uint32 `json:"protocol"` // version of the operations
	Version     string `json:"version"`
	PID         int    `json:"pid"`
	Home        string `json:"home"` // real paths
	Store       string `json:"store"`
	SessionsDir string `json:"sessions_dir"`
	StartedAt   string `json:"started_at"` // RFC 3339
	Model       string `json:"model"`      // the active one
	Trust       string `json:"trust"`      // in the identity that asks: untrusted, trusted, or admin
}

// Serves reports whether the daemon serves a store: the file of a space of its home,
// or if spaceName is empty, its own store. path is the real path of the file.
func (d *DaemonInfo) Serves(path, spaceName string) bool {
	if spaceName == "" || spaceName == space.Main {
		return d.Store == path
	}
	return space.File(d.Home, spaceName) == path
}

// Hello describes the daemon. Before other operations, clients compare DaemonInfo.Protocol.
var Hello = Add(errtable.Other, Op[Daemon, None, DaemonInfo]{
	Name: "daemon.hello", Does: "Describe the daemon.", Effect: Reads, Need: NeedNothing, Files: true,
	Run: func(_ context.Context, d Daemon, _ *None) (DaemonInfo, error) { return d.Info(&d.As), nil },
})
