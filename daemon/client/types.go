package client

import "crabmem/daemon/op"

// Daemon describes a daemon.
type Daemon = op.DaemonInfo
