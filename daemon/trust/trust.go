// Package trust computes the permissions of a run from the identities that take part
// in it: the creator of the session and the sender of the message.
//
// An identity without a colon belongs to a user of this machine who may open the
// socket of the daemon: an admin. An identity with a colon, such as tg:7, belongs
// to another service. The rules of the configuration set the trust of such an
// identity. Without a rule it is untrusted.
package trust

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"crabmem/daemon/space"
	"crabmem/daemon/tool"
)

// Level is the trust in an identity.
type Level string

// The levels, from the least to the most trust.
const (
	Untrusted Level = "untrusted" // only ask_user, and the tools that a rule allows
	Trusted   Level = "trusted"   // its own space, and the tools that a rule allows
	Admin     Level = "admin"     // everything that the agent may do
)

// Levels lists the levels' words.
var Levels = []string{string(Untrusted), string(Trusted), string(Admin)}

// Limits of the space of an untrusted identity with a rule that allows remember.
const (
	maxEntries = 100
	maxBytes   = 256 << 10
)

// Rule is the trust in the identities that a prefix matches.
type Rule struct {
	// Prefix matches itself. It matches every identity that begins with it if it
	// ends with ':' or '/'. Otherwise the identity must continue with '/'.
	Prefix string
	Level  Level
	// Space is the space that the identities share. If it is empty, each identity
	// has its own space.
	Space string
	Reads []string // more spaces for recall
	// Allow lists words KIND or KIND:NAME. See CheckAllow.
	Allow []string
}

// Table returns the rule as a table of the configuration, without its prefix.
func (r *Rule) Table() map[string]any {
	t := map[string]any{"trust": string(r.Level)}
	if r.Space != "" {
		t["space"] = r.Space
	}
	if len(r.Reads) > 0 {
		t["reads"] = r.Reads
	}
	if len(r.Allow) > 0 {
		t["allow"] = r.Allow
	}
	return t
}

// Rules are the rules of a configuration. The longest prefix that matches an
// identity wins.
type Rules []Rule

// CheckPrefix returns an error for a prefix that no rule can have.
func CheckPrefix(prefix string) error {
	switch {
	case !strings.Contains(prefix, ":"):
		return fmt.Errorf("prefix %q has no ':': identities without ':' are users of this machine and always admins", prefix)
	case strings.HasPrefix(prefix, delegatePrefix), strings.HasPrefix(prefix, workPrefix), strings.HasPrefix(prefix, cronPrefix):
		return fmt.Errorf("prefix %q is reserved: begin it with the name of a service, as in tg:7", prefix)
	case !isWord(prefix[0]):
		return fmt.Errorf("prefix %q does not begin with a letter or a digit: begin it with the name of a service, as in tg:7", prefix)
	}
	return nil
}

func isWord(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}

// kinds are the words that Allow may contain, by level. A kind with true may be
// followed by a name.
var kinds = map[Level]map[string]bool{
	Untrusted: {tool.Recall: false, tool.Remember: false, "branch": false},
	Trusted:   {tool.Delegate: true, tool.MCP: true, tool.Skill: true},
}

// CheckAllow returns an error for a word that a rule of a level cannot allow:
// recall and remember for untrusted identities; skill, mcp, and delegate for
// trusted ones, with or without a NAME.
func CheckAllow(level Level, word string) error {
	kind, name, named := strings.Cut(word, ":")
	canHaveName, ok := kinds[level][kind]
	switch {
	case level == Admin:
		return fmt.Errorf("admins need no %q: remove it", word)
	case !ok || named && (!canHaveName || name == ""):
		return fmt.Errorf("%s identities cannot be allowed %q: want %s", level, word, words[level])
	}
	return nil
}

var words = map[Level]string{
	Untrusted: "recall, remember, or branch",
	Trusted:   "skill, mcp, or delegate, or one of them with a name, as in skill:feeds",
}

// matches reports whether the rule is for an identity.
func (r *Rule) matches(identity string) bool {
	rest, ok := strings.CutPrefix(identity, r.Prefix)
	return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(r.Prefix, ":") || strings.HasSuffix(r.Prefix, "/"))
}

// find returns the rule of an identity with a colon.
func (rs Rules) find(identity string) Rule {
	best := Rule{Level: Untrusted}
	for _, r := range rs {
		if r.matches(identity) && len(r.Prefix) > len(best.Prefix) {
			best = r
		}
	}
	return best
}

// delegatePrefix begins the creator of the session of a delegated task:
// delegate-AGENT for users of this machine, delegate-AGENT:IDENTITY for others.
const delegatePrefix = "delegate-"

// Delegate returns the creator of the session of a task that an agent delegates in
// a run of a creator and a sender. Its scope never exceeds that of the run: if two
// identities of other services take part, it is untrusted.
func Delegate(agent, creator, sender string) string {
	var remote []string
	for _, id := range []string{creator, sender} {
		if strings.Contains(id, ":") && !slices.Contains(remote, Origin(id)) {
			remote = append(remote, Origin(id))
		}
	}
	switch len(remote) {
	case 0:
		return delegatePrefix + agent
	case 1:
		return delegatePrefix + agent + ":" + remote[0]
	}
	return delegatePrefix + agent + ":"
}

