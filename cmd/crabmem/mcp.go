package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/mcpserver"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/sessionlog"

	"github.com/spf13/cobra"
)

type mcpFlags struct {
	readOnly   bool
	namespace  string
	compat     string
	http       string
	tokenFile  string
	allowHosts []string
}

func mcpCommand(c *app) *cobra.Command {
	var f mcpFlags
	cmd := &cobra.Command{
		Use:     "mcp",
		GroupID: groupTalk,
		Short:   "serve the store over the Model Context Protocol",
		Long: `Serve the store over the Model Context Protocol on standard input and output.
The server stops at the end of input. The tools are remember, append, edit,
recall, forget, restore, list_memories, get_memory, memory_history,
memory_context, pin, task_list, task_create, task_update, and session_search.
Entries are also resources: crabmem://note/NAME and crabmem://archive/NAME.
crabmem://context is the text of crabmem context. crabmem mcp install adds the
server to a client. Other clients need an entry such as

  {"mcpServers": {"crabmem": {"command": "crabmem", "args": ["mcp"]}}}

Several servers may use one store. A server holds the store's lock only during a
write. If a daemon holds the lock, the server sends the write to the daemon. An
acknowledged write is on disk. Reads take no lock and see the writes of other
processes.

--space NAME serves a space of the home; see crabmem spaces. --namespace FILE
serves another store file, in the home directory unless the path is absolute.
With either, or with the store of a workspace, the server offers no sessions.
--gateway URL serves the memory of a gateway, and the sessions of its key.
With --read-only, the server offers only tools that read. --compat selects the
tools of another server:

  reference  the nine tools of the reference memory server (create_entities …
             open_nodes), over notes that crabmem import --from memory-json
             creates
  anthropic  the tool memory with view, create, str_replace, insert, delete, and
             rename, where the file /memories/NAME.md is the note NAME

--http ADDR serves http://ADDR/mcp instead. Every request needs the bearer token
from CRABMEM_TOKEN or --token-file, which the server creates at first use. The
server rejects requests with an unknown Host or Origin. An ADDR that other
machines can reach needs an existing token. The server has no TLS: use a proxy,
and pass the proxy's name with --allow-host. The server logs to standard error.`,
		Example: `  crabmem mcp
  crabmem mcp --read-only
  crabmem mcp --namespace work.db --compat anthropic
  crabmem spaces create team && crabmem mcp --space team
  crabmem mcp --compat reference --lock-wait 30s`,
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.readOnly, "read-only", false, "offer only tools that read")
	fl.StringVar(&f.namespace, "namespace", "", "serve this store `file` of the home, without sessions")
	fl.StringVar(&f.compat, "compat", "", "offer the tools of this `server`: reference or anthropic")
	fl.StringVar(&f.http, "http", "", "serve HTTP on this `address`, such as 127.0.0.1:7433")
	fl.StringVar(&f.tokenFile, "token-file", "", "read the token from this `file` (CRABMEM_TOKEN; default: mcp-token in the home)")
	fl.StringArrayVar(&f.allowHosts, "allow-host", nil, "also accept this `name` in Host; may be repeated")
	completeWords(cmd, "compat", mcpserver.CompatReference, mcpserver.CompatAnthropic)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := c.mcpOptions(cmd, &f)
		if err != nil {
			return err
		}
		s, err := mcpserver.New(cmd.Context(), o)
		if err != nil {
			return c.about(o.Path, err)
		}
		c.serving.Store(true)
		return errors.Join(c.serveMCP(cmd.Context(), s, &f), s.Close())
	}
	cmd.Args, cmd.ValidArgsFunction = noArgs, cobra.NoFileCompletions
	addCommands(cmd, mcpInstallCommand(c), mcpUninstallCommand(c))
	return c.outputs(cmd, of[mcpResult](), of[mcpRefusal]())
}

