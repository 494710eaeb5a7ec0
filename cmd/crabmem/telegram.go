package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"crabmem/daemon/box"
	"crabmem/daemon/channel"
	"crabmem/daemon/channel/telegram"
	"crabmem/daemon/client"
	"crabmem/daemon/op"
	"crabmem/daemon/space"
	"crabmem/daemon/trust"

	"github.com/spf13/cobra"
)

func telegramCommand(c *app) *cobra.Command {
	var deleteWebhook bool
	cmd := &cobra.Command{
		Use:     "telegram",
		GroupID: groupAgents,
		Short:   "answer messages of a Telegram bot",
		Long: `Answer the messages that people send to a Telegram bot. The daemon's agent crab
answers, or the agent of a route. The command is a separate process: it keeps
messages while the daemon is stopped, and never exits because of the network.

It reads config/telegram.toml in the home directory, of mode 0600:

  token = "secret:telegram"    # see crabmem secret set
  allowed_users = [123456789]  # IDs; messages of others are ignored
  session = "daily 04:00"      # or "one", or "idle 8h"
  format = "plain"             # or "html": show Markdown as formatting
  streaming = "draft"          # show what the agent writes: in private chats as
                               # a draft, in groups in a message; or "edit":
                               # always in a message; or "off"
  poll_timeout = 30            # seconds
  api = "https://api.telegram.org"

crabmem channels pair telegram prints a code: who sends it to the bot gets a
table such as [origins."tg:123456789"] in config.toml, which makes a person a
user, too. Each user is an identity, as tg:123456789, and the tables [origins]
set what it may do. Without a rule it is untrusted. session sets when a
conversation begins a session. If it is absent, a session ends at 4 in the
morning, but never in groups, or if the agent has role = "channel".

The bot answers in the groups of these tables, if a user mentions it, replies to
it, or sends /NAME@BOT. A group is one identity, as tg:-1001234567890. With
senders = "all" all members count, and it is tg-open:-1001234567890, which a
rule for tg: does not match. The route with chat and topic wins, then the one
with chat, then the one without.

  [[groups]]
  id = -1001234567890
  senders = "all"  # default: users only
  context = "all"  # quote the last 50 messages; default: none
  topics = [0, 5]  # 0 is outside of topics; default: all

  [[routes]]
  chat = -1001234567890
  topic = 5
  agent = "ops"

A person may write /new, /stop, /stop all, /help, or /NAME for a skill. Messages
are on disk before Telegram removes them, and each is answered once, also after
a crash. If the delivery of a text has no confirmation, the channel does not
send it again, and says that it may be missing. Exit code 4 means that another
process of the home answers the bot, or that the bot has a webhook;
--delete-webhook removes the webhook and exits. Exit code 7 means that Telegram
refuses the token. The command logs to standard error.`,
		Example:           `  crabmem telegram --help`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&deleteWebhook, "delete-webhook", false, "remove the webhook of the bot, and exit")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		conf, err := c.telegramConfig()
		if err != nil {
			return err
		}
		if deleteWebhook {
			if err := telegram.DeleteWebhook(cmd.Context(), &conf, c.logger(), nil); err != nil || !c.JSON {
				return err
			}
			return c.PrintJSON(webhookDeleted{Deleted: true})
		}
		o, err := c.channelOptions(conf.Session)
		if err != nil {
			return err
		}
		o.Allowed = c.telegramUsers(&conf, o.Log)
		o.Pair = c.telegramPair(cmd.Context(), o.Log)
		if len(o.Allowed()) == 0 {
			c.Warn("the bot has no users, and ignores all messages: run crabmem channels pair telegram, or set allowed_users")
		}
		c.serving.Store(true)
		return channel.Run(cmd.Context(), o, telegram.New(&conf, o.Log, nil))
	}
	return c.outputs(cmd, of[webhookDeleted]())
}

// telegramConfig reads the bot's configuration with its token.
func (c *app) telegramConfig() (telegram.Config, error) {
	return telegram.ReadConfig(c.fs, c.absHome(), func(name string) (string, error) {
		values, err := c.secrets().Open()
		if err != nil {
			return "", err
		}
		return values.Get(name)
	})
}

// telegramUsers returns a function that reads the bot's users again. While a file is invalid,
// its users stay.
func (c *app) telegramUsers(conf *telegram.Config, log *slog.Logger) func() []string {
	listed, rules := *conf, trust.Rules(nil)
	return func() []string {
		now, err := telegram.ReadConfig(c.fs, c.absHome(), func(string) (string, error) { return conf.Token, nil })
		if err == nil {
			listed = now
		}
		of, oerr := c.loadStructure()
		if oerr == nil {
			rules = of.Origins
		}
		if err := errors.Join(err, oerr); err != nil {
			log.Error("the users of the bot are not read again", "error", err)
		}
		return listed.Users(rules)
	}
}

// telegramPair returns a function that makes a sender a user if a text is the open pairing's
// code. The commit point is the change of config.toml.
func (c *app) telegramPair(ctx context.Context, log *slog.Logger) func(sender, text string) bool {
	return func(sender, text string) bool {
		ok, err := channel.Redeem(c.fs, c.absHome(), box.Telegram, text, c.now(), func(rule json.RawMessage) error {
			return c.setOrigin(ctx, telegram.Identity(sender), rule)
		})
		if err != nil {
			log.Error("pair", "sender", sender, "error", err)
		}
		if ok {
			log.Info("paired", "sender", sender)
		}
		return ok
	}
}

// describeUser returns what an identity may do, for the person.
func (c *app) describeUser(identity string) string {
	conf, err := c.loadStructure()
	if err != nil {
		return "You are " + identity + "."
	}
	does := "you may talk to the agent"
	switch name := conf.Origins.Space(identity); {
	case conf.Origins.Level(identity) == trust.Admin:
		does = "you have the memory and the permissions of the owner"
	case conf.Origins.Level(identity) != trust.Trusted:
	case space.IsOfSender(name):
		does = "the agent remembers for you alone"
	default:
		does = "the agent remembers in the space " + c.spaceLabel(name)
	}
	return "You are " + identity + ": " + does + "."
}

type webhookDeleted struct {
	Deleted bool `json:"deleted"`
}

// channelOptions returns a channel's options. session is the key in its configuration.
func (c *app) channelOptions(session string) (channel.Options, error) {
	boundary, err := channel.ParseBoundary(cmp.Or(session, channel.Daily))
	conf, cerr := c.loadConfig() // the daemon reports errors
	of := func(agent string, group bool) channel.Boundary {
		if session == "" && cerr == nil {
			if a, _ := conf.Agent(agent); group || a.Role != "" {
				return channel.Boundary{}
			}
		}
		return boundary
	}
	addr := c.client().Addr
	return channel.Options{FS: c.fs, Home: c.absHome(), Log: c.logger(), Now: c.now, Session: of, About: c.describeUser, Level: c.levelOf, Daemon: func(identity string) (op.Caller, func()) {
		d := &client.Client{Addr: addr, Header: op.Header{As: identity}}
		return d, func() { _ = d.Close() } // nothing is buffered
	}}, err
}

// levelOf returns the trust in an identity, by the configuration of now.
func (c *app) levelOf(identity string) trust.Level {
	conf, err := c.loadStructure()
	if err != nil {
		return trust.Untrusted
	}
	return conf.Origins.Level(identity)
}
