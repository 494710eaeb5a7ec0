// Package telegram is a channel to Telegram: it polls the Bot API for messages, and sends the
// answers.
package telegram

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"crabmem/crmem/vfs"
	"crabmem/daemon/channel"
	"crabmem/daemon/config"
	"crabmem/daemon/errtable"
	"crabmem/daemon/trust"
)

// File is the channel's configuration in the home.
const File = "config/telegram.toml"

// maxAllowed limits allowed_users.
const maxAllowed = 1000

// Config is the channel's configuration.
type Config struct {
	Token        string  `toml:"token"`         // the bot's, or secret:NAME
	AllowedUsers []int64 `toml:"allowed_users"` // IDs; messages of others are ignored
	Session      string  `toml:"session"`       // see [channel.ParseBoundary]; empty: the agent decides
	Streaming    string  `toml:"streaming"`     // draft (the default), edit, or off
	Format       string  `toml:"format"`        // plain (the default) or html
	PollTimeout  int     `toml:"poll_timeout"`  // seconds
	API          string  `toml:"api"`           // Bot API address
	Groups       []Group `toml:"groups"`        // that the channel reads
	Routes       []Route `toml:"routes"`
}

// ReadConfig reads a home's configuration. secret returns a secret by its name.
func ReadConfig(fsys vfs.FS, home string, secret func(name string) (string, error)) (Config, error) {
	c := Config{PollTimeout: 30, API: "https://api.telegram.org"}
	path := filepath.Join(home, File)
	if err := config.ReadPrivateTOML(fsys, path, &c); err != nil {
		return c, err
	}
	if c.Token == "" {
		return c, &errtable.Error{Kind: "config", Exit: errtable.ExitUsage, Path: path, Message: path + ": token is not set",
			Fix: `run crabmem secret set telegram, then set token = "secret:telegram" and allowed_users; chmod 600 the file`}
	}
	if name, ok := strings.CutPrefix(c.Token, "secret:"); ok {
		var err error
		if c.Token, err = secret(name); err != nil {
			return c, err
		}
	}
	return c, config.Invalid(path, c.check())
}

// check returns an error without the token.
func (c *Config) check() error {
	id, key, _ := strings.Cut(c.Token, ":")
	if n, err := strconv.ParseInt(id, 10, 64); err != nil || n <= 0 || key == "" || len(c.Token) > 256 || url.PathEscape(key) != key {
		return errors.New("token: want the token of a bot, as 123456:ABC-DEF")
	}
	if len(c.AllowedUsers) > maxAllowed {
		return fmt.Errorf("allowed_users: %d users, want at most %d", len(c.AllowedUsers), maxAllowed)
	}
	for _, id := range c.AllowedUsers {
		if id <= 0 {
			return fmt.Errorf("allowed_users: %d is not the ID of a user", id)
		}
	}
	if !slices.Contains([]string{"", "draft", "edit", "off"}, c.Streaming) {
		return fmt.Errorf("streaming = %q: want draft, edit, or off", c.Streaming)
	}
	if c.Format != "" && c.Format != "plain" && c.Format != "html" {
		return fmt.Errorf("format = %q: want plain or html", c.Format)
	}
	if c.PollTimeout < 1 || c.PollTimeout > 300 {
		return fmt.Errorf("poll_timeout = %d: want 1 to 300 seconds", c.PollTimeout)
	}
	if u, err := url.Parse(c.API); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" {
		return fmt.Errorf("api = %q: want an address as https://api.telegram.org", c.API)
	}
	if err := c.checkGroups(); err != nil || c.Session == "" {
		return err
	}
	_, err := channel.ParseBoundary(c.Session)
	return err
}

// Allowed returns the senders that allowed_users lists.
func (c *Config) Allowed() (list []string) {
	for _, id := range c.AllowedUsers {
		list = append(list, strconv.FormatInt(id, 10))
	}
	return list
}

// Users returns the senders that are listed or paired, in order.
func (c *Config) Users(rules trust.Rules) []string {
	list := slices.Concat(c.Allowed(), Paired(rules))
	slices.Sort(list)
	return slices.Compact(list)
}

// Identity returns a sender's identity.
func Identity(sender string) string { return prefix + sender }

// Paired returns the senders that have a rule of their own: a pairing, or the owner, wrote it.
func Paired(rules trust.Rules) (list []string) {
	for _, r := range rules {
		id, ok := strings.CutPrefix(r.Prefix, prefix)
		if n, err := strconv.ParseInt(id, 10, 64); ok && err == nil && n > 0 && strconv.FormatInt(n, 10) == id {
			list = append(list, id)
		}
	}
	return list
}
