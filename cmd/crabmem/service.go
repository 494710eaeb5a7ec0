package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/box"
	"crabmem/daemon/channel"
	"crabmem/daemon/display"
	"crabmem/daemon/gateway"
	"crabmem/daemon/service"

	"github.com/spf13/cobra"
)

func serviceCommand(c *app) *cobra.Command {
	cmd := family(&cobra.Command{
		Use:     "service COMMAND",
		GroupID: groupAgents,
		Short:   "manage the daemon as a system service",
		Long: `Run the daemon at login and restart it when it exits. service uses a systemd
user unit, a launchd agent, or a Task Scheduler task named ai.crabtalk.crabmem.
The service runs as you and does not need root.

With --gateway, the commands manage crabmem gateway as a second service, named
ai.crabtalk.crabmem-gateway. Set its address in config/gateway.toml. With
--telegram, they manage crabmem telegram, as ai.crabtalk.crabmem-telegram.

The service gets the PATH of the shell that installs it, and no other variable
of your shell: store keys in files and set api_key_file. After crabmem daemon
stop, the system restarts the daemon. To stop it until the next login, use
crabmem service stop.`,
		Example: `  crabmem service install
  crabmem service status`,
	}, serviceInstall(c), serviceStart(c), serviceStop(c), serviceStatus(c), serviceLogs(c), serviceUninstall(c))
	for name, side := range sides {
		cmd.PersistentFlags().BoolFunc(name, "manage the service of "+side.of, func(text string) error {
			if text != "true" || c.side != "" {
				return errors.New("name one service")
			}
			c.side = name
			return nil
		})
	}
	return c.outputs(cmd, of[serviceState]())
}

// serviceName is part of the label, and the name of the file for output outside the daemon's
// log.
const serviceName = "crabmem"

// sides are the processes next to the daemon that a service can run, by their commands.
var sides = map[string]struct{ of, description, fix string }{
	"gateway":  {"the gateway", "crabmem: memory and agents over HTTP", "[server] in config/gateway.toml must set a port"},
	"telegram": {"the Telegram channel", "crabmem: agents in Telegram", "run crabmem channels test telegram"},
}

// service returns the service of this command line: the daemon, or a process next to it.
func (c *app) service() *service.Service {
	if c.side == "" {
		return c.daemonService()
	}
	return c.sideService(c.side)
}

func (c *app) sideService(side string) *service.Service {
	home := c.absHome()
	return &service.Service{Name: serviceName + "-" + side, Description: sides[side].description, Home: home, FS: c.fs, Args: []string{side, "--home", home}}
}

// daemonService is the daemon of this command line as a service. Its log is the
// daemon's to rotate.
func (c *app) daemonService() *service.Service {
	home := c.absHome()
	return &service.Service{Name: serviceName, Description: "crabmem: agents that remember", Home: home, FS: c.fs, Args: c.daemonArgs(home), Reloads: true}
}

// daemonArgs returns the arguments for a daemon with the settings of this
// command line.
func (c *app) daemonArgs(home string) []string {
	args := []string{"daemon", "--home", home, "--log", logFile(home)}
	if store := absPath(c.storePath()); store != filepath.Join(home, "memory.db") {
		args = append(args, "--db", store)
	}
	return args
}

// serviceState is the output of service --json.
type serviceState struct {
	Installed bool   `json:"installed"`
	Running   bool   `json:"running"`       // also if the system did not start it
	Pid       int    `json:"pid,omitempty"` // of the daemon
	Label     string `json:"label"`
	File      string `json:"file"` // that defines the service
	Home      string `json:"home"`
	Log       string `json:"log"`
	Text      string `json:"text,omitempty"` // of the file, with --print

	hung error // why the daemon of the home does not respond
	what string
}

// running sets whether the service's process responds.
func (st *serviceState) running(ctx context.Context, c *app) error {
	switch c.side {
	case box.Telegram:
		st.Running = channel.Runs(c.fs, c.absHome(), box.Telegram)
		return nil
	case "gateway":
		home, conf, err := c.gatewayConfig()
		st.Running = err == nil && gateway.Answers(ctx, &conf.Server, gateway.HomeID(c.fs, home))
		return err
	}
	cl, h, err := c.running(ctx)
	if err == nil {
		cl.Close() //nolint:errcheck // it has responded
		st.Running, st.Pid = true, h.PID
	}
	return err
}

// pid returns the end of a message about a process that runs.
func (st *serviceState) pid() string {
	if st.Pid == 0 {
		return ""
	}
	return fmt.Sprintf(": pid %d", st.Pid)
}

