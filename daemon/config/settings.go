package config

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// settings reads the tables that are about the daemon itself.
func (l *loader) settings(c *Config, top *section) {
	c.Memory = true
	memory := top.table("memory")
	memory.boolean("enabled", &c.Memory)
	memory.done()

	system := top.table("system")
	c.Tasks = Tasks{MaxConcurrent: 4, ViewableWindow: 16, Timeout: 5 * time.Minute}
	tasks := system.table("tasks")
	tasks.integer("max_concurrent", &c.Tasks.MaxConcurrent, 1, 1000)
	tasks.integer("viewable_window", &c.Tasks.ViewableWindow, 0, 1<<31-1)
	tasks.duration("task_timeout", &c.Tasks.Timeout, time.Second, maxTimeout)
	tasks.done()
	c.RecallLimit, c.SoulEditable = 5, true
	recall := system.table("memory")
	recall.integer("recall_limit", &c.RecallLimit, 1, 1000)
	recall.boolean("soul_editable", &c.SoulEditable)
	recall.done()
	system.asked["crab"] = true // agents reads it
	system.done()

	tools := top.table("tools")
	c.Bash = Bash{Access: "base", Timeout: 2 * time.Minute, MaxTimeout: 10 * time.Minute, MaxOutput: 64 << 10}
	bash := tools.table("bash")
	bash.enum("access", &c.Bash.Access, "base", "listed", "never")
	bash.duration("timeout", &c.Bash.Timeout, time.Second, maxTimeout)
	bash.duration("max_timeout", &c.Bash.MaxTimeout, time.Second, maxTimeout)
	bash.integer("max_output", &c.Bash.MaxOutput, 1<<10, 8<<20)
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

// listens checks the address to listen on: an address that is not a loopback
// address requires a token.
func (s *section) listens(address string) {
	if loopback, ok := s.address(address, "127.0.0.1:6688"); ok && !loopback && s.empty("token_file") {
		s.at("listen").add("tcp.listen: other machines can reach '%s': set tcp.token_file to a file that contains a token", clip(address))
	}
}

// loopback checks an address that only this machine may reach.
func (s *section) loopback(address string) {
	if loopback, ok := s.address(address, "127.0.0.1:9688"); ok && !loopback {
		s.at("listen").add("%s: other machines can reach '%s': listen on 127.0.0.1", s.full("listen"), clip(address))
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
		s.at("listen").add("%s: '%s' is not an address like %s", s.full("listen"), clip(address), example)
		return false, false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		s.at("listen").add("%s: the port of '%s' is not a number up to 65535", s.full("listen"), clip(address))
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
