package op

import (
	"context"
	"log/slog"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/agent"
	"crabmem/daemon/config"
	"crabmem/daemon/cron"
	"crabmem/daemon/model"
	"crabmem/daemon/role"
	"crabmem/daemon/session"
	"crabmem/daemon/space"
	"crabmem/daemon/usage"
	"crabmem/sessionlog"
	"crabmem/sessionlog/search"
)

// Daemon is what operations run on: the daemon's parts, and who asks.
type Daemon struct {
	*Parts
	As Identity
	By crmem.Actor // who makes the changes
}

// Parts are the parts of a daemon.
type Parts struct {
	Log    *slog.Logger
	Now    func() time.Time
	Setup  func() session.Setup
	Loaded *session.Manager
	Models func() *model.Registry

	Roles  *role.Roles
	Spaces *space.Set
	Home   space.Home
	// Outcome returns what a request of an identity did.
	Outcome func(ctx context.Context, as *Identity, in *OnceKey) (Outcome, error)
	// Removed is called after a space was removed.
	Removed func(name string) error

	Sessions *sessionlog.Dir
	// SearchSessions searches the messages, with calls and results of tools, or by meaning.
	SearchSessions func(ctx context.Context, q search.Query, tools, semantic bool) (*search.Result, error)
	// Followers returns the number of subscribers to the events of a session.
	Followers func(session string) uint64
	// Publish sends an event to its subscribers, and Follow sends what subscribers receive.
	Publish func(*agent.Turn, agent.Event)
	Follow  func(ctx context.Context, as *Identity, f EventFilter, send func(agent.Event) error) error
	// Converse runs an agent. each receives the events of the run; nil: the agent cannot
	// ask the user.
	Converse func(ctx context.Context, m *Message, each func(agent.Event) error) (Answer, error)
	// ReadConfig reads the configuration files, and uses nothing of them.
	ReadConfig func() (*config.Config, error)
	// ChangeConfig writes the configuration files and uses them, and Reload only uses them.
	ChangeConfig func(*ConfigChange) (ChangedConfig, error)
	Reload       func() error
	// SetupAt returns the configuration in a directory, and the path of the workspace there or
	// above. Without a trusted one it is the home's.
	SetupAt func(ctx context.Context, dir string) (session.Setup, string, error)
	// NoticeAgents adds the agents with new files.
	NoticeAgents func()
	// Info describes the daemon to an identity, and Stats returns the daemon's figures.
	Info  func(as *Identity) DaemonInfo
	Stats func() DaemonStats

	// Usage returns the usage of the last days, in no order.
	Usage func() ([]usage.Record, error)

	// MCPServers returns the states of the MCP servers and components.
	MCPServers func() []MCPServer

	Crons *cron.Table
	// CheckCron returns an error if an entry cannot send its message to a session, or to a
	// new session if l is nil.
	CheckCron func(l *session.Session, c *cron.Cron) error
	// CronsChanged makes the daemon read the table.
	CronsChanged func()
	// WorkspaceCrons returns the entries of workspaces, which are in no table.
	WorkspaceCrons func() []cron.Cron
	// CronState adds the state of an entry's runs.
	CronState func(c *Cron)
}
