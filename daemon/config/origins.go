package config

import (
	"cmp"
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
	top.tables("origins", func(prefix string, s *section) {
		r := trust.Rule{Prefix: prefix}
		if err := trust.CheckPrefix(prefix); err != nil {
			s.at("").add("origins: %v", err)
		}
		level := string(trust.Untrusted)
		s.enum("trust", &level, string(trust.Untrusted), string(trust.Trusted), string(trust.Admin))
		r.Level = trust.Level(level)
		own := PerSender
		s.str("space", &own)
		s.strs("reads", &r.Reads)
		s.strs("allow", &r.Allow)
		if r.Level == trust.Admin {
			for _, key := range []string{"space", "reads", "allow"} {
				if s.has(key) {
					s.at(key).add("%s: admins use the spaces and the tools of the agent: remove it", s.full(key))
				}
			}
		} else {
			s.spaces(&r, own)
		}
		c.Origins = append(c.Origins, r)
	})
	if len(c.Origins) > maxOrigins {
		top.at("origins").add("%d tables of origins exceed the limit of %d", len(c.Origins), maxOrigins)
	}
}

// agentSpaces reads memory, which is a boolean or the space that the agent writes,
// and memory_read.
func (s *section) agentSpaces(a *Agent) {
	if v, ok := s.get("memory"); ok {
		switch v := v.v.(type) {
		case bool:
			a.Memory = v
		case string:
			a.Memory, a.Space = true, v
			if err := space.Check(v); err != nil {
				s.at("memory").add("%s: %v", s.full("memory"), err)
			}
		default:
			s.wrong("memory", value{s.at("memory").line, v}, "true, false, or the name of a space")
		}
	}
	s.strs("memory_read", &a.ReadSpaces)
	for _, name := range a.ReadSpaces {
		if err := space.Check(name); err != nil {
			s.at("memory_read").add("%s: %v", s.full("memory_read"), err)
		}
	}
	a.ReadSpaces = slices.DeleteFunc(a.ReadSpaces, func(name string) bool { return name == cmp.Or(a.Space, space.Main) })
}

// spaces checks the spaces and the allowed tools of a rule.
func (s *section) spaces(r *trust.Rule, own string) {
	if own != PerSender {
		r.Space = own
		if err := space.Check(own); err != nil {
			s.at("space").add("%s: %v, or be %q", s.full("space"), err, PerSender)
		} else if own == space.Main && r.Level != trust.Trusted {
			s.at("space").add("%s: untrusted identities cannot use the space main: name another space", s.full("space"))
		}
	}
	if r.Level != trust.Trusted && s.has("reads") {
		s.at("reads").add("%s: only trusted identities read other spaces: remove it, or set trust to \"trusted\"", s.full("reads"))
	}
	for _, name := range r.Reads {
		if err := space.Check(name); err != nil {
			s.at("reads").add("%s: %v", s.full("reads"), err)
		}
	}
	for _, word := range r.Allow {
		if err := trust.CheckAllow(r.Level, word); err != nil {
			s.at("allow").add("%s: %v", s.full("allow"), err)
		}
	}
	r.Reads = slices.DeleteFunc(r.Reads, func(name string) bool { return name == own })
}
