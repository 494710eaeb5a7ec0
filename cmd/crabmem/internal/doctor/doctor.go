// Package doctor checks what crabmem needs on a machine: the home, the store,
// sessions, skills, crons, the configuration, providers, the daemon, MCP clients,
// components, the gateway, the Telegram bot, the disk, logs, and the clock. It does not change
// them.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/mcpclient"
	"crabmem/crmem/vfs"
	"crabmem/daemon/channel/telegram"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/service"
	"crabmem/daemon/skill"
)

// The states of a finding.
const (
	OK   = "ok"
	Warn = "warn"
	Fail = "fail"
)

// Finding is the result of one check.
type Finding struct {
	Name   string `json:"name"`
	State  string `json:"state" op:"words=ok|warn|fail"`
	What   string `json:"what"`
	Remedy string `json:"remedy,omitempty"`
}

// Report is the result of verify, sessions verify, or skills check.
type Report struct {
	Summary  string    // what is shown without a problem
	Problems []Finding // the first ones, without Name
	Count    int       // of all problems
}

// Options contain the dependencies of the checks. All fields are required.
type Options struct {
	FS      vfs.FS
	Home    string // absolute
	Store   string // absolute; links may be unresolved
	Version string // of this program
	Getenv  func(string) string
	Now     func() time.Time
	Timeout time.Duration // of a provider or the daemon

	Clients mcpclient.Machine // where MCP clients are
	Client  *client.Client    // of the home's daemon; Examine closes it
	Machine Machine
	Service *service.Service // the home's daemon

	// Explain returns the message and the fix of an error.
	Explain func(error) *cli.Failure
	// DescribeProcess returns the state of a process that does not respond, and
	// the fix.
	DescribeProcess func(pid int) (state, fix string)

	// The checks of verify, sessions verify, and skills check. If the store or
	// folder is missing, they return a failure of kind no_store, no_sessions, or
	// no_skills. CheckSessions also returns the IDs of the sessions.
	CheckStore, CheckSkills func() (*Report, error)
	CheckSessions           func() (*Report, map[string]bool, error)
	// Telegram reads the bot's configuration with its token.
	Telegram func() (telegram.Config, error)
	// Skills loads the skills of the home.
	Skills func() (*skill.Set, error)
}

// Machine contains the calls whose results depend on the machine.
type Machine struct {
	Free       func(dir string) (int64, error)
	Confinable func(context.Context) error
}

// Examine makes every check and returns the findings in a fixed order. Its error
// is the cause of the end of ctx.
func Examine(ctx context.Context, o Options) ([]Finding, error) {
	d := &doctor{Options: o}
	if real, err := o.FS.Resolve(o.Store); err == nil {
		d.Store = real
	}
	defer o.Client.Close() //nolint:errcheck // nothing is sent any more
	for _, check := range []func(context.Context){
		d.checkHome, d.checkSocket, d.checkDaemon, d.checkService, d.checkLock, d.checkStore, d.checkSessions, d.checkSkills, d.checkCrons,
		d.checkSecrets, d.checkConfig, d.checkClients, d.checkHooks, d.checkPorts, d.checkGateway, d.checkTelegram, d.checkDisk, d.checkLogs, d.checkClock,
	} {
		if err := context.Cause(ctx); err != nil {
			return d.findings, err
		}
		check(ctx)
	}
	return d.findings, context.Cause(ctx)
}

// doctor is one examination.
type doctor struct {
	Options

	hello    *client.Daemon // of the daemon that answers; nil if no daemon answers
	hung     int            // the process that holds the home and does not answer
	sessions map[string]bool
	findings []Finding
}

func (d *doctor) add(name, state, remedy, what string) {
	d.findings = append(d.findings, Finding{name, state, what, remedy})
}

func (d *doctor) ok(name, format string, args ...any) {
	d.add(name, OK, "", fmt.Sprintf(format, args...))
}

func (d *doctor) warn(name, remedy, format string, args ...any) {
	d.add(name, Warn, remedy, fmt.Sprintf(format, args...))
}

func (d *doctor) fail(name, remedy, format string, args ...any) {
	d.add(name, Fail, remedy, fmt.Sprintf(format, args...))
}

// broken adds a finding for an error that ends a command.
func (d *doctor) broken(name string, err error) {
	f := d.Explain(err)
	d.fail(name, cmp.Or(f.Remedy, "check the disk"), "%s", f.Message)
}

// maxFindings bounds the findings of a check; the others are counted.
const maxFindings = 5

// problems adds the first problems of r, and one finding of a state for the
// others. Without a problem it adds the summary. command lists all problems.
func (d *doctor) problems(name string, r *Report, state, command string) {
	if r.Count == 0 {
		d.ok(name, "%s", r.Summary)
	}
	for _, f := range r.Problems[:min(len(r.Problems), maxFindings)] {
		d.add(name, f.State, f.Remedy, f.What)
	}
	if more := r.Count - maxFindings; more > 0 {
		d.add(name, state, command, "and "+display.Plural(more, "more problem", "more problems"))
	}
}

// data adds the result of a command that checks data. It shows absent if there is
// no such data.
func (d *doctor) data(name, absent string, r *Report, err error, state, command string) {
	switch {
	case err != nil && d.Explain(err).Kind == "no_"+name:
		d.ok(name, "%s", absent)
	case err != nil:
		d.broken(name, err)
	default:
		d.problems(name, r, state, command)
	}
}

// missing reports whether the error is about a missing file.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
