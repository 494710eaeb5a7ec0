package daemon

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// The table of trust (DESIGN.md, Trust), written a second time for
// TestScopesNeverWiden.

// Identities of clients, and prefixes of rules for them.
var (
	localSenders  = []string{"", "user", "ann", "cron", "delegate-crab"}
	remoteSenders = []string{"tg:7", "tg:77", "slack:U02-ABC", "discord:99", "mail:ann@post.example", "matrix:@ann:hs.example", "hook:k/1", ":"}
	rulePrefixes  = []string{"tg:", "tg:7", "slack:U02-ABC", "slack:U02", "discord:9", "discord:", "mail:", "matrix:@ann:hs.example", "hook:k"}
	// spaceNames are the spaces that exist, without those of senders.
	spaceNames = []string{"main", "team", "group", "help"}
)

// standing is the rule of a configuration for some identities.
type standing struct {
	level string
	space string // "" is one for each identity
	reads []string
	allow []string
}

func (st standing) String() string {
	text := "trust = \"" + st.level + "\"\n"
	if st.space != "" {
		text += "space = \"" + st.space + "\"\n"
	}
	if st.reads != nil {
		text += "reads = " + quotedList(st.reads) + "\n"
	}
	if st.allow != nil {
		text += "allow = " + quotedList(st.allow) + "\n"
	}
	return text
}

func randomStanding(r *rand.Rand) standing {
	switch r.IntN(4) {
	case 0:
		return standing{level: "admin"}
	case 1:
		return standing{level: "untrusted", space: []string{"", "", "help"}[r.IntN(3)], allow: partOf(r, []string{"recall", "remember"})}
	}
	return standing{
		level: "trusted", space: []string{"", "", "", "group", "main"}[r.IntN(5)], reads: partOf(r, []string{"team", "main"}),
		allow: partOf(r, []string{"skill:feeds", "skill:sums", "mcp:search", "delegate:bet", []string{"skill", "skill:notes"}[r.IntN(2)], []string{"delegate", "mcp", "delegate:alef"}[r.IntN(3)]}),
	}
}

// standings are the rules of a world by prefix.
type standings map[string]standing

// of returns the standing of an identity and the space of its own.
func (sts standings) of(identity string) (st standing, own string) {
	if !strings.Contains(identity, ":") {
		return standing{level: "admin"}, ""
	}
	st.level = "untrusted"
	longest := 0
	for prefix, rule := range sts {
		fits := identity == prefix || strings.HasPrefix(identity, prefix+"/") || prefix[len(prefix)-1] == ':' && strings.HasPrefix(identity, prefix)
		if fits && len(prefix) > longest {
			st, longest = rule, len(prefix)
		}
	}
	if own = st.space; own == "" {
		own = fmt.Sprintf("sender-%x", sha256.Sum256([]byte(identity)))[:len("sender-")+32]
	}
	return st, own
}

// allows reports whether an identity of that standing may do that, whatever the
// agent may do.
func (st standing) allows(kind, name string) bool {
	switch {
	case st.level == "admin" || kind == "tool" && name == "ask_user":
		return true
	case st.level == "untrusted":
		return kind == "tool" && (name == "recall" || name == "remember") && slices.Contains(st.allow, name)
	case kind == "tool":
		switch name {
		case "recall", "remember", "forget", "session_search":
			return true
		case "skill", "mcp", "delegate":
			return slices.ContainsFunc(st.allow, func(word string) bool { return strings.HasPrefix(word, name) })
		}
		return false
	case kind == "member":
		kind = "delegate"
	}
	return slices.Contains(st.allow, kind) || slices.Contains(st.allow, kind+":"+name)
}

// A path says who asked whom, which skills each has loaded, and, for the first
// agent, who created the session and who sent the message:
// crab|tg:7|user>bet+feeds. The model writes it into everything that it says.
type path struct {
	identities []string // creator and sender
	steps      []string // agents with their skills
}

func parsePath(at string) path {
	first, others, delegated := strings.Cut(at, ">")
	parts := strings.Split(first, "|") // agent, creator, sender with its skills
	sender, skills, loaded := strings.Cut(parts[2], "+")
	p := path{identities: []string{parts[1], sender}, steps: []string{parts[0]}}
	if loaded {
		p.steps[0] += "+" + skills
	}
	if delegated {
		p.steps = append(p.steps, strings.Split(others, ">")...)
	}
	return p
}

// agent returns the agent at the end of the path.
func (p path) agent() string {
	name, _, _ := strings.Cut(p.steps[len(p.steps)-1], "+")
	return name
}

// restricted returns the identities of the path that are not admins.
func (sts standings) restricted(p path) []string {
	var list []string
	for _, id := range p.identities {
		if st, _ := sts.of(id); st.level != "admin" && !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}

// mayRead reports whether recall in a run may read a space.
func (w *world) mayRead(p path, space string) bool {
	restricted := w.rules.restricted(p)
	for _, id := range restricted {
		st, own := w.rules.of(id)
		reads := slices.Clone(st.reads)
		if st.level == "trusted" || st.allows("tool", "recall") {
			reads = append(reads, own)
		}
		if !slices.Contains(reads, space) {
			return false
		}
	}
	g := w.grants[p.agent()]
	return len(restricted) > 0 || space == g.space || slices.Contains(g.reads, space)
}

// mayWrite reports whether a run may write a space: by remember, by forget, or by the
// archive of a summary.
func (w *world) mayWrite(p path, by, space string) bool {
	restricted := w.rules.restricted(p)
	for _, id := range restricted {
		st, own := w.rules.of(id)
		if space != own || st.level == "untrusted" && (by != "remember" || !st.allows("tool", "remember")) {
			return false
		}
	}
	return len(restricted) > 0 || space == w.grants[p.agent()].space
}

// maySee reports whether session_search in a run may return a text that another run
// wrote to its session.
func (w *world) maySee(p, wrote path) bool {
	if p.agent() != wrote.agent() {
		return false
	}
	restricted := w.rules.restricted(p)
	if len(restricted) > 0 {
		return len(restricted) == 1 && wrote.identities[0] == restricted[0]
	}
	if len(wrote.steps) > 1 { // the session of a delegated task
		return len(w.rules.restricted(wrote)) == 0
	}
	st, _ := w.rules.of(wrote.identities[0])
	return st.level == "admin"
}
