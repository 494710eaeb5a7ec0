package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"crabmem/cmd/crabmem/internal/cli"
	"crabmem/daemon/box"
	"crabmem/daemon/channel"
	"crabmem/daemon/channel/telegram"
	"crabmem/daemon/client"
	"crabmem/daemon/display"
	"crabmem/daemon/trust"
	"crabmem/sessionlog"

	"github.com/spf13/cobra"
)

func channelsCommand(c *app) *cobra.Command {
	return family(&cobra.Command{
		Use:     "channels COMMAND",
		GroupID: groupAgents,
		Short:   "manage the users of chat platforms",
		Long: `List, pair, and unpair the users of a channel, move a group to its new ID, and
test the bot. The channel is telegram; see crabmem telegram.`,
		Example: `  crabmem channels pair --help
  crabmem channels list || echo no bot`,
	}, channelsList(c), channelsPair(c), channelsUnpair(c), channelsMigrate(c), channelsTest(c))
}

// channelUser is a user of a channel.
type channelUser struct {
	Channel  string `json:"channel"`
	Identity string `json:"identity"`
	Trust    string `json:"trust" op:"words=untrusted|trusted|admin"`
	Space    string `json:"space"`
	Listed   bool   `json:"listed"` // allowed_users contains it
	Paired   bool   `json:"paired"` // config.toml has its table
}

// channelUsers returns the Telegram bot's users. It does not read the token.
func (c *app) channelUsers() (list []channelUser, err error) {
	of, err := c.loadStructure()
	if err != nil {
		return nil, err
	}
	conf, err := telegram.ReadConfig(c.fs, c.absHome(), func(string) (string, error) { return "1:unread", nil })
	if err != nil {
		return nil, err
	}
	listed, paired := conf.Allowed(), telegram.Paired(of.Origins)
	list = []channelUser{}
	for _, sender := range conf.Users(of.Origins) {
		id := telegram.Identity(sender)
		list = append(list, channelUser{Channel: box.Telegram, Identity: id, Trust: string(of.Origins.Level(id)), Space: c.spaceLabel(of.Origins.Space(id)),
			Listed: slices.Contains(listed, sender), Paired: slices.Contains(paired, sender)})
	}
	return list, nil
}

func channelsList(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "list the users of the channels",
		Long: `List who may write to the bot: the users that allowed_users in
config/telegram.toml lists, and those that were paired, which have a table in
config.toml.`,
		Example: `  crabmem channels list || echo no bot
  crabmem channels list --json || echo no bot`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}, func(context.Context, []string) ([]channelUser, error) {
		return c.channelUsers()
	}, func(list []channelUser) {
		rows := [][]string{{"IDENTITY", "TRUST", "SPACE", "FROM"}}
		for _, u := range list {
			from := "pairing"
			if u.Listed {
				from = "allowed_users"
			}
			rows = append(rows, []string{u.Identity, u.Trust, display.Printable(u.Space), from})
		}
		c.fitTable(rows, "", "no users: run crabmem channels pair telegram")
	})
}

// openedPairing is the output of channels pair.
type openedPairing struct {
	Code    string `json:"code"`
	Expires string `json:"expires" op:"time"`
	Trust   string `json:"trust" op:"words=untrusted|trusted|admin"`
	Space   string `json:"space,omitempty"` // empty: its own
	Link    string `json:"link,omitempty"`  // opens the bot with the code
}

