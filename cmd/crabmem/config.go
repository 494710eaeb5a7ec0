package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/cmd/crabmem/internal/doctor"
	"crabmem/crmem/vfs"
	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/daemon/tool"

	"github.com/spf13/cobra"
)

// maxConfig is how long a configuration may be that is set.
const maxConfig = 4 << 20

func configCommand(c *app) *cobra.Command {
	return family(&cobra.Command{
		Use:     "config COMMAND",
		GroupID: groupAgents,
		Short:   "show, change, and check the configuration",
		Long: `The daemon's configuration is config.toml in the home directory. Agents are in
agents/*.md. These commands need no daemon. If a daemon runs, config set makes
it reload the configuration, with the variables of its own environment. crabmem
init writes the file, and config get prints every key with its value.`,
		Example: `  crabmem config check
  crabmem config get system.crab.model`,
	}, configGet(c), configSet(c), configEdit(c), configCheck(c), configPath(c))
}

func configGet(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "get [KEY]",
		Short: "print the configuration, or a part of it",
		Long: `Print config.toml as JSON, with defaults for absent keys. get prints API
keys, tokens, and environment values as "". KEY is a path with dots, such as
system.crab.model. If KEY does not exist, the exit code is 3.`,
		Example: `  crabmem config get
  crabmem config get system.crab --json`,
		Args:              atMost(1, "KEY"),
		ValidArgsFunction: c.completeConfigKeys(false),
	}, func(_ context.Context, args []string) (any, error) {
		v, err := c.configValue()
		if err != nil || len(args) == 0 {
			return v, err
		}
		v, ok := lookup(v, args[0])
		if !ok {
			return nil, &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Message: "no key " + display.Quoted(args[0]), Path: filepath.Join(c.homeDir(), config.File),
				Remedy: "run crabmem config get to list the keys"}
		}
		return v, nil
	}, func(v any) {
		if s, ok := v.(string); ok {
			c.Out.WriteString(display.Printable(s) + "\n")
			return
		}
		text := json.NewEncoder(c.Out)
		text.SetEscapeHTML(false)
		text.SetIndent("", "  ")
		_ = text.Encode(v) // a decoded value; Flush reports an error of the output
	})
}

// configValue is the configuration without its secrets.
func (c *app) configValue() (any, error) {
	b, err := config.Get(c.fs, c.homeDir())
	if err != nil {
		return nil, err
	}
	return decodeJSON(b)
}

// decodeJSON keeps numbers as they are written.
func decodeJSON(b []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("more than one value")
	}
	return v, nil
}

func lookup(v any, path string) (any, bool) {
	for key := range strings.SplitSeq(path, ".") {
		table, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = table[key]; !ok {
			return nil, false
		}
	}
	return v, true
}

// configWritten is config set --json.
type configWritten struct {
	Path  string   `json:"path"`
	Used  bool     `json:"used"`  // a daemon uses it already
	Notes []string `json:"notes"` // remarks on the change
}

