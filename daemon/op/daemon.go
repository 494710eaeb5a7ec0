package op

import (
	"log/slog"
	"time"

	"crabmem/daemon/cron"
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
	// CronFailures returns the failures of an entry in a row, and whether they stopped it.
	CronFailures func(id uint64) (failures int, stopped bool)
}
