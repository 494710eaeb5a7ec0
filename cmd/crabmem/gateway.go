package main

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
	"crabmem/daemon/gateway"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/daemon/timetext"
	"crabmem/daemon/trust"

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

Every request needs a key, except GET /health and its own description at
GET /api-docs/openapi.json. crabmem gateway key add creates a
key. A key is the identity api:NAME, and the tables [origins] in config.toml set
what it may do: a trusted key has its own space and its own sessions. The page
at /ui/ is for the owner of the home: crabmem open prints a login code.
Messages to /webhook/send have the identity hook:KEY/CONVERSATION.

The gateway reads config/gateway.toml in the home directory:

  [server]
  host = "127.0.0.1"     # another address needs allow_hosts
  port = 3000
  allow_hosts = []       # names in the header Host, such as that of a proxy
  cors = []              # origins of other sites, whose pages have a key
  tls_cert = ""          # PEM file in the home: the certificate with its chain
  tls_key = ""           # PEM file of its private key, with mode 0600
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
of other sites cannot use it, except with a key from an origin in cors, such as
"https://app.example.org". The page at /ui/ is never shared. With tls_cert and
tls_key, the gateway serves HTTPS alone, TLS 1.2 or later. Name the hosts of the
certificate in allow_hosts. A restart reads a new certificate. Or use a proxy,
and name the proxy in allow_hosts. The gateway logs to standard error.

On another machine, the same program is a client of the gateway:

  crabmem secret set gateway-team-example-3000   # reads the key
  export CRABMEM_GATEWAY=https://team.example:3000
  crabmem recall "how do we deploy?"

In the name of the secret, "." and ":" are "-", and "-" is "--". The variable
CRABMEM_GATEWAY_CA names a PEM file with the certificate of your own authority.
The URL begins with https, or names this machine. --gateway URL precedes the
variable; --db names a local store. Commands without a path refuse both.`,
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
	l, err := conf.Server.Listen()
	if err != nil {
		return nil, nil, err
	}
	version, _ := buildVersion()
	g, err := gateway.New(gateway.Options{FS: c.fs, Home: home, Config: *conf, Daemon: c.client().Addr, Log: c.logger(), Version: version, Now: c.now})
	if err != nil {
		l.Close() //nolint:errcheck // the error before is the cause
		return nil, nil, err
	}
	return l, g, nil
}

// gatewayKey is a key, in the answers of the commands on them.
type gatewayKey struct {
	Name      string   `json:"name"`
	Key       string   `json:"key,omitempty"` // only in the answer of add
	Begins    string   `json:"begins"`
	Identity  string   `json:"identity"`
	Trust     string   `json:"trust" op:"words=untrusted|trusted|admin"`
	Agents    []string `json:"agents"` // none: all
	CreatedAt string   `json:"created_at" op:"time"`
	Expires   string   `json:"expires,omitempty" op:"time"`
}

func describeKey(k *gateway.Key, level trust.Level) gatewayKey {
	return gatewayKey{Name: k.Name, Begins: k.Begins, Identity: k.Identity(), Trust: string(level), Agents: append([]string{}, k.Agents...),
		CreatedAt: k.CreatedAt, Expires: k.Expires}
}

type keyFlags struct {
	trust   string
	space   string
	reads   []string
	agents  []string
	expires string
}

func keyAdd(c *app) *cobra.Command {
	f := keyFlags{trust: string(trust.Trusted)}
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "add a key and print it once",
		Long: `Add a key and print it. No command prints it again: store it in the client. The
identity of the key is api:NAME. add sets the table [origins."api:NAME"] in
config.toml:

  --trust untrusted  the key sends messages to agents, which use no memory
  --trust trusted    the key and its agents use their own space and sessions
  --trust admin      the key may do everything; treat it as a root password

