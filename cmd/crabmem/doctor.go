package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/doctor"
	"crabmem/crmem"
	"crabmem/daemon/display"
	"crabmem/daemon/skill"
	"crabmem/daemon/space"
	"crabmem/sessionlog"

	"github.com/spf13/cobra"
)

func doctorCommand(c *app) *cobra.Command {
	timeout := 5 * time.Second
	cmd := &cobra.Command{
		Use:     "doctor",
		GroupID: groupCare,
		Short:   "diagnose problems and suggest fixes",
		Long: `Check the home directory and its permissions, the store and its lock, sessions,
skills, cron entries, secrets, configuration, model, providers and keys,
confinement, the daemon and its sockets, the PATH of the service, MCP servers,
MCP clients that start crabmem, the last error of a hook, component ports, the
gateway, the Telegram bot, disk, logs, and clock. doctor changes nothing and
does not need a daemon. For each provider, doctor lists the models, which also
checks the key unless the list is public, or only connects; neither costs
anything. While a daemon runs, it checks the configuration and providers with
its own environment, which contains its keys, and reports the state of its MCP
servers.

Each problem has a fix. The exit code is 1 if a check fails; warnings exit with
0. --quiet prints only failures and warnings.`,
		Example: `  crabmem doctor
  crabmem doctor --json --timeout 1s`,
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "wait this long for a provider or the daemon")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if timeout <= 0 {
			return cli.Usagef("--timeout %v: want more than 0", timeout)
		}
		o, err := c.doctorOptions(timeout)
		if err != nil {
			return err
		}
		list, err := waited(cmd.Context(), c, func() ([]doctor.Finding, error) { return doctor.Examine(cmd.Context(), o) })
		if err != nil {
			return err
		}
		return c.printDiagnosis(&doctorAnswer{Home: o.Home, Checks: list})
	}
	return c.outputs(cmd, of[doctorAnswer]())
}

// doctorOptions are the home, the store and the checks of this run.
func (c *app) doctorOptions(timeout time.Duration) (o doctor.Options, err error) {
	o.Home = c.absHome()
	o.Store = c.storePath()
	if o.Store, err = filepath.Abs(o.Store); err != nil {
		return o, err
	}
	o.Client, o.Service = c.client(), c.daemonService()
	if o.Clients, err = c.clientMachine(); err != nil {
		return o, err
	}
	o.FS, o.Getenv, o.Now, o.Timeout, o.Machine = c.fs, c.Getenv, c.now, timeout, c.machine
	o.Version, _ = buildVersion()
	o.Explain, o.DescribeProcess = classify, describeProcess
	store := o.Store
	if real, err := c.fs.Resolve(store); err == nil {
		store = real
	}
	o.CheckStore = func() (*doctor.Report, error) {
		r, err := c.check(store)
		if err != nil {
			return nil, err
		}
		if err := r.Err(); errors.Is(err, crmem.ErrNoStore) {
			return nil, err
		}
		a := &doctor.Report{Summary: store + ": " + display.Plural(r.Entries, "entry", "entries"), Count: len(r.Problems)}
		if r.PurgePending {
			a.Problems = append(a.Problems, problem(purgePending, "run crabmem checkpoint", true))
			a.Count++
		}
		for _, p := range r.Problems {
			a.Problems = append(a.Problems, problem(p.Message, p.Remedy, p.IsTorn()))
		}
		pending, err := c.pendingPurges(o.Home, store)
		a.Problems, a.Count = append(a.Problems, pending...), a.Count+len(pending)
		return a, err
	}
	o.CheckSessions = c.examineSessions
	o.CheckSkills = func() (*doctor.Report, error) {
		list, found, err := c.checkSkills(skill.Dir{Path: filepath.Join(o.Home, "skills"), Tier: skill.Workspace, Links: true})
		a := &doctor.Report{Summary: display.Plural(len(list), "skill", "skills"), Count: len(found)}
		for _, p := range found {
			a.Problems = append(a.Problems, problem(skillMessage(p), p.Remedy, true)) // the daemon works without the skill
		}
		return a, err
	}
	o.Telegram = c.telegramConfig
	o.Skills = func() (*skill.Set, error) { return c.loadSkills(nil) }
	return o, nil
}

// pendingPurges returns a warning for each space of a home, other than that of store, with
// a purge that is not complete, and a failure for each that cannot be read.
func (c *app) pendingPurges(home, store string) (found []doctor.Finding, err error) {
	names, err := space.Names(c.fs, home)
	for _, name := range names {
		path := space.File(home, name)
		if real, err := c.fs.Resolve(path); err == nil {
			path = real
		}
		if _, err := c.fs.Lstat(path); path == store || missing(err) {
			continue
		}
		name = c.spaceLabel(name)
		pending, perr := crmem.PurgePending(c.fs, path, 0)
		switch {
		case perr != nil:
			found = append(found, problem("space "+name+": "+perr.Error(), "run crabmem verify --space "+name, false))
		case pending:
			found = append(found, problem("space "+name+": "+purgePending, "run crabmem checkpoint --space "+name, true))
		}
	}
	return found, err
}

func problem(what, remedy string, warning bool) doctor.Finding {
	if warning {
		return doctor.Finding{State: doctor.Warn, What: what, Remedy: remedy}
	}
	return doctor.Finding{State: doctor.Fail, What: what, Remedy: remedy}
}

// examineSessions makes the check of sessions verify for the doctor.
func (c *app) examineSessions() (*doctor.Report, map[string]bool, error) {
	ids, r := make(map[string]bool), &sessionsReport{}
	err := c.readSessions(func(dir *sessionlog.Dir) error {
		infos, err := dir.ListAll()
		if err != nil {
			return err
		}
		for _, i := range infos {
			ids[i.ID] = true
		}
		return r.all(dir)
	})
	a := &doctor.Report{Summary: display.Plural(r.Sessions, "session", "sessions"), Count: r.count}
	for _, p := range r.Problems {
		a.Problems = append(a.Problems, problem(p.Message, p.Remedy, p.Kind == problemTorn))
	}
	return a, ids, err
}

type doctorAnswer struct {
	Home     string           `json:"home"`
	Failures int              `json:"failures"`
	Warnings int              `json:"warnings"`
	Checks   []doctor.Finding `json:"checks"`
}

// printDiagnosis writes the findings, and counts those that are not ok.
func (c *app) printDiagnosis(a *doctorAnswer) error {
	wide := 0
	for _, f := range a.Checks {
		wide = max(wide, cli.Columns(display.Printable(f.Name)))
		switch f.State {
		case doctor.Fail:
			a.Failures++
		case doctor.Warn:
			a.Warnings++
		}
	}
	return c.printFailing(a, a.Failures > 0, func() {
		for _, f := range a.Checks {
			if c.Quiet && f.State == doctor.OK {
				continue
			}
			state := fmt.Sprintf("%-4s", f.State)
			if f.State != doctor.OK {
				state = c.Bold(state)
			}
			name := display.Printable(f.Name)
			fmt.Fprintf(c.Out, "%s  %s%*s  %s\n", state, name, wide-cli.Columns(name), "", display.Printable(f.What))
			if f.Remedy != "" {
				fmt.Fprintf(c.Out, "%*s  try: %s\n", wide+6, "", display.Printable(f.Remedy))
			}
		}
		if a.Failures+a.Warnings == 0 {
			c.Say("no problems found")
		} else {
			c.Say("%s, %s", display.Plural(a.Failures, "failure", "failures"), display.Plural(a.Warnings, "warning", "warnings"))
		}
	})
}