func channelsPair(c *app) *cobra.Command {
	var as, space string
	level := string(trust.Trusted)
	cmd := &cobra.Command{
		Use:   "pair CHANNEL",
		Short: "print a code that makes a person a user of the bot",
		Long: `Print a code. Who sends it to the bot in a private chat becomes a user: crabmem
telegram writes the table of the identity, such as [origins."tg:7"], to
config.toml. The code holds for 10 minutes and for three tries, and works once.
Another pair replaces it.

  --as me            you: the memory and the permissions of the owner
  --trust trusted    the agent remembers for the person in a separate space,
                     or in the one of --user-space (default)
  --trust untrusted  the agent has no memory for the person

The command prints a link that opens the bot with the code, unless Telegram does
not answer within 5 seconds.`,
		Example: `  crabmem channels pair telegram --as me || echo no bot
  crabmem channels pair telegram --trust trusted --user-space family || echo no bot`,
		Args:              exactly(1, "CHANNEL"),
		ValidArgsFunction: cobra.FixedCompletions([]cobra.Completion{box.Telegram}, cobra.ShellCompDirectiveNoFileComp),
	}
	cmd.Flags().StringVar(&as, "as", "", "with `me`, give the permissions of the owner")
	cmd.Flags().StringVar(&level, "trust", level, "set the trust to `level` untrusted, trusted, or admin")
	cmd.Flags().StringVar(&space, "user-space", "", "use the space of this `name` for the person")
	completeWords(cmd, "trust", trust.Levels...)
	completeWords(cmd, "as", "me")
	return resultCommand(c, cmd, func(ctx context.Context, args []string) (p openedPairing, err error) {
		if err := checkChannel(args[0]); err != nil {
			return p, err
		}
		if as != "" && (as != "me" || cmd.Flags().Changed("trust")) {
			return p, cli.Usagef("--as %q: want me, without --trust", as)
		}
		if as == "me" {
			level = string(trust.Admin)
		}
		l, err := levelOf(level)
		if err != nil {
			return p, err
		}
		if l == trust.Admin && space != "" {
			return p, cli.Usagef("--user-space: admins use the space main")
		}
		return c.openPairing(ctx, l, space)
	}, func(p openedPairing) {
		c.Out.WriteString(p.Code + "\n")
		c.Note("send this code to the bot within 10 minutes, while crabmem telegram runs")
		if p.Link != "" {
			c.Note("or open " + p.Link)
		}
	})
}

func checkChannel(name string) error {
	if name != box.Telegram {
		return cli.Usagef("CHANNEL %q: want %s", name, box.Telegram)
	}
	return nil
}

// openPairing opens a pairing whose identity has a level.
func (c *app) openPairing(ctx context.Context, level trust.Level, space string) (p openedPairing, err error) {
	conf, err := c.telegramConfig()
	if err != nil {
		return p, err
	}
	rule, err := originRule(level, space, nil)
	if err != nil {
		return p, err
	}
	p = openedPairing{Expires: c.now().Add(channel.PairTime).UTC().Format(time.RFC3339), Trust: string(level), Space: space}
	if p.Code, err = channel.Pair(c.fs, c.absHome(), box.Telegram, rule, c.now()); err != nil {
		return p, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if me, err := telegram.Test(ctx, &conf, c.logger(), nil); err == nil {
		p.Link = "https://t.me/" + me.Username + "?start=" + p.Code
	}
	return p, nil
}

// unpaired is the output of channels unpair.
type unpaired struct {
	Identity string   `json:"identity"`
	Space    string   `json:"space"`    // it stays
	Sessions []string `json:"sessions"` // they stay
	Canceled []string `json:"canceled"` // work
}

func channelsUnpair(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "unpair IDENTITY",
		Short: "remove a user of a channel",
		Long: `Remove a user, such as tg:7, from allowed_users and from config.toml. The next
message of the person is one of a stranger. unpair cancels the open work of its
sessions, and keeps its space and its sessions, whose names it prints. Without
such a user, unpair exits with 3.`,
		Example: `  crabmem channels unpair tg:7 || echo no user`,
		Args:    exactly(1, "IDENTITY"),
		ValidArgsFunction: completeWith(1, func(_ context.Context, found *candidates) {
			list, _ := c.channelUsers() // an invalid file has no users
			for _, u := range list {
				found.add(u.Identity)
			}
		}),
	}, func(ctx context.Context, args []string) (unpaired, error) { return c.unpair(ctx, args[0]) }, func(u unpaired) {
		c.Say("removed %s", u.Identity)
		c.Say("its notes stay in the space %s", display.Printable(u.Space))
		for _, id := range u.Sessions {
			c.Say("its session %s stays", display.Printable(id))
		}
		for _, id := range u.Canceled {
			c.Say("canceled its work %s", display.Printable(id))
		}
	})
}

