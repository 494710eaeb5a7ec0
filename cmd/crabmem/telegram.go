package main

import (
	"crabmem/daemon/channel"
	"crabmem/daemon/channel/telegram"
	"crabmem/daemon/client"
	"crabmem/daemon/config"
	"crabmem/daemon/op"

	"github.com/spf13/cobra"
)

func telegramCommand(c *app) *cobra.Command {
	var deleteWebhook bool
	cmd := &cobra.Command{
		Use:     "telegram",
		GroupID: groupAgents,
		Short:   "answer messages of a Telegram bot",
		Long: `Answer the messages that people send to a Telegram bot in private chats. The
daemon's agent crab answers. The command is a separate process: it keeps
messages while the daemon is stopped, and never exits because of the network.

It reads config/telegram.toml in the home directory, of mode 0600:

  token = "secret:telegram"    # see crabmem secret set
  allowed_users = [123456789]  # IDs; messages of others are ignored
  session = "daily 04:00"      # or "one", or "idle 8h"
  poll_timeout = 30            # seconds
  api = "https://api.telegram.org"

Each user is an identity, as tg:123456789, and the tables [origins] in
config.toml set what it may do. Without a rule it is untrusted. session sets
when a conversation begins a session. If it is absent, a session ends at 4 in
the morning, but never if crab has role = "channel".

A person may write /new, /stop, /help, or /NAME for a skill. Messages are on
disk before Telegram removes them, and each is answered once, also after a
crash. If the delivery of a text has no confirmation, the channel does not send
it again, and says that it may be missing. Exit code 4 means that another
process of the home answers the bot, or that the bot has a webhook;
--delete-webhook removes the webhook and exits. Exit code 7 means that Telegram
refuses the token. The command logs to standard error.`,
		Example:           `  crabmem telegram --help`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&deleteWebhook, "delete-webhook", false, "remove the webhook of the bot, and exit")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		conf, err := telegram.ReadConfig(c.fs, c.absHome(), func(name string) (string, error) {
			values, err := c.secrets().Open()
			if err != nil {
				return "", err
			}
			return values.Get(name)
		})
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
		o.Allowed = conf.Allowed()
		if len(o.Allowed) == 0 {
			c.Warn("allowed_users is empty: all messages are ignored")
		}
		c.serving.Store(true)
		return channel.Run(cmd.Context(), o, telegram.New(&conf, o.Log, nil))
	}
	return c.outputs(cmd, of[webhookDeleted]())
}

type webhookDeleted struct {
	Deleted bool `json:"deleted"`
}

// channelOptions returns a channel's options. session is the key in its configuration.
func (c *app) channelOptions(session string) (channel.Options, error) {
	if session == "" {
		session = channel.Daily
		if conf, err := c.loadConfig(); err == nil { // the daemon reports errors
			if of, _ := conf.Agent(config.Crab); of.Role != "" {
				session = "one"
			}
		}
	}
	boundary, err := channel.ParseBoundary(session)
	addr := c.client().Addr
	return channel.Options{FS: c.fs, Home: c.absHome(), Log: c.logger(), Now: c.now, Session: boundary, Daemon: func(identity string) (op.Caller, func()) {
		d := &client.Client{Addr: addr, Header: op.Header{As: identity}}
		return d, func() { _ = d.Close() } // nothing is buffered
	}}, err
}