A trusted key has a space of its own, or the one of --key-space, and may also
read the spaces of --reads. --agents limits the agents to which the key may
talk. After the time of --expires, an age or a day, the gateway refuses the key.
If a key with this name exists, add changes nothing and exits with 4.`,
		Example: `  crabmem gateway key add phone
  crabmem gateway key add ci --trust untrusted --agents crab --expires 30d
  crabmem gateway key add laptop --key-space team --reads main --json`,
		Args:              exactly(1, "NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	fl := cmd.Flags()
	fl.StringVar(&f.trust, "trust", f.trust, "set the trust to `level` untrusted, trusted, or admin")
	fl.StringVar(&f.space, "key-space", "", "use the space of this `name` for the key")
	fl.StringSliceVar(&f.reads, "reads", nil, "let the key read these `spaces`, too")
	fl.StringSliceVar(&f.agents, "agents", nil, "let the key talk to these `agents` only")
	fl.StringVar(&f.expires, "expires", "", "refuse the key after this `time`, such as 30d or 2027-01-31")
	completeWords(cmd, "trust", trust.Levels...)
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (added gatewayKey, err error) {
		k := gateway.Key{Name: args[0], Agents: f.agents}
		if err := gateway.CheckKeyName(k.Name); err != nil {
			return added, cli.Usagef("%v", err)
		}
		level, err := levelOf(f.trust)
		if err != nil {
			return added, err
		}
		if k.Expires, err = expiry(f.expires, c.now()); err != nil {
			return added, err
		}
		return c.addKey(ctx, k, level, &f)
	}, func(k gatewayKey) {
		c.Out.WriteString(k.Key + "\n")
		c.Note("this is the only time that the key is printed: store it in the client")
		if k.Trust == string(trust.Trusted) {
			c.Note("its memory is separate from yours: see --key-space and --reads")
		}
	})
}

// levelOf returns the level of --trust.
func levelOf(text string) (trust.Level, error) {
	if !slices.Contains(trust.Levels, text) {
		return "", cli.Usagef("--trust %q: want untrusted, trusted, or admin", text)
	}
	return trust.Level(text), nil
}

// expiry returns the time of --expires.
func expiry(text string, now time.Time) (string, error) {
	if text == "" {
		return "", nil
	}
	t, err := time.Time{}, error(nil)
	if age, aerr := timetext.ParseAge(text); aerr == nil {
		t = now.Add(age)
	} else if t, err = timetext.Parse(text, true, now); err != nil {
		return "", cli.Usagef("--expires %v", err)
	}
	if !t.After(now) {
		return "", cli.Usagef("--expires %q: this time has passed", text)
	}
	return t.UTC().Format(time.RFC3339), nil
}

// addKey sets the trust in a key, and adds it.
func (c *app) addKey(ctx context.Context, k gateway.Key, level trust.Level, f *keyFlags) (gatewayKey, error) {
	rule, err := originRule(level, f.space, f.reads)
	if err != nil {
		return gatewayKey{}, err
	}
	text, added, err := gateway.AddKey(c.fs, c.absHome(), k, c.now(), func() error { return c.setOrigin(ctx, k.Identity(), rule) })
	out := describeKey(&added, level)
	out.Key = text
	return out, err
}

// setOrigin sets an identity's table in config.toml; nil removes it.
func (c *app) setOrigin(ctx context.Context, identity string, rule json.RawMessage) error {
	_, err := c.writeConfig(ctx, op.ConfigChange{Keys: []config.Pair{originPair(identity, rule)}})
	return err
}

// moveOrigin gives an identity's table to another identity, in one change.
func (c *app) moveOrigin(ctx context.Context, r *trust.Rule, to string) error {
	rule, err := display.JSON(r.Table())
	if err != nil {
		return err
	}
	_, err = c.writeConfig(ctx, op.ConfigChange{Keys: []config.Pair{originPair(to, rule), originPair(r.Prefix, nil)}})
	return err
}

// originPair sets an identity's table; nil removes it.
func originPair(identity string, rule json.RawMessage) config.Pair {
	return config.Pair{Key: "origins." + identity, Value: cmp.Or(string(rule), "null")}
}

// originRule returns an identity's table. Without a space, the identity has a separate one.
func originRule(level trust.Level, space string, reads []string) (json.RawMessage, error) {
	return display.JSON((&trust.Rule{Level: level, Space: space, Reads: reads}).Table())
}

func (c *app) gatewayKeys() ([]gateway.Key, error) {
	return gateway.Keys(c.fs, c.absHome())
}

func keyList(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "list the keys of the gateway",
		Long: `List the keys by name, with the trust that config.toml gives them. BEGINS shows
the first characters of a key.`,
		Example: `  crabmem gateway key list
  crabmem gateway key list --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}, func(context.Context, []string) (list []gatewayKey, err error) {
		keys, err := c.gatewayKeys()
		if err != nil {
			return nil, err
		}
		conf, err := c.loadConfig()
		if err != nil {
			return nil, err
		}
		list = make([]gatewayKey, len(keys))
		for i := range keys {
			list[i] = describeKey(&keys[i], conf.Origins.Level(keys[i].Identity()))
		}
		return list, nil
	}, func(list []gatewayKey) {
		rows := [][]string{{"NAME", "TRUST", "AGENTS", "EXPIRES", "BEGINS"}}
		for _, k := range list {
			agents, expires := cmp.Or(strings.Join(k.Agents, ","), "all"), cmp.Or(k.Expires, "never")
			if (&gateway.Key{Expires: k.Expires}).Expired(c.now()) {
				expires = "expired"
			}
			rows = append(rows, []string{k.Name, k.Trust, display.Printable(agents), expires, k.Begins})
		}
		c.fitTable(rows, "", "no keys")
	})
}

func keyRemove(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm"},
		Short:   "remove a key of the gateway",
		Long: `Remove a key, and the table [origins."api:NAME"] from config.toml. The gateway
refuses the key at once. Its space and its sessions stay. Without such a key,
remove exits with 3.`,
		Example: `  crabmem gateway key remove phone
  crabmem gateway key remove ci --json`,
		Args: exactly(1, "NAME"),
		ValidArgsFunction: completeWith(1, func(_ context.Context, found *candidates) {
			keys, _ := c.gatewayKeys() // an unreadable file has no keys
			for _, k := range keys {
				found.add(k.Name)
			}
		}),
	}, func(ctx context.Context, args []string) (removedName, error) {
		return removedName{args[0]}, gateway.RemoveKey(c.fs, c.absHome(), args[0], func() error { return c.setOrigin(ctx, space.KeyOrigin+args[0], nil) })
	}, func(r removedName) { c.Say("removed %s", r.Removed) })
}