func (c *app) serviceState(ctx context.Context, s *service.Service) (serviceState, error) {
	file, ok, err := s.Installed()
	st := serviceState{Installed: ok, Label: s.Label(), File: file, Home: s.Home, Log: logFile(s.Home), what: "daemon"}
	if c.side != "" {
		st.what = c.side
		if st.Log, err = s.LogFile(); err != nil {
			return st, err
		}
	}
	if err != nil {
		return st, err
	}
	if err := st.running(ctx, c); c.side != "" {
		return st, err // of the configuration
	} else if isUnresponsive(err) {
		st.hung = err
	}
	return st, nil
}

// onService makes cmd run f on its command line's service.
func (c *app) onService(cmd *cobra.Command, f func(ctx context.Context, s *service.Service, st serviceState) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s := c.service()
		st, err := c.serviceState(cmd.Context(), s)
		if err != nil {
			return err
		}
		return c.aboutService(f(cmd.Context(), s, st))
	}
	return cmd
}

// aboutService adds fixes to the errors of a service.
func (c *app) aboutService(err error) error {
	switch {
	case errors.Is(err, service.ErrNotInstalled):
		return &cli.Failure{Code: cli.ExitNotFound, Kind: "not_installed", Message: err.Error(), Remedy: "crabmem service install" + c.sideFlag(), Err: err}
	case errors.Is(err, exec.ErrNotFound):
		return &cli.Failure{Code: cli.ExitFailure, Kind: "no_services", Message: err.Error(), Err: err,
			Remedy: "run crabmem daemon start to run the daemon without a service, or crabmem service install --print to see the definition"}
	case errors.As(err, new(*exec.ExitError)):
		return &cli.Failure{Code: cli.ExitFailure, Kind: "service", Message: err.Error(), Err: err,
			Remedy: "see crabmem service logs, or run crabmem daemon start to run the daemon without a service"}
	}
	return err
}

// saidService prints the result of a command.
func (c *app) saidService(st serviceState, format string, args ...any) error {
	return c.printResult(st, func() { c.Say(format, args...) })
}

