package config

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/approval"
	"crabmem/daemon/secret/scan"
	"crabmem/daemon/timetext"
)

// settings reads the tables that are about the daemon itself.
func (l *loader) settings(c *Config, top *section) {
	c.Memory = true
	memory := top.table("memory")
	memory.boolean("enabled", &c.Memory)
	secrets := string(scan.Default)
	memory.enum("secrets", &secrets, scan.Policies...)
	c.Secrets = scan.Policy(secrets)
	memory.history(c)
	c.MaxSpaces = 1000
	memory.integer("max_spaces", &c.MaxSpaces, 1, 100_000)
	memory.done()

	ranking := top.table("recall")
	ranking.fraction("importance_weight", &c.ImportanceWeight)
	ranking.halfLife(c)
	ranking.done()
	l.embedder(c, top)

	system := top.table("system")
	c.Tasks = Tasks{MaxConcurrent: 4, Timeout: 5 * time.Minute}
	tasks := system.table("tasks")
	tasks.integer("max_concurrent", &c.Tasks.MaxConcurrent, 1, 1000)
	window, editable := 0, false
	tasks.integer("viewable_window", &window, 0, 1<<31-1)
	l.unused(tasks, "viewable_window")
	tasks.duration("task_timeout", &c.Tasks.Timeout, time.Second, maxTimeout)
	tasks.done()
	c.RecallLimit = 5
	recall := system.table("memory")
	recall.integer("recall_limit", &c.RecallLimit, 1, 1000)
	recall.boolean("soul_editable", &editable)
	l.unused(recall, "soul_editable")
	recall.done()
	system.asked["crab"] = true // agents reads it
	system.done()

	origins(c, top)
	l.skills(c, top.table("skills"))
	readTools(c, top)
	readLimits(c, top)

	c.Sessions = Sessions{Titles: "model"}
	sessions := top.table("sessions")
	sessions.enum("titles", &c.Sessions.Titles, "model", "first-line", "off")
	sessions.done()
	c.Cron = Cron{CatchUp: 12 * time.Hour}
	crons := top.table("cron")
	crons.duration("catch_up", &c.Cron.CatchUp, 0, 7*24*time.Hour)
	crons.done()

	tcp := top.table("tcp")
	tcp.str("listen", &c.TCP.Listen)
	l.secretFile(tcp, "token_file", &c.TCP.Token)
	tcp.listens(c.TCP.Listen)
	tcp.done()

	c.Log = Log{MaxSize: 8 << 20, Keep: 3}
	log := top.table("log")
	log.integer("max_size", &c.Log.MaxSize, 64<<10, 1<<30)
	log.integer("keep", &c.Log.Keep, 0, 100)
	log.done()

	metrics := top.table("metrics")
	metrics.str("listen", &c.Metrics.Listen)
	metrics.loopback(c.Metrics.Listen)
	metrics.done()
}

// minHistory is the shortest duration of the history.
const minHistory = time.Hour

// history reads whether, or how long, the history keeps changes.
func (s *section) history(c *Config) {
	text := "on"
	s.str("history", &text)
	switch text {
	case "on":
		return
	case "off":
		c.History = crmem.HistoryOff
		return
	}
	age, err := timetext.ParseAge(text)
	if err != nil || age < minHistory {
		s.at("history").unknown(text, []string{"on", "off"}, "%s: unknown value '%s': want on, off, or an age from 1h on, such as 90d, 12w, 1y, or 36h", s.full("history"), short(text))
		return
	}
	c.HistoryLimit = age
}

// halfLife reads the time in which the recency of an entry falls to half.
func (s *section) halfLife(c *Config) {
	text := "30d"
	s.str("half_life", &text)
	age, err := timetext.ParseAge(text)
	if err != nil || age < minHistory {
		s.at("half_life").add("%s: %q: want a time from 1h on, such as 30d, 12w, 1y, or 36h", s.full("half_life"), short(text))
		return
	}
	c.HalfLife = age
}

