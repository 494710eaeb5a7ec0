package config

import (
	"slices"

	"crabmem/daemon/space"
	"crabmem/daemon/trust"
)

// maxOrigins limits the tables [origins.*].
const maxOrigins = 1000

// PerSender is the value of the key space for a separate space of each identity.
const PerSender = "per_sender"

// origins reads the tables [origins."PREFIX"]: the trust in identities of other
// services.
func origins(c *Config, top *section) {
	for prefix, s := range top.tables("origins") {
		r := trust.Rule{Prefix: prefix, Level: trust.Untrusted}
		if err := trust.CheckPrefix(prefix); err != nil {
			s.at("").add("origins: %v", err)
		}
		s.read(originRows(&r))
		if r.Level == trust.Admin {
			for _, key := range []string{"space", "reads", "allow"} {
				if s.has(key) {
					s.add(key, "admins use the spaces and the tools of the agent: remove it")
				}
			}
		} else {
			s.checkSpaces(&r)
		}
		c.Origins = append(c.Origins, r)
	}
	if len(c.Origins) > maxOrigins {
		top.at("origins").add("%d tables of origins exceed the limit of %d", len(c.Origins), maxOrigins)
	}
}

// spaces checks a list of spaces, and replaces labels such as api:phone by names.
func (s *section) spaces(key string, list []string) {
	for i, label := range list {
		list[i] = space.Named(s.l.fsys, s.l.home, label)
		if err := space.Check(list[i]); err != nil {
			s.add(key, "%v", err)
		}
	}
}

// checkSpaces checks the spaces and the allowed tools of a rule.
func (s *section) checkSpaces(r *trust.Rule) {
	own := r.Space
	if own == PerSender {
		r.Space = ""
	} else if s.has("space") {
		if err := space.Check(own); err != nil {
			s.add("space", "%v, or be %q", err, PerSender)
		} else if own == space.Main && r.Level != trust.Trusted {
			s.add("space", "untrusted identities cannot use the space main: name another space")
		}
	}
	if r.Level != trust.Trusted && s.has("reads") {
		s.add("reads", "only trusted identities read other spaces: remove it, or set trust to \"trusted\"")
	}
	s.spaces("reads", r.Reads)
	for _, word := range r.Allow {
		if err := trust.CheckAllow(r.Level, word); err != nil {
			s.add("allow", "%v", err)
		}
	}
	r.Reads = slices.DeleteFunc(r.Reads, func(name string) bool { return name == own })
}
