package op

import (
	"log/slog"

	"crabmem/daemon/model"
	"crabmem/daemon/session"
	"crabmem/daemon/space"
)

// Daemon is what operations of the daemon run on: its parts, and who asks.
type Daemon struct {
	*Parts
	As Identity
}

// Parts are the parts of a daemon.
type Parts struct {
	Log    *slog.Logger
	Setup  func() session.Setup
	Models func() *model.Registry

	Spaces *space.Set
	Home   space.Home
	// Removed is called after a space was removed.
	Removed func(name string) error
}
