package config

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"crabmem/crmem"
	"crabmem/daemon/timetext"
)

// settings checks the values of the rows of c, and reads what depends on several.
func (l *loader) settings(c *Config, top *section) {
	setDefaults(c.rows())
	top.read(c.rows())
	l.skillDirs(c, top.child("skills"))
	if bash := top.table("tools.bash"); c.Bash.Timeout > c.Bash.MaxTimeout {
		if bash.has("max_timeout") {
			bash.add("timeout", "%v is more than max_timeout, which is %v", c.Bash.Timeout, c.Bash.MaxTimeout)
		}
		c.Bash.MaxTimeout = c.Bash.Timeout
	}
	// Other machines may reach an address that is not a loopback address.
	tcp, metrics := top.child("tcp"), top.child("metrics")
	if tcp.isPublic(c.TCP.Listen, "127.0.0.1:6688") && tcp.empty("token_file") {
		tcp.add("listen", "other machines can reach '%s': set tcp.token_file to a file that contains a token", short(c.TCP.Listen))
	}
	if c.TCP.Token == "" && !tcp.empty("token_file") {
		c.TCP.Listen = "" // the token is missing
	}
	if metrics.isPublic(c.Metrics.Listen, "127.0.0.1:9688") {
		metrics.add("listen", "other machines can reach '%s': listen on 127.0.0.1", short(c.Metrics.Listen))
	}
}

// readHistory reads whether, or how long, the history keeps changes.
func (c *Config) readHistory(s *section, text string) {
	c.History, c.HistoryLimit = crmem.HistoryOn, 0
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
	}
	c.HistoryLimit = age
}

// readAge returns a reader for an age under a key.
func readAge(key string, to *time.Duration) func(*section, string) {
	return func(s *section, text string) {
		age, err := timetext.ParseAge(text)
		if err != nil || age < minHistory {
			s.add(key, "%q: want a time from 1h on, such as 30d, 12w, 1y, or 36h", short(text))
		}
		*to = age
	}
}

// checkProject checks a directory of [hooks].
func checkProject(dir string) error {
	if !filepath.IsAbs(dir) && !strings.HasPrefix(dir, "~/") {
		return fmt.Errorf("%q: want an absolute path, or a path that begins with ~/", short(dir))
	}
	return nil
}

// skillDirs checks the folders of skills, and makes them absolute.
func (l *loader) skillDirs(c *Config, s *section) {
	c.SkillDirs = nil
	for dir, at := range s.items("dirs") {
		if len(c.SkillDirs) == maxDirs {
			at.add("skills.dirs: more than %d directories", maxDirs)
			return
		}
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(l.home, dir)
		}
		dir = filepath.Clean(dir)
		if dir == filepath.Join(l.home, "skills") || slices.Contains(c.SkillDirs, dir) {
			l.warn(at, "skills.dirs: %s is already read: remove it", short(dir))
			continue
		}
		c.SkillDirs = append(c.SkillDirs, dir)
		root, err := l.fsys.Root(dir)
		if err == nil {
			err = root.Close()
		}
		if err != nil {
			l.warn(at, "skills.dirs: %s: %s: create the directory, or correct the path", short(dir), reason(err))
		}
	}
}

// isPublic checks an address to listen on. It reports whether other machines may reach it:
// the address is valid, and not a loopback address.
func (s *section) isPublic(address, example string) bool {
	if address == "" {
		return false
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		s.add("listen", "'%s' is not an address like %s", short(address), example)
		return false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		s.add("listen", "the port of '%s' is not a number up to 65535", short(address))
	}
	ip, err := netip.ParseAddr(host)
	return (err != nil || !ip.IsLoopback()) && host != "localhost"
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