// answers waits until the process that the system has started responds.
func (c *app) answers(ctx context.Context, st *serviceState) error {
	late := time.After(startWait)
	for {
		err := st.running(ctx, c)
		if st.Running {
			return nil
		}
		select {
		case <-late:
			return &cli.Failure{Code: cli.ExitUnreachable, Kind: "no_" + st.what, Path: st.Log, Message: fmt.Sprintf("start service: the %s did not respond within %s", st.what, startWait),
				Remedy: c.logsFix(st.Log), Err: err}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// logsFix says where the output of a process is that did not respond.
func (c *app) logsFix(log string) string {
	if c.side != "" {
		return "see crabmem service logs" + c.sideFlag() + "; " + sides[c.side].fix
	}
	return "see crabmem service logs and " + filepath.Join(filepath.Dir(log), serviceName+".log")
}

// sideFlag returns the flag for a fix's commands.
func (c *app) sideFlag() string {
	if c.side == "" {
		return ""
	}
	return " --" + c.side
}

func serviceInstall(c *app) *cobra.Command {
	var show bool
	var system string
	cmd := &cobra.Command{
		Use:   "install",
		Short: "install and start the service",
		Long: `Install the service and start it. install replaces and restarts an installed
service. --print prints the service definition for this system, or for --system,
and changes nothing.`,
		Example: `  crabmem service install
  crabmem service install --print
  crabmem service install --gateway --print
  crabmem service install --print --system darwin`,
	}
	systems := []cobra.Completion{"linux", "darwin", "windows"}
	cmd.Flags().BoolVar(&show, "print", false, "print the definition, change nothing")
	cmd.Flags().StringVar(&system, "system", "", "with --print: `system` linux, darwin, or windows (default: this one)")
	completeWords(cmd, "system", systems...)
	return c.onService(cmd, func(ctx context.Context, s *service.Service, st serviceState) error {
		if system != "" && !show {
			return cli.Usagef("--system requires --print")
		}
		if system != "" && !slices.Contains(systems, system) {
			return cli.Usagef("--system %q: want linux, darwin, or windows", system)
		}
		if show {
			return c.printService(s, st, system)
		}
		if st.Running && !st.Installed {
			f := &cli.Failure{Code: cli.ExitConflict, Kind: "running", Message: fmt.Sprintf("a %s is already running, but not as a service%s", st.what, st.pid()),
				Remedy: "run crabmem daemon stop, then crabmem service install"}
			if c.side != "" {
				f.Remedy = "stop it, then run crabmem service install" + c.sideFlag()
			}
			return f
		}
		if st.hung != nil {
			return st.hung
		}
		if c.side == "" {
			c.warnEnvironment(s.Home)
		}
		if err := c.Wait(ctx, func() error { return s.Start(ctx) }); err != nil {
			return err
		}
		st.Installed = true
		if err := c.answers(ctx, &st); err != nil {
			return err
		}
		return c.saidService(st, "installed %s%s", display.Printable(st.File), st.pid())
	})
}

func (c *app) printService(s *service.Service, st serviceState, system string) error {
	if system == "" {
		system = runtime.GOOS
	}
	file, text, err := s.For(system).Render()
	if err != nil {
		return err
	}
	st.File, st.Text = file, string(text)
	return c.printResult(st, func() { c.Out.Write(text) })
}

func serviceStart(c *app) *cobra.Command {
	return c.onService(&cobra.Command{
		Use:   "start",
		Short: "start the service",
		Long: `Start the installed service, and wait until it answers. If it runs, it keeps
running.`,
		Example: `  crabmem service install && crabmem service start`,
	}, func(ctx context.Context, s *service.Service, st serviceState) error {
		if st.Installed && st.Running {
			return c.saidService(st, "the %s is already running%s", st.what, st.pid())
		}
		if st.hung != nil {
			return st.hung
		}
		if err := c.Wait(ctx, func() error { return s.Launch(ctx) }); err != nil {
			return err
		}
		if err := c.answers(ctx, &st); err != nil {
			return err
		}
		return c.saidService(st, "started%s", st.pid())
	})
}

func serviceStop(c *app) *cobra.Command {
	return c.onService(&cobra.Command{
		Use:   "stop",
		Short: "stop the service until the next login",
		Long: `Stop the service. It stays installed. It starts at the next login, or with
crabmem service start.`,
		Example: `  crabmem service install && crabmem service stop`,
	}, func(ctx context.Context, s *service.Service, st serviceState) error {
		if st.Installed && !st.Running && st.hung == nil {
			return c.saidService(st, "the service is not running")
		}
		if err := c.Wait(ctx, func() error { return s.End(ctx) }); err != nil {
			return err
		}
		pid := st.pid()
		st.Running, st.Pid = false, 0
		return c.saidService(st, "stopped%s", pid)
	})
}

func serviceStatus(c *app) *cobra.Command {
	return c.onService(&cobra.Command{
		Use:   "status",
		Short: "show whether the service is installed and runs",
		Long: `Show whether the service is installed, and whether its process runs. The exit
code is 3 if the service is not installed, and 8 if the process does not run.`,
		Example: `  crabmem service install && crabmem service status
  crabmem service status --json`,
	}, func(ctx context.Context, s *service.Service, st serviceState) error {
		if !st.Installed {
			return fmt.Errorf("%w: %s not found", service.ErrNotInstalled, st.File)
		}
		if st.hung != nil {
			return st.hung
		}
		if !st.Running {
			return &cli.Failure{Code: cli.ExitUnreachable, Kind: "no_" + st.what, Path: st.File, Message: fmt.Sprintf("the service is installed, but no %s answers: %s", st.what, st.File),
				Remedy: fmt.Sprintf("run crabmem service start%s; run crabmem service logs%[1]s to see why the %s exited", c.sideFlag(), st.what)}
		}
		return c.printResult(st, func() {
			row := func(name, text string) { fmt.Fprintf(c.Out, "%-9s %s\n", name, text) }
			row("service", st.Label)
			row("file", display.Printable(st.File))
			if st.Pid != 0 {
				row("pid", fmt.Sprint(st.Pid))
			}
			row("home", display.Printable(st.Home))
			row("log", display.Printable(st.Log))
		})
	})
}

func serviceLogs(c *app) *cobra.Command {
	cmd := c.logsCommand(func() (string, error) {
		if c.side == "" {
			return c.daemonLog()
		}
		return c.service().LogFile()
	})
	cmd.Short = "print the log of the service"
	cmd.Long = `Print the last lines of logs/daemon.log in the home directory, as crabmem daemon
logs does. If the daemon fails to start, its output is in logs/crabmem.log. With
--gateway, the log is logs/crabmem-gateway.log, and with --telegram,
logs/crabmem-telegram.log.`
	cmd.Example = `  crabmem service install && crabmem service logs -n 5`
	return cmd
}

func serviceUninstall(c *app) *cobra.Command {
	return c.onService(&cobra.Command{
		Use:   "uninstall",
		Short: "stop and remove the service",
		Long: `Stop the service, and remove it. The home directory does not change.
If the service is not installed, uninstall exits with 0.`,
		Example: `  crabmem service install && crabmem service uninstall`,
	}, func(ctx context.Context, s *service.Service, st serviceState) error {
		if !st.Installed {
			return c.saidService(st, "the service is not installed")
		}
		if err := c.Wait(ctx, func() error { return s.Stop(ctx) }); err != nil {
			return err
		}
		st.Installed, st.Running, st.Pid = false, false, 0
		return c.saidService(st, "uninstalled: removed %s", display.Printable(st.File))
	})
}
