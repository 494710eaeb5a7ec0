package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"iter"
	"slices"
	"strings"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/crmem"
	"crabmem/daemon/op"
	"crabmem/daemon/remote"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// remoteCommands are the commands that a gateway serves, and their flags that it does not
// serve.
var remoteCommands = map[string][]string{
	"append":      {"allow-secrets"},
	"attach":      {"cwd"},
	"chat":        {"cwd"},
	"context":     nil,
	"cron add":    nil,
	"cron list":   nil,
	"cron remove": nil,
	"forget":      {"purge", "at", "everywhere"},
	"hook":        nil,
	"list":        {"deleted"},
	"log":         nil,
	"mcp":         {"namespace", "compat"},
	"pin":         nil,
	"recall":      {"at"},
	"remember":    {"allow-secrets", "allow-empty", "kind"},
	"send":        {"cwd"},
	"show":        {"at"},
	"tag":         nil,
	"tags":        nil,
	"tasks add":   {"allow-secrets"},
	"tasks list":  nil,
	"tasks set":   {"allow-secrets"},
	"tasks show":  nil,
	"unpin":       nil,
	"work answer": nil,
	"work cancel": nil,
	"work list":   nil,
	"work route":  nil,
}

// localCommands are the commands that manage this machine. They ignore CRABMEM_GATEWAY.
var localCommands = []string{"bench", "channels", "completion", "components", "config", "daemon", "demo", "doctor", "gateway", "help", "hub", "init", "man", "model",
	"open", "schema", "secret", "service", "skills", "telegram", "uninstall", "version", "workspace"}

// clientCommands change the configuration of programs on this machine. Those that install write
// the gateway into it.
var clientCommands = []string{"hooks install", "hooks uninstall", "mcp install", "mcp uninstall"}

const (
	gatewayVariable = "CRABMEM_GATEWAY"
	rootsVariable   = "CRABMEM_GATEWAY_CA"
)

// gatewayURL returns the URL that --gateway or CRABMEM_GATEWAY sets, or "". A store that --db
// names is local.
func (c *app) gatewayURL() string {
	if c.gateway == "" && c.db == "" {
		return c.Getenv(gatewayVariable)
	}
	return c.gateway
}

// chooseGateway sets c.remote if the command uses a gateway. top is the command's first
// word. It is the only place that decides so.
func (c *app) chooseGateway(cmd, top *cobra.Command) error {
	url := c.gatewayURL()
	here := top == cmd.Root() || slices.Contains(localCommands, top.Name())
	if url == "" || here && c.gateway == "" {
		c.local = true
		return nil
	}
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	if slices.Contains(clientCommands, name) && (c.gateway == "" || strings.HasSuffix(name, " install")) {
		c.local = true
		_, err := remote.ParseURL(url)
		return err
	}
	unserved, served := remoteCommands[name]
	set := gatewayVariable
	if c.gateway != "" {
		set = "--gateway"
	}
	switch {
	case strings.HasSuffix(cmd.Use, " COMMAND") || strings.HasPrefix(name, cobra.ShellCompRequestCmd): // help, and completion, for which checkLocal refuses local names
		return nil
	case here:
		return cli.Usagef("%s does not use --gateway: remove it", cmd.CommandPath())
	case !served:
		return unservedUse(cmd.CommandPath(), set)
	}
	if err := atMostOne(cmd, "gateway", "db"); err != nil {
		return err
	}
	var flag *pflag.Flag
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains(unserved, f.Name) && f.Value.String() != f.DefValue {
			flag = f
		}
	})
	if flag != nil {
		return unservedUse(cmd.CommandPath()+" --"+flag.Name, set)
	}
	return c.connectGateway(url, set)
}

// unservedUse returns the error for a use of a command that a gateway does not serve. set is
// where the gateway is set.
func unservedUse(what, set string) error {
	return &cli.Failure{Code: cli.ExitUsage, Kind: "usage", Message: fmt.Sprintf("%s is set, and a gateway does not serve %s; nothing was done", set, what),
		Remedy: "run it on the machine of the gateway, or use the local memory without " + set}
}

// connectGateway sets c.remote to a client of a gateway.
func (c *app) connectGateway(text, set string) error {
	url, err := remote.ParseURL(text)
	if err != nil {
		f := classify(err)
		f.Message = set + ": " + f.Message
		return f
	}
	var roots *x509.CertPool
	if file := c.Getenv(rootsVariable); file != "" {
		if roots, err = remote.ReadRoots(c.fs, file); err != nil {
			return err
		}
	}
	name := remote.SecretName(url)
	values, err := c.secrets().Open()
	key := ""
	if err == nil {
		key, err = values.Get(name)
	}
	if err != nil {
		f := classify(err)
		if f.Kind == "not_found" {
			f.Code, f.Kind, f.Message = cli.ExitPermission, "no_key", fmt.Sprintf("no key for the gateway %s: this home has no secret %s", url, name)
			f.Remedy = "run crabmem gateway key add NAME on the machine of the gateway, then crabmem secret set " + name + " here"
		}
		return f
	}
	c.remote = remote.New(url, strings.TrimSpace(key), roots)
	c.remote.Space, c.remote.Warn = c.space, c.Warn
	return nil
}

// checkLocal returns an error if the command may not use the store of this machine.
func (c *app) checkLocal() error {
	if c.local || c.remote == nil && c.gatewayURL() == "" {
		return nil
	}
	return unservedUse("this use of the store", cmp.Or(map[bool]string{true: "--gateway"}[c.gateway != ""], gatewayVariable))
}

// eachEntry calls f with the entries of the store, and with a function that adds their use.
func (c *app) eachEntry(ctx context.Context, f func(iter.Seq[crmem.Entry], func(...*crmem.EntryInfo)) error) error {
	if c.remote == nil {
		return c.read(func(s *crmem.Store) error { return f(s.All(), s.AddUse) })
	}
	entries, err := op.AllEntries(ctx, c.remote)
	if err != nil {
		return err
	}
	used := make(map[uint64]crmem.Use)
	for _, e := range entries {
		used[e.ID] = e.Use
	}
	return f(func(yield func(crmem.Entry) bool) {
		for _, e := range entries {
			if !yield(e.Entry()) {
				return
			}
		}
	}, func(infos ...*crmem.EntryInfo) {
		for _, i := range infos {
			i.Use = used[i.ID]
		}
	})
}

// readStore carries out an operation that reads a store.
func readStore[I, O any](ctx context.Context, c *app, o crmem.Options, row *op.Action[I, O], in I) (O, error) {
	if c.remote != nil {
		return row.Do(ctx, c.remote, in)
	}
	with := func(f func(*crmem.Store) error) error { return c.readWith(o, f) }
	return resultOf(with, func(s *crmem.Store) (O, error) { return row.Do(ctx, op.Store{Store: s, Now: c.now}, in) })
}
