// Package doctor checks everything that crabmem needs on a machine: the home, the
// store, sessions, skills, crons, the configuration, providers, the daemon,
// components, the disk, logs, and the clock. It changes nothing.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/skill"
	"crabmem/daemon/wire/pb"
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
	State  string `json:"state"`
	What   string `json:"what"`
	Remedy string `json:"remedy,omitempty"`
}

// Problem is something that another check of the program found.
type Problem struct {
	Message string
	Remedy  string
	Warning bool // nothing is lost
}

// Sessions is the result of a check of all sessions.
type Sessions struct {
	IDs      map[string]bool
	Sessions int
	Problems []Problem // the first ones
	Count    int       // of all problems
}

// Options are what the checks work on. All fields are required.
type Options struct {
	FS      vfs.FS
	Home    string // absolute
	Store   string // absolute; links may be unresolved
	Version string // of this program
	Getenv  func(string) string
	Now     func() time.Time
	Timeout time.Duration // of a provider or the daemon

	Client  *client.Client // of the home's daemon; Examine closes it
	Machine Machine

	// Explain finds the message and the fix of an error.
	Explain func(error) *cli.Failure
	// DescribeProcess returns the state of a process that does not respond, and
	// the fix.
	DescribeProcess func(pid int) (state, fix string)

	// The checks of crabmem verify, sessions verify and skills check. Their errors
	// are failures of kind no_store, no_sessions, no_skills where there is nothing
	// to check.
	CheckStore    func() (*crmem.Report, error)
	CheckSessions func() (*Sessions, error)
	CheckSkills   func() (skills int, problems []Problem, err error)
	// Skills loads the skills of the home.
	Skills func() (*skill.Set, error)
}

// Machine is what the doctor asks the machine.
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
		d.checkHome, d.checkSocket, d.checkDaemon, d.checkLock, d.checkStore, d.checkSessions, d.checkSkills, d.checkCrons,
		d.checkConfig, d.checkPorts, d.checkDisk, d.checkLogs, d.checkClock,
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

	hello    *pb.HelloReply // of the daemon that answers, nil = none does
	hung     int            // the process that has the home and does not answer
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

// broken is a finding about an error that a command would have ended with.
func (d *doctor) broken(name string, err error) {
	f := d.Explain(err)
	d.fail(name, cmp.Or(f.Remedy, "check the disk"), "%s", f.Message)
}

// maxFindings bounds the findings of a check; the others are counted.
const maxFindings = 5

// problems adds a finding for each problem. Of total the list may have the first
// ones only: the rest is one finding of a state, with the command that lists
// all.
func (d *doctor) problems(name string, list []Problem, total int, state, command string) {
	for _, p := range list[:min(len(list), maxFindings)] {
		kind := Fail
		if p.Warning {
			kind = Warn
		}
		d.add(name, kind, p.Remedy, p.Message)
	}
	if more := total - maxFindings; more > 0 {
		d.add(name, state, command, "and "+cli.Plural(more, "more problem", "more problems"))
	}
}

// missing reports whether the error is about a file that is not there.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