// Delegated reports whether an identity is the creator of the session of a delegated task
// or of work: the permissions of its run are not in the session's file.
func Delegated(creator string) bool {
	return strings.HasPrefix(creator, delegatePrefix) || strings.HasPrefix(creator, workPrefix)
}

// workPrefix begins the creator of a session that does work of another session; the
// creator of that session follows.
const workPrefix = "work-"

// Cron is the sender of cron entries' messages. No user waits for their answers.
const Cron = "cron"

// cronPrefix begins the sender of an entry that another service's identity made; the
// identity follows.
const cronPrefix = Cron + "-"

// CronOf returns the sender of a cron entry's messages, by the identity that made it.
func CronOf(identity string) string {
	switch {
	case !strings.Contains(identity, ":"):
		return Cron
	case IsCron(identity):
		return identity
	}
	return cronPrefix + identity
}

// IsCron reports whether an identity is a cron entry's sender.
func IsCron(identity string) bool {
	return identity == Cron || strings.HasPrefix(identity, cronPrefix)
}

// Origin returns the identity for which a task was delegated, work began, or a cron entry
// was made, or the identity itself.
func Origin(identity string) string {
	for strings.HasPrefix(identity, workPrefix) || strings.HasPrefix(identity, cronPrefix) {
		_, identity, _ = strings.Cut(identity, "-")
	}
	if strings.HasPrefix(identity, delegatePrefix) {
		if _, rest, ok := strings.Cut(identity, ":"); ok {
			return rest
		}
	}
	return identity
}

// Level returns the trust in an identity.
func (rs Rules) Level(identity string) Level {
	if !strings.Contains(identity, ":") {
		return Admin
	}
	return rs.find(Origin(identity)).Level
}

// Allows reports whether the rules of two identities allow a word. Admins need no rule.
func (rs Rules) Allows(creator, sender, word string) bool {
	for _, id := range []string{creator, sender} {
		if rs.Level(id) != Admin && !slices.Contains(rs.find(Origin(id)).Allow, word) {
			return false
		}
	}
	return true
}

// Space returns the space in which an identity's notes are.
func (rs Rules) Space(identity string) string {
	if rs.Level(identity) == Admin {
		return space.Main
	}
	return cmp.Or(rs.find(Origin(identity)).Space, space.OfSender(Origin(identity)))
}

// Sees reports whether a run with a scope may see the sessions of an identity: an admin's run sees
// those of all admins, and another run those that its scope names.
func (rs Rules) Sees(s tool.Scope, createdBy string) bool {
	if !s.Memory.Sessions.All() {
		return s.Memory.Sessions.Allows(createdBy)
	}
	return rs.Level(createdBy) == Admin
}

// Scope returns the permissions of a run in which a creator of a session and a
// sender take part: those that both have.
func (rs Rules) Scope(creator, sender string) tool.Scope {
	scope := rs.of(creator)
	if sender != creator {
		scope = scope.Intersect(rs.of(sender))
	}
	return scope
}

// of returns the permissions of an identity.
func (rs Rules) of(identity string) tool.Scope {
	if !strings.Contains(identity, ":") {
		return tool.Unbounded()
	}
	identity = Origin(identity)
	r := rs.find(identity)
	if r.Level == Admin {
		return tool.Unbounded()
	}
	own := rs.Space(identity)
	s := tool.Scope{Confined: true, Memory: tool.Memory{Sessions: tool.Only(identity)}}
	if r.Level == Trusted {
		r.trusted(&s, own)
	} else {
		r.untrusted(&s, own)
	}
	return s
}

func (r *Rule) untrusted(s *tool.Scope, own string) {
	tools := []string{tool.AskUser}
	if slices.Contains(r.Allow, tool.Recall) {
		tools = append(tools, tool.Recall)
		s.Memory.Reads = tool.Only(own)
	}
	if slices.Contains(r.Allow, tool.Remember) {
		tools = append(tools, tool.Remember)
		s.Memory.Writes = tool.Only(own)
		s.Memory.MaxEntries, s.Memory.MaxBytes = maxEntries, maxBytes
	}
	s.Tools, s.TextOnly = tool.Only(tools...), true
}

func (r *Rule) trusted(s *tool.Scope, own string) {
	tools := []string{tool.AskUser, tool.Recall, tool.Remember, tool.Forget, tool.SessionSearch}
	for kind, list := range map[string]*tool.List{tool.Skill: &s.Skills, tool.MCP: &s.MCPs, tool.Delegate: &s.Members} {
		var names []string
		for _, word := range r.Allow {
			if name, ok := strings.CutPrefix(word, kind+":"); ok {
				names = append(names, name)
			}
		}
		switch {
		case slices.Contains(r.Allow, kind):
			*list = tool.Everything()
		case len(names) > 0:
			*list = tool.Matching(names...)
		default:
			continue
		}
		tools = append(tools, kind)
	}
	s.Tools = tool.Only(tools...)
	s.Memory.Reads, s.Memory.Writes = tool.Only(append([]string{own}, r.Reads...)...), tool.Only(own)
}
