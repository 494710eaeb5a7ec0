package doctor

import (
	"context"
	"log/slog"
	"path/filepath"

	"crabmem/daemon/box"
	"crabmem/daemon/channel"
	"crabmem/daemon/channel/telegram"
	"crabmem/daemon/config"
	"crabmem/daemon/display"
)

// checkTelegram looks whether the bot's configuration can be read, whether Telegram accepts the
// token, and whether a process answers its messages. A home without a bot adds no finding.
func (d *doctor) checkTelegram(ctx context.Context) {
	if _, err := d.FS.Lstat(filepath.Join(d.Home, telegram.File)); missing(err) {
		return
	}
	conf, err := d.Telegram()
	if err != nil {
		d.broken("telegram", err)
		return
	}
	users := len(conf.Allowed())
	if of, err := config.LoadStructure(d.FS, d.Home, d.Getenv); err == nil { // checkConfig reports errors
		users = len(conf.Users(of.Origins))
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	bot, err := telegram.Test(ctx, &conf, slog.New(slog.DiscardHandler), nil)
	switch runs := channel.Runs(d.FS, d.Home, box.Telegram); {
	case err != nil:
		d.broken("telegram", err)
	case bot.Webhook:
		d.fail("telegram", "run crabmem telegram --delete-webhook", "Telegram sends the messages of @%s to a webhook", display.Printable(bot.Username))
	case users == 0:
		d.warn("telegram", "run crabmem channels pair telegram", "@%s has no users, and ignores all messages", display.Printable(bot.Username))
	case !runs:
		d.warn("telegram", "run crabmem telegram, or crabmem service install --telegram", "@%s has no process; messages that wait: %d", display.Printable(bot.Username), bot.Waiting)
	default:
		d.ok("telegram", "answers as @%s, for %s", display.Printable(bot.Username), display.Plural(uint64(users), "user", "users"))
	}
}
