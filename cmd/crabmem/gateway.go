package main

import (
	"net"
	"path/filepath"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/gateway"

	"github.com/spf13/cobra"
)

func gatewayCommand(c *app) *cobra.Command {
	var host string
	var port int
	cmd := &cobra.Command{
		Use:     "gateway",
		GroupID: groupAgents,
		Short:   "serve memory, sessions, and agents over HTTP",
		Long: `Serve the daemon of the home directory over HTTP: memory, sessions, and agents.
The gateway is a process of its own. Without a daemon it answers 503.

Every request needs a key, except GET /health. crabmem gateway key add creates a
key. A key is the identity api:NAME, and the tables [origins] in config.toml set
what it may do: a trusted key has its own space and its own sessions. The
gateway describes its paths in /api-docs/openapi.json. The page at /ui/ is for
the owner of the home: crabmem open prints a login code. Messages to
/webhook/send have the identity hook:KEY/CONVERSATION.

The gateway reads config/gateway.toml in the home directory:

  [server]
  host = "127.0.0.1"     # another address needs allow_hosts
  port = 3000
  allow_hosts = []       # names in the header Host, such as that of a proxy
  [gateway]
  openai = false         # true: clients of OpenAI may use agents as models
  swagger_ui = false     # true: a page at /swagger-ui/ describes the paths
  [limits]
  connections = 256      # that sent a key
  calls = 64             # concurrent, without streams
  streams = 64           # concurrent
  streams_per_key = 8
  runs_per_key = 2
  rate = 10.0            # requests per second of one key
  burst = 40             # requests above the rate
  untrusted_runs = 6     # in a minute, of one untrusted key

With a key in KEY:

  curl -H "Authorization: Bearer $KEY" http://127.0.0.1:3000/v1/memories
  curl -H "Authorization: Bearer $KEY" http://127.0.0.1:3000/v1/recall \
    --json '{"query": "how do we deploy?"}'

The gateway rejects requests with an unknown Host or Origin, so that web pages
of other sites cannot use it. It has no TLS: use a proxy, and name the proxy in
allow_hosts. The gateway logs to standard error.`,
		Example: `  crabmem gateway key add phone
  crabmem gateway key list`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	fl := cmd.Flags()
	fl.StringVar(&host, "host", "", "listen on this `address` instead of that in gateway.toml")
	fl.IntVar(&port, "port", 0, "listen on this `port` instead of that in gateway.toml, 0 = a free one")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		home, conf, err := c.gatewayConfig()
		if err != nil {
			return err
		}
		if fl.Changed("host") {
			conf.Server.Host = host
		}
		if fl.Changed("port") {
			if port < 0 || port > 65535 {
				return cli.Usagef("--port %d: want 0 to 65535", port)
			}
			conf.Server.Port = port
		}
		l, g, err := c.newGateway(home, &conf)
		if err != nil {
			return err
		}
		defer g.Close()
		c.serving.Store(true)
		return g.Serve(cmd.Context(), l)
	}
	addCommands(cmd, family(&cobra.Command{
		Use:   "key COMMAND",
		Short: "manage the keys of the gateway's clients",
		Long: `Add, list, and remove keys. A key is a password of a client: a program sends it
with each request. The home directory contains only a hash of each key, in
config/gateway-keys.json. A running gateway uses a change at once.`,
		Example: `  crabmem gateway key add phone
  crabmem gateway key list`,
	}, keyAdd(c), keyList(c), keyRemove(c)))
	return cmd
}

// gatewayConfig returns the home and the configuration of its gateway.
func (c *app) gatewayConfig() (home string, conf gateway.Config, err error) {
	home = c.absHome()
	if conf, err = gateway.ReadConfig(c.fs, home); err != nil {
		return "", conf, c.about(filepath.Join(home, gateway.File), err)
	}
	return home, conf, nil
}

// newGateway returns a gateway and the listener of its configuration.
func (c *app) newGateway(home string, conf *gateway.Config) (net.Listener, *gateway.Gateway, error) {
	daemon := c.client()
	l, err := conf.Server.Listen()
	if err != nil {
		return nil, nil, err
	}
	version, _ := buildVersion()
	g, err := gateway.New(gateway.Options{FS: c.fs, Home: home, Config: *conf, Daemon: daemon.Addr, Log: c.logger(), Version: version, Now: c.now})
	if err != nil {
		l.Close() //nolint:errcheck // the error before is the cause
		return nil, nil, err
	}
	return l, g, nil
}