// unpair removes a user. A crash between the two files leaves it a user.
func (c *app) unpair(ctx context.Context, id string) (u unpaired, err error) {
	list, err := c.channelUsers()
	if err != nil {
		return u, err
	}
	i := slices.IndexFunc(list, func(u channelUser) bool { return u.Identity == id })
	if i < 0 {
		return u, &cli.Failure{Code: cli.ExitNotFound, Kind: "not_found", Message: "no user " + display.Quoted(id), Remedy: "run crabmem channels list"}
	}
	u = unpaired{Identity: id, Space: list[i].Space, Sessions: []string{}, Canceled: []string{}}
	if list[i].Listed {
		home := c.absHome()
		if err := c.lockConfig(home, func() error { return telegram.RemoveUser(c.fs, home, id) }); err != nil {
			return u, err
		}
	}
	if list[i].Paired {
		if err := c.setOrigin(ctx, id, nil); err != nil {
			return u, err
		}
	}
	err = c.readSessions(func(d *sessionlog.Dir) error {
		infos, err := d.List()
		for i := range infos {
			if by := infos[i].Meta.CreatedBy; by == id || strings.HasPrefix(by, id+"/") {
				u.Sessions = append(u.Sessions, infos[i].ID)
			}
		}
		return err
	})
	if err != nil && !missing(err) {
		return u, err
	}
	u.Canceled, err = c.cancelWork(ctx, u.Sessions)
	return u, err
}

// cancelWork cancels the open work of sessions. Without a daemon, no work runs.
func (c *app) cancelWork(ctx context.Context, sessions []string) (canceled []string, err error) {
	canceled = []string{}
	d, _, err := c.running(ctx)
	if err != nil {
		if classify(err).Kind == "no_daemon" {
			return canceled, nil
		}
		return canceled, client.Unreachable(err)
	}
	list, err := client.CancelWork(ctx, d, sessions)
	for _, id := range list {
		canceled = append(canceled, id.Session+"/"+id.Work)
	}
	return canceled, errors.Join(err, d.Close())
}

// testedChannel is the output of channels test.
type testedChannel struct {
	Channel string `json:"channel"`
	Bot     string `json:"bot"`
	Users   int    `json:"users"`
	Webhook bool   `json:"webhook"`           // a webhook receives the messages: the channel receives no messages
	Waiting int    `json:"waiting,omitempty"` // messages at Telegram
	Reads   bool   `json:"reads_groups"`      // privacy mode is off
	Running bool   `json:"running"`
}

func channelsTest(c *app) *cobra.Command {
	return resultCommand(c, &cobra.Command{
		Use:   "test CHANNEL",
		Short: "ask the platform whether the bot works",
		Long: `Read the configuration, and ask Telegram for the name of the bot, a webhook, and
the number of messages that wait. test sends no message and confirms none. With
a refused token, test exits with 7, and without a connection with 8.`,
		Example:           `  crabmem channels test telegram || echo no bot`,
		Args:              exactly(1, "CHANNEL"),
		ValidArgsFunction: cobra.FixedCompletions([]cobra.Completion{box.Telegram}, cobra.ShellCompDirectiveNoFileComp),
	}, func(ctx context.Context, args []string) (t testedChannel, err error) {
		if err := checkChannel(args[0]); err != nil {
			return t, err
		}
		conf, err := c.telegramConfig()
		if err != nil {
			return t, err
		}
		users, err := c.channelUsers()
		if err != nil {
			return t, err
		}
		me, err := telegram.Test(ctx, &conf, c.logger(), nil)
		return testedChannel{Channel: box.Telegram, Bot: me.Username, Users: len(users), Webhook: me.Webhook, Waiting: me.Waiting, Reads: me.ReadsGroups,
			Running: channel.Runs(c.fs, c.absHome(), box.Telegram)}, err
	}, func(t testedChannel) {
		row := func(name, text string) { c.Say("%-8s %s", name, text) }
		row("bot", "@"+display.Printable(t.Bot))
		row("users", display.Plural(uint64(t.Users), "user", "users"))
		row("waiting", display.Plural(uint64(t.Waiting), "message", "messages"))
		if t.Running {
			row("running", "yes")
		} else {
			row("running", "no: run crabmem telegram")
		}
		if t.Webhook {
			row("webhook", "yes: run crabmem telegram --delete-webhook")
		}
	})
}