func configSet(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "set KEY VALUE [KEY VALUE]... | set FILE|-",
		Short: "change the configuration",
		Long: `Set keys of config.toml in one step. With one argument, set replaces the
configuration with a JSON file in the format of config get; "-" reads standard
input. KEY is a path with dots. VALUE is JSON; set stores any other text as a
string. null removes a key. A secret that is "" keeps its old value. A provider
needs several keys: set them in one command.

If the change introduces a problem, set lists every problem and changes nothing.
Other problems of the configuration are warnings. set changes only the lines of
the keys: comments and the order of the keys remain. A running daemon reloads
the configuration; active runs and sessions continue.`,
		Example: `  crabmem config set system.crab.model offline
  crabmem config set provider.lab.kind ollama provider.lab.models '["qwen3"]'
  crabmem config get --json | crabmem config set - --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if n := len(args); n == 0 || n > 1 && n%2 != 0 {
				return wrongArgs(cmd, "want KEY and VALUE, or several of both, or FILE (or -)")
			}
			return nil
		},
		ValidArgsFunction: c.completeConfigKeys(true),
	}, c.setConfig, func(a configWritten) { c.sayWritten("set", a) })
}

// setConfig sets the configuration of a file, or keys.
func (c *app) setConfig(ctx context.Context, args []string) (configWritten, error) {
	if len(args) > 1 {
		var in op.ConfigChange
		for pair := range slices.Chunk(args, 2) {
			value := []byte(pair[1])
			if _, err := decodeJSON(value); err != nil {
				if value, err = display.JSON(pair[1]); err != nil {
					return configWritten{}, err
				}
			}
			in.Keys = append(in.Keys, config.Pair{Key: pair[0], Value: string(value)})
		}
		return c.writeConfig(ctx, in)
	}
	var js []byte
	var err error
	if args[0] == "-" {
		var text string
		text, err = c.ReadInput(ctx, maxConfig)
		js = []byte(text)
	} else {
		js, err = vfs.ReadFile(c.fs, args[0], maxConfig)
	}
	if err != nil {
		return configWritten{}, err
	}
	return c.writeConfig(ctx, op.ConfigChange{Config: string(js)})
}

// writeConfig changes the configuration: a running daemon makes the change and uses the
// configuration. Without one, this process makes the change.
func (c *app) writeConfig(ctx context.Context, in op.ConfigChange) (a configWritten, err error) {
	home := c.homeDir()
	a = configWritten{Path: filepath.Join(home, config.File), Notes: []string{}}
	d, _, err := c.running(ctx)
	switch {
	case err == nil:
		in.Wait = c.lockWait
		done, serr := op.SetConfig.Do(ctx, d, in)
		err = client.OutcomeUnknown(errors.Join(serr, d.Close()))
		a.Used = done.Used
		c.noteProblems(&a, doctor.ByDaemon(done.Problems))
	case classify(err).Kind != "no_daemon":
		return a, client.Unreachable(err)
	default:
		err = c.lockConfig(home, func() error {
			done, err := in.Apply(space.Home{FS: c.fs, Path: home}, c.Getenv)
			if err == nil {
				c.noteProblems(&a, done.Problems)
			}
			return err
		})
	}
	if err == nil {
		return a, nil
	}
	if f := classify(err); f.Kind == "config" {
		if ps, ok := f.More.(config.Problems); ok && ps[0].Fix != "" {
			f.Remedy = "nothing was changed: " + ps[0].Fix
		} else {
			f.Remedy = "nothing was changed; run crabmem config get to list the keys, then correct the value"
		}
		return a, f
	}
	return a, err
}

// noteProblems adds the problems that the configuration has after a change.
func (c *app) noteProblems(a *configWritten, ps config.Problems) {
	for _, p := range ps {
		a.Notes = append(a.Notes, p.String()+": "+p.Repair())
		c.Warn(a.Notes[len(a.Notes)-1])
	}
}

// lockConfig calls change while it holds the lock of config.toml.
func (c *app) lockConfig(home string, change func() error) error {
	return config.Locked(c.fs, home, c.lockWait, change)
}

func (c *app) sayWritten(verb string, a configWritten) {
	used := ""
	if a.Used {
		used = "; the daemon reloaded the configuration"
	}
	c.Say("%s %s%s", verb, display.Printable(a.Path), used)
}

// describeConfig describes problems of the configuration.
func describeConfig(f *cli.Failure, ps config.Problems) {
	f.Code, f.Kind, f.Path, f.Remedy, f.More = cli.ExitFailure, "config", ps[0].Path, ps[0].Repair(), ps
}

func configPath(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "path",
		Short: "print the path of config.toml",
		Long: `Print the path of config.toml, even if the file does not exist. --home,
CRABTALK_HOME, or ~/.crabtalk sets the home directory.`,
		Example: `  crabmem config path
  crabmem config path --json`,
	}, func(context.Context, []string) (a configFile, err error) {
		a.Path = filepath.Join(c.homeDir(), config.File)
		_, err = c.fs.Lstat(a.Path)
		if a.Exists = err == nil; missing(err) {
			err = nil
		}
		return a, err
	}, func(a configFile) { c.Out.WriteString(display.Printable(a.Path) + "\n") })
}

// configFile is config path --json.
type configFile struct {
	Exists bool   `json:"exists"`
	Path   string `json:"path"`
}

// configChecked is the output of config check --json.
type configChecked struct {
	Path      string   `json:"path"`
	Model     string   `json:"model"`
	Providers []string `json:"providers"`
	Agents    []string `json:"agents"`
	Daemon    bool     `json:"daemon"` // the daemon checked it, with its environment

	Identity []config.Identity `json:"identity"` // files, in the order of the prompt
	Warnings config.Problems   `json:"warnings"`
}

func configCheck(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "check",
		Short: "find problems in the configuration",
		Long: `Read config.toml, agents/*.md, Crab.md, SOUL.md, IDENTITY.md, and USER.md, as
the daemon does. The last four files, in this order, are the prompt of the agent
crab; other agents receive them as instructions.

If there are problems, check lists each with its file and line, and exits with
1. The daemon runs without a provider whose key is missing, and without an agent
whose file is invalid. Keys and patterns without effect are warnings and do not
change the exit code. A missing config.toml is valid. While a daemon runs, it
checks the files with its own environment, which contains its keys. crabmem
doctor also checks the keys.`,
		Example: `  crabmem config check
  crabmem config check --json`,
	}, func(ctx context.Context, _ []string) (a configChecked, err error) {
		home := c.homeDir()
		r, byDaemon, err := c.checkConfig(ctx, home)
		if err != nil {
			return a, err
		}
		a = configChecked{Path: filepath.Join(home, config.File), Model: r.Model, Providers: append([]string{}, r.Providers...), Agents: append([]string{}, r.Agents...), Daemon: byDaemon}
		// Variables and secrets do not matter for the warnings; only the daemon may have them.
		conf, err := config.LoadStructure(c.fs, home, c.Getenv)
		if err != nil {
			return a, err
		}
		a.Identity = append([]config.Identity{}, conf.Identity...)
		a.Warnings, err = c.configWarnings(conf)
		return a, err
	}, func(a configChecked) {
		for _, w := range a.Warnings {
			c.Warn(w.String())
		}
		for _, f := range a.Identity {
			c.Say("identity: %s, %s", display.Printable(f.Path), display.Size(int64(f.Bytes)))
		}
		by := ""
		if a.Daemon {
			by = "; checked by the daemon"
		}
		c.Say("%s is valid: %s, %s, model %s%s", display.Printable(a.Path), display.Plural(len(a.Agents), "agent", "agents"),
			display.Plural(len(a.Providers), "provider", "providers"), display.Label(a.Model), by)
	})
}

// checkConfig makes the daemon of the home check the configuration. If no daemon
// runs for this home, this process checks it, with its own environment variables.
func (c *app) checkConfig(ctx context.Context, home string) (r op.CheckedConfig, byDaemon bool, err error) {
	d, h, err := c.running(ctx)
	if err == nil {
		defer d.Close() //nolint:errcheck // the response has arrived
		if real, rerr := c.fs.Resolve(home); rerr == nil && h.Home == real {
			r, err := op.CheckConfig.Do(ctx, d, op.ConfigToCheck{})
			if err == nil && len(r.Problems) > 0 {
				err = doctor.ByDaemon(r.Problems)
			}
			return r, true, err
		}
	} else if kind := classify(err).Kind; kind != "no_daemon" {
		c.Warn("the daemon did not check the files; check uses the variables of its own environment: " + err.Error())
	}
	here := op.Parts{ReadConfig: func() (*config.Config, error) { return config.Load(c.fs, home, c.Getenv) }}
	r, err = op.CheckConfig.Do(ctx, op.Local{On: op.Daemon{Parts: &here}}, op.ConfigToCheck{})
	if err == nil && len(r.Problems) > 0 {
		err = r.Problems
	}
	return r, false, err
}

// configWarnings returns a warning for each setting of the configuration and of the
// skills that has no effect.
func (c *app) configWarnings(conf *config.Config) (config.Problems, error) {
	list := append(config.Problems{}, conf.Warnings...)
	list = append(list, conf.UnmatchedTools(tool.Unmatched, tool.BuiltIn())...)
	set, err := c.loadSkills(nil)
	if err != nil {
		return nil, err
	}
	for _, s := range set.Skills(tool.Unbounded()) {
		for _, w := range s.Unmatched(tool.BuiltIn()) {
			list = append(list, config.Problem{Path: w.File, Line: w.Line, Message: w.Text + "; " + w.Remedy})
		}
	}
	return list, nil
}

// maxEnvironment bounds the warnings of warnEnvironment.
const maxEnvironment = 5

// warnEnvironment lists the variables that the configuration needs but a
// service lacks.
func (c *app) warnEnvironment(home string) {
	shell := map[string]bool{"HOME": true, "PATH": true, "USER": true, "LOGNAME": true, "SHELL": true, "LANG": true, "USERPROFILE": true}
	here, err := config.Load(c.fs, home, c.Getenv)
	if err != nil || len(here.Broken) > 0 {
		return // whatever it is, it is not the service
	}
	conf, err := config.Load(c.fs, home, func(name string) string {
		if shell[name] {
			return c.Getenv(name)
		}
		return ""
	})
	if err != nil {
		return
	}
	for _, p := range conf.Broken[:min(len(conf.Broken), maxEnvironment)] {
		c.Warn(p.String() + ": the service does not inherit your shell environment: put the value into a file (api_key_file), or set the variable for services")
	}
}
