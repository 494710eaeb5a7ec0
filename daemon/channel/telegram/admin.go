package telegram

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/config"
	"crabmem/daemon/errtable"

	"github.com/PaulSonOfLars/gotgbot/v2"
)

// State describes a bot.
type State struct {
	Username    string `json:"username"`
	ReadsGroups bool   `json:"can_read_all_group_messages"` // privacy mode is off
	Webhook     bool   `json:"-"`
	Waiting     int    `json:"-"` // updates at Telegram
}

// Test asks the Bot API for a bot's state. It confirms no message.
func Test(ctx context.Context, c *Config, log *slog.Logger, transport http.RoundTripper) (s State, err error) {
	b := newBot(c, log, transport)
	if err := b.call(ctx, sendTime, "getMe", map[string]any{}, &s); err != nil {
		return s, testError(err)
	}
	var hook struct {
		URL     string `json:"url"`
		Waiting int    `json:"pending_update_count"`
	}
	if err := b.call(ctx, sendTime, "getWebhookInfo", map[string]any{}, &hook); err != nil {
		return s, testError(err)
	}
	s.Webhook, s.Waiting = hook.URL != "", hook.Waiting
	return s, nil
}

// testError describes the error of a request that only asks.
func testError(err error) error {
	if e, ok := errors.AsType[*gotgbot.TelegramError](err); ok && isRefusal(e) {
		return refused(e)
	}
	return &errtable.Error{Kind: "unreachable", Exit: errtable.ExitUnreachable, Message: "Telegram does not answer: " + err.Error(), Fix: "check the network, then retry", Err: err}
}

// RemoveUser removes an identity from allowed_users. The caller holds the lock of
// [config.Locked].
func RemoveUser(fsys vfs.FS, home, identity string) error {
	id, err := strconv.ParseInt(strings.TrimPrefix(identity, prefix), 10, 64)
	if err != nil {
		return fmt.Errorf("remove user: %w", err)
	}
	return config.EditPrivateTOML(fsys, filepath.Join(home, File), func(values map[string]any) {
		users, _ := values["allowed_users"].([]any)
		values["allowed_users"] = slices.DeleteFunc(users, func(u any) bool { return u == any(id) })
	})
}

// MoveGroup replaces a group's ID in the tables of groups and routes. It returns false if they
// do not contain the ID. The caller holds the lock of [config.Locked].
func MoveGroup(fsys vfs.FS, home string, from, to int64) (moved bool, err error) {
	id := regexp.MustCompile(`\b(id|chat)(\s*=\s*)` + strconv.FormatInt(from, 10) + `\b`)
	return config.EditPrivate(fsys, filepath.Join(home, File), func(old []byte) ([]byte, error) {
		return id.ReplaceAll(old, []byte("${1}${2}"+strconv.FormatInt(to, 10))), nil
	})
}

// GroupIdentities returns the prefixes of identities that a group's messages have.
func GroupIdentities(id int64) []string {
	return []string{conversation(prefix, id, 0), conversation(openPrefix, id, 0)}
}
