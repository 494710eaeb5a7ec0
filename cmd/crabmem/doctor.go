package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/tool"
	"crabmem/daemon/wire/pb"

	"github.com/spf13/cobra"
)

func (c *app) doctorCommand() *cobra.Command {
	timeout := 5 * time.Second
	cmd := &cobra.Command{
		Use:     "doctor",
		GroupID: groupCare,
		Short:   "find what is wrong, and say what helps",
		Long: `Look at everything that crabmem needs here, with a daemon or without one: the
home and who may read it, the store and its lock, sessions, skills, crons, the
configuration, the model, whether providers answer and take the key, whether
confined agents can be confined, the daemon and its sockets, the port files of
components, the disk, the logs, the clock. Nothing is changed. Providers are
asked for their list of models, or only connected to: that costs nothing.

What is wrong has a remedy. The exit code is 1 when something has failed; a
warning leaves it 0. --quiet shows only what is not as it should be.`,
		Example: `  crabmem doctor
  crabmem doctor --json --timeout 1s`,
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long a provider or a daemon may take to answer")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if timeout <= 0 {
			return cli.Usagef("--timeout %v: want more than 0", timeout)
		}
		d, err := c.newDoctor(timeout)
		if err != nil {
			return err
		}
		if err := c.Wait(cmd.Context(), func() error { return d.examine(cmd.Context()) }); err != nil {
			return err
		}
		return c.diagnosis(d)
	}
	return cmd
}

// The states of a finding.
const (
	stateOK   = "ok"
	stateWarn = "warn"
	stateFail = "fail"
)

// a finding is what came of one check.
type finding struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	What   string `json:"what"`
	Remedy string `json:"remedy,omitempty"`
}

// a doctor looks, and changes nothing.
type doctor struct {
	c       *app
	home    string
	store   string // with links resolved, where they can be
	timeout time.Duration

	hello    *pb.HelloReply // of the daemon that answers, nil = none does
	daemon   *client.Client // its
	hung     int            // the process that has the home and does not answer
	sessions map[string]bool
	findings []finding
}

// machine is what the doctor asks the machine; tests have one of their own.
type machine struct {
	free       func(dir string) (int64, error)
	confinable func(context.Context) error
}

var thisMachine = machine{free: vfs.Free, confinable: tool.Confinable}

func (c *app) newDoctor(timeout time.Duration) (*doctor, error) {
	home, err := c.homeDir()
	if err != nil {
		return nil, err
	}
	if home, err = filepath.Abs(home); err != nil {
		return nil, err
	}
	store, err := c.storePath()
	if err != nil {
		return nil, err
	}
	if store, err = filepath.Abs(store); err != nil {
		return nil, err
	}
	d := &doctor{c: c, home: home, store: store, timeout: timeout}
	if real, err := c.fs.Resolve(store); err == nil {
		d.store = real
	}
	return d, nil
}

// examine makes every check. Its error is that of ctx.
func (d *doctor) examine(ctx context.Context) error {
	defer d.hangUp()
	for _, check := range []func(context.Context){
		d.checkHome, d.checkSocket, d.checkDaemon, d.checkLock, d.checkStore, d.checkSessions, d.checkSkills, d.checkCrons,
		d.checkConfig, d.checkPorts, d.checkDisk, d.checkLogs, d.checkClock,
	} {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		check(ctx)
	}
	return context.Cause(ctx)
}

func (d *doctor) hangUp() {
	if d.daemon != nil {
		d.daemon.Close() //nolint:errcheck // nothing is sent any more
	}
}

func (d *doctor) ok(name, format string, args ...any) {
	d.findings = append(d.findings, finding{Name: name, State: stateOK, What: fmt.Sprintf(format, args...)})
}

func (d *doctor) warn(name, remedy, format string, args ...any) {
	d.findings = append(d.findings, finding{name, stateWarn, fmt.Sprintf(format, args...), remedy})
}

func (d *doctor) fail(name, remedy, format string, args ...any) {
	d.findings = append(d.findings, finding{name, stateFail, fmt.Sprintf(format, args...), remedy})
}

// broken is a finding about an error that a command would have ended with.
func (d *doctor) broken(name string, err error) {
	f := classify(err)
	d.fail(name, cmp.Or(f.Remedy, "check the disk"), "%s", f.Message)
}

// maxFindings is how much is told of one thing; the rest is counted.
const maxFindings = 5

type doctorAnswer struct {
	Home     string    `json:"home"`
	Failures int       `json:"failures"`
	Warnings int       `json:"warnings"`
	Checks   []finding `json:"checks"`
}

// diagnosis writes what was found.
func (c *app) diagnosis(d *doctor) error {
	a := doctorAnswer{Home: d.home, Checks: d.findings}
	wide := 0
	for _, f := range a.Checks {
		wide = max(wide, cli.Columns(cli.Printable(f.Name)))
		switch f.State {
		case stateFail:
			a.Failures++
		case stateWarn:
			a.Warnings++
		}
	}
	if c.JSON {
		if err := c.PrintJSON(a); err != nil {
			return err
		}
	} else {
		for _, f := range a.Checks {
			if c.Quiet && f.State == stateOK {
				continue
			}
			state := fmt.Sprintf("%-4s", f.State)
			if f.State != stateOK {
				state = c.Bold(state)
			}
			name := cli.Printable(f.Name)
			fmt.Fprintf(c.Out, "%s  %s%*s  %s\n", state, name, wide-cli.Columns(name), "", cli.Printable(f.What))
			if f.Remedy != "" {
				fmt.Fprintf(c.Out, "%*s  try: %s\n", wide+6, "", cli.Printable(f.Remedy))
			}
		}
		if a.Failures+a.Warnings == 0 {
			c.Say("nothing is wrong")
		} else {
			c.Say("%s, %s", cli.Plural(a.Failures, "failure", "failures"), cli.Plural(a.Warnings, "warning", "warnings"))
		}
	}
	if a.Failures == 0 {
		return nil
	}
	if err := c.Out.Flush(); err != nil {
		return err
	}
	return cli.SilentError(cli.ExitFailure)
}
