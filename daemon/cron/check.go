package cron

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"crabmem/bm25/clip"
	"crabmem/daemon/lazyregexp"
)

// A check validates one key's value, for entries of the file and of
// clients.
type check struct {
	key   string
	check func(*Cron) error
}

var checks = []check{
	{"schedule", func(c *Cron) error {
		d, err := interval(c.Schedule)
		if d == 0 && err == nil {
			_, err = segments(c.Schedule)
		}
		return err
	}},
	{"skill", func(c *Cron) error {
		if c.Skill == "" {
			if c.Prompt == "" {
				return invalid("no skill and no prompt: set one of them")
			}
			return nil
		}
		if len(c.Skill) > 128 || strings.IndexFunc(c.Skill, func(r rune) bool {
			return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		}) >= 0 {
			return invalid("invalid skill %s: it must consist of letters, digits, '-', and '_'", quote(c.Skill))
		}
		return nil
	}},
	{"prompt", func(c *Cron) error {
		if c.Prompt != "" && c.Skill+c.Args != "" {
			return invalid("prompt excludes skill and args: set one of them")
		}
		return text("prompt", c.Prompt, 16<<10)
	}},
	{"agent", func(c *Cron) error { return text("agent", c.Agent, 128) }},
	{"timeout", func(c *Cron) error {
		if d, err := time.ParseDuration(c.Timeout); c.Timeout != "" && (err != nil || d < time.Second || d > maxTimeout) {
			return invalid("invalid timeout %s: it must be a duration from 1s to %s, such as 30m", quote(c.Timeout), maxTimeout)
		}
		return nil
	}},
	{"sender", func(c *Cron) error { return text("sender", c.Sender, 1<<10) }},
	{"scope", func(c *Cron) error { return text("scope", c.Scope, 16<<10) }},
	{"origin_scope", func(c *Cron) error { return text("origin_scope", c.Origin, 16<<10) }},
	{"deliver", func(c *Cron) error {
		if c.Wake && c.Deliver == "" {
			return invalid("wake requires deliver: set the conversation that receives the texts")
		}
		return text("deliver", c.Deliver, 1<<10)
	}},
	{"args", func(c *Cron) error { return text("args", c.Args, 16<<10) }},
	{"approve", func(c *Cron) error {
		if c.Approve != "" && c.Approve != AllowedOnly && c.Approve != AnyCommand {
			return invalid("invalid approve %s: want %q, or %q to run all commands", quote(c.Approve), AllowedOnly, AnyCommand)
		}
		return nil
	}},
	{"session", func(c *Cron) error {
		if c.Session > math.MaxInt64 {
			return invalid("session %d is too large", c.Session)
		}
		return nil
	}},
	{"session_file", func(c *Cron) error {
		if strings.ContainsAny(c.SessionFile, "/\\") || strings.HasPrefix(c.SessionFile, ".") {
			return invalid("invalid session_file %s: it must be the name of a session", quote(c.SessionFile))
		}
		return text("session_file", c.SessionFile, 1<<10)
	}},
	{"quiet_start", func(c *Cron) error { return quiet("quiet_start", c.QuietStart) }},
	{"quiet_end", func(c *Cron) error { return quiet("quiet_end", c.QuietEnd) }},
	{"timezone", func(c *Cron) error {
		_, err := c.Location()
		return err
	}},
}

// Check returns an error for an entry that cannot run.
func (c *Cron) Check() error {
	for _, k := range checks {
		if err := k.check(c); err != nil {
			return err
		}
	}
	return nil
}

func text(key, text string, limit int) error {
	switch {
	case len(text) > limit:
		return invalid("%s has %d bytes, more than the limit of %d", key, len(text), limit)
	case !utf8.ValidString(text) || strings.Contains(text, "\x00"):
		return invalid("%s must be text in UTF-8", key)
	}
	return nil
}

var clock = lazyregexp.New(`^([01]?[0-9]|2[0-3]):[0-5][0-9]$`)

// quiet checks one end of quiet hours. One without the other is ignored (RFC
// 0080).
func quiet(key, v string) error {
	if v != "" && !clock().MatchString(v) {
		return invalid("invalid %s %s: it must be a time like 22:30", key, quote(v))
	}
	return nil
}

// quote quotes a value in one short line.
func quote(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	return "'" + clip.Chars(s, 80) + "'"
}