// mcpOptions checks the flags and returns the options of the server. Its store is
// that of the command from then on.
func (c *app) mcpOptions(cmd *cobra.Command, f *mcpFlags) (o mcpserver.Options, err error) {
	for _, name := range []string{"namespace", "http", "token-file"} {
		if fl := cmd.Flags().Lookup(name); fl.Changed && fl.Value.String() == "" {
			return o, cli.Usagef("--%s is empty", name)
		}
	}
	if !slices.Contains([]string{"", mcpserver.CompatReference, mcpserver.CompatAnthropic}, f.compat) {
		return o, cli.Usagef("--compat %q: want %s or %s", f.compat, mcpserver.CompatReference, mcpserver.CompatAnthropic)
	}
	if err := cmp.Or(atMostOne(cmd, "namespace", "db"), atMostOne(cmd, "namespace", "space")); err != nil {
		return o, err
	}
	if f.http == "" && (f.tokenFile != "" || len(f.allowHosts) > 0) {
		return o, cli.Usagef("--token-file and --allow-host require --http")
	}
	if c.remote != nil {
		c.WarnLog = c.logger()
		o = mcpserver.Options{Remote: c.remote, FS: c.fs, Now: c.now, ReadOnly: f.readOnly, Log: c.WarnLog}
		o.Version, _ = buildVersion()
		return o, nil
	}
	path := c.storePath()
	if f.namespace != "" { // clients start servers in any directory
		path = f.namespace
		if !filepath.IsAbs(path) {
			path = filepath.Join(c.homeDir(), path)
		}
	}
	path = absPath(path)
	c.db, c.WarnLog = path, c.logger()
	o = mcpserver.Options{Path: path, FS: c.fs, Now: c.now, ReadOnly: f.readOnly, Compat: f.compat, Log: c.WarnLog}
	if conf := c.storeSettings("importance_weight"); conf != nil {
		o.ImportanceWeight, o.HalfLife = conf.ImportanceWeight, conf.HalfLife
	}
	if conf := c.storeSettings("embedder"); conf != nil && conf.Embedder != nil {
		if o.Semantic, err = c.semantic(); err != nil {
			c.warnFailure(err)
			err = nil
		}
		if o.Embed = c.embed; o.Semantic != nil {
			o.Semantic.Complete = false // a view of the store does that in the background
		}
		c.embed = nil // writes do not wait for it
	}
	o.Version, _ = buildVersion()
	o.Write = func(ctx context.Context, write func(op.Memory) error) error {
		if f.namespace != "" {
			if err := c.tighten(filepath.Dir(path), path); err != nil {
				return err
			}
		}
		// The interfaces of other servers have empty texts.
		return c.writeGuarded(ctx, "mcp", true, op.Guard{Policy: c.secretsPolicy, Warn: c.Warn, AllowEmpty: f.compat != ""}, write)
	}
	if f.namespace == "" && (c.space == "" || c.space == space.Main) && c.workspaceStore() == "" {
		o.Sessions = func() (*sessionlog.Dir, error) { return c.openSessions("search", true) }
	}
	return o, nil
}

func (c *app) serveMCP(ctx context.Context, s *mcpserver.Server, f *mcpFlags) error {
	if f.http == "" {
		if c.IsTerminal(c.Stdin) {
			c.Note("waiting for an MCP client on standard input; press Ctrl+D to stop")
		}
		return s.ServeStdio(ctx, c.Stdin, c.Stdout)
	}
	o := mcpserver.HTTPOptions{Address: f.http, AllowHosts: f.allowHosts, Token: c.Getenv("CRABMEM_TOKEN"), TokenFile: f.tokenFile}
	if o.Token == "" && o.TokenFile == "" {
		o.TokenFile = filepath.Join(c.homeDir(), "mcp-token")
	}
	return s.ServeHTTP(ctx, o)
}

// logger logs to standard error, in JSON under --json, and under --quiet only
// what is wrong.
func (c *app) logger() *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	if c.Quiet {
		o.Level = slog.LevelWarn
	}
	if c.JSON {
		return slog.New(slog.NewJSONHandler(c.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(c.Stderr, o))
}
