package op

import (
	"log/slog"
	"time"

	"crabmem/daemon/cron"
	"crabmem/daemon/model"
	"crabmem/daemon/session"
	"crabmem/daemon/space"
)

// Daemon is what operations run on: the daemon's parts, and who asks.
type Daemon struct {
	*Parts
	As Identity
}

// Parts are the parts of a daemon.
type Parts struct {
	Log    *slog.Logger
	Now    func() time.Time
	Setup  func() session.Setup
	Loaded *session.Manager
	Models func() *model.Registry

	Spaces *space.Set
	Home   space.Home
	// Removed is called after a space was removed.
	Removed func(name string) error

	Crons *cron.Table
	// CronsChanged makes the daemon read the table.
	CronsChanged func()
	// CronFailures returns how often an entry failed in a row, and whether that stopped it.
	CronFailures func(id uint64) (failures int, stopped bool)
}