// readTools reads the tables of tools.
func readTools(c *Config, top *section) {
	tools := top.table("tools")
	c.Bash = Bash{Access: "base", Timeout: 2 * time.Minute, MaxTimeout: 10 * time.Minute, MaxOutput: 64 << 10, Approve: "ask", Allow: approval.Default}
	bash := tools.table("bash")
	bash.enum("access", &c.Bash.Access, "base", "listed", "never")
	bash.duration("timeout", &c.Bash.Timeout, time.Second, maxTimeout)
	bash.duration("max_timeout", &c.Bash.MaxTimeout, time.Second, maxTimeout)
	bash.integer("max_output", &c.Bash.MaxOutput, 1<<10, 8<<20)
	bash.enum("approve", &c.Bash.Approve, "ask", "allowlist", "off")
	bash.strs("allow", &c.Bash.Allow)
	for _, prefix := range c.Bash.Allow {
		if err := approval.Check(prefix); err != nil {
			bash.at("allow").add("tools.bash.allow: %v", err)
		}
	}
	if c.Bash.Timeout > c.Bash.MaxTimeout {
		if bash.has("max_timeout") {
			bash.at("timeout").add("tools.bash.timeout: %v is more than max_timeout, which is %v", c.Bash.Timeout, c.Bash.MaxTimeout)
		}
		c.Bash.MaxTimeout = c.Bash.Timeout
	}
	bash.done()
	c.Ask = Ask{Timeout: 5 * time.Minute}
	ask := tools.table("ask_user")
	ask.duration("timeout", &c.Ask.Timeout, time.Second, maxTimeout)
	ask.done()
	c.Delegate = Delegate{MaxDepth: 3, MaxTasks: 8}
	delegate := tools.table("delegate")
	delegate.integer("max_depth", &c.Delegate.MaxDepth, 1, 16)
	delegate.integer("max_tasks", &c.Delegate.MaxTasks, 1, 64)
	delegate.done()
	tools.done()
}

// readLimits reads the limits of the daemon.
func readLimits(c *Config, top *section) {
	c.Limits = Limits{
		Connections: 256, Subscribers: 64, Sessions: 10_000, InFlight: 48 << 20, SendQueue: 1024,
		FrameTimeout: 30 * time.Second, Progress: 30 * time.Second, Drain: 10 * time.Second,
	}
	limits := top.table("limits")
	limits.integer("connections", &c.Limits.Connections, 1, 100_000)
	limits.integer("subscribers", &c.Limits.Subscribers, 1, 10_000)
	limits.integer("sessions", &c.Limits.Sessions, 1, 1_000_000)
	limits.integer("in_flight", &c.Limits.InFlight, 32<<20, 1<<30) // two frames of the largest size
	limits.integer("send_queue", &c.Limits.SendQueue, 16, 1<<20)
	limits.duration("frame_timeout", &c.Limits.FrameTimeout, time.Second, maxTimeout)
	limits.duration("progress", &c.Limits.Progress, time.Second, maxTimeout)
	limits.duration("drain", &c.Limits.Drain, 0, maxTimeout)
	limits.done()
}

// skills reads the folders of skills.
func (l *loader) skills(c *Config, s *section) {
	s.each("dirs", func(dir string, line int) {
		at := place{s.f, line}
		switch {
		case badName(dir) != "":
			at.add("skills.dirs: name %s", badName(dir))
			return
		case len(c.SkillDirs) == maxDirs:
			at.add("skills.dirs: more than %d directories", maxDirs)
			return
		case !filepath.IsAbs(dir):
			dir = filepath.Join(l.home, dir)
		}
		dir = filepath.Clean(dir)
		if dir == filepath.Join(l.home, "skills") || slices.Contains(c.SkillDirs, dir) {
			l.warn(at, "skills.dirs: %s is already read: remove it", short(dir))
			return
		}
		c.SkillDirs = append(c.SkillDirs, dir)
		root, err := l.fsys.Root(dir)
		if err == nil {
			err = root.Close()
		}
		if err != nil {
			l.warn(at, "skills.dirs: %s: %s: create the directory, or correct the path", short(dir), reason(err))
		}
	})
	s.done()
}

// unused adds a warning about a key of the reference that has no effect in crabmem.
func (l *loader) unused(s *section, key string) {
	if s.has(key) {
		l.warn(s.at(key), "%s has no effect: remove it", s.full(key))
	}
}

// listens checks the address to listen on: an address that is not a loopback
// address requires a token.
func (s *section) listens(address string) {
	if loopback, ok := s.address(address, "127.0.0.1:6688"); ok && !loopback && s.empty("token_file") {
		s.at("listen").add("tcp.listen: other machines can reach '%s': set tcp.token_file to a file that contains a token", short(address))
	}
}

// loopback checks an address that only this machine may reach.
func (s *section) loopback(address string) {
	if loopback, ok := s.address(address, "127.0.0.1:9688"); ok && !loopback {
		s.at("listen").add("%s: other machines can reach '%s': listen on 127.0.0.1", s.full("listen"), short(address))
	}
}

// address checks an address to listen on, and reports whether it is a loopback
// address. ok is false if it is empty or invalid.
func (s *section) address(address, example string) (loopback, ok bool) {
	if address == "" {
		return false, false
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		s.at("listen").add("%s: '%s' is not an address like %s", s.full("listen"), short(address), example)
		return false, false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		s.at("listen").add("%s: the port of '%s' is not a number up to 65535", s.full("listen"), short(address))
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || host == "localhost", true
}

// Secret is a value that is never printed, logged or marshalled; convert it
// to a string to use it.
type Secret string

const hidden = "[secret]"

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// Format is String for every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
