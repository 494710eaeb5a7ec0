package tool

import (
	"fmt"
	"slices"
	"strings"
)

// Names of the tools that scopes speak of.
const (
	Bash      = "bash"
	Read      = "read"
	Edit      = "edit"
	ListFiles = "list"
	Write     = "write"
	AskUser   = "ask_user"
	Delegate  = "delegate"
	Skill     = "skill"
	MCP       = "mcp"
	Send      = "send"

	Recall        = "recall"
	Remember      = "remember"
	Forget        = "forget"
	SessionSearch = "session_search"
)

// BuiltIn returns the names of the daemon's own tools.
func BuiltIn() []string {
	return []string{AskUser, Bash, Delegate, Edit, Forget, ListFiles, MCP, Read, Recall, Remember, Send, SessionSearch, Skill, Write}
}

// Unmatched returns the patterns that match no name. It omits patterns that begin
// with mcp and names SERVER/TOOL: a server that connects later may have matching tools.
func Unmatched(patterns, names []string) []string {
	return slices.DeleteFunc(slices.Clone(patterns), func(p string) bool {
		return strings.HasPrefix(p, MCP) || remoteNames([]string{p}, never) != nil || slices.ContainsFunc(names, func(n string) bool { return covers(p, n) })
	})
}

// memoryTools are the tools that an agent without memory lacks. session_search is
// one of them, because it returns texts of earlier sessions.
var memoryTools = []string{Forget, Recall, Remember, SessionSearch}

// List is the permitted names of one kind. The zero value permits nothing.
type List struct {
	all    bool
	names  []string // sorted, no two the same; one that ends in * is a prefix
	except []string // sorted, unique, without patterns
}

// Everything is the list that allows every name.
func Everything() List { return List{all: true} }

// Only returns a list of exactly those names, without patterns: no tool has a
// name that ends in *.
func Only(names ...string) List {
	return Matching(slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.HasSuffix(n, "*") })...)
}

// Matching returns the list of those names; one that ends in * is every name
// that begins so. Only the lists of tools and MCP servers are read with it.
func Matching(names ...string) List { return List{names: sorted(names)} }

func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// Allows reports whether a name is in the list.
func (l List) Allows(name string) bool {
	return (l.all || slices.ContainsFunc(l.names, func(n string) bool { return covers(n, name) })) && !slices.Contains(l.except, name)
}

// covers reports whether a pattern is, or matches, a name or another pattern.
func covers(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// All reports whether the list allows every name.
func (l List) All() bool { return l.all && len(l.except) == 0 }

// empty reports whether the list permits no name.
func (l List) empty() bool { return !l.all && len(l.Names()) == 0 }

// Names returns the names and patterns of a list that is an allowlist.
func (l List) Names() []string {
	return slices.DeleteFunc(slices.Clone(l.names), func(n string) bool { return slices.Contains(l.except, n) })
}

// Intersect returns the list of names that both lists allow.
func (l List) Intersect(m List) List {
	both := List{all: l.all && m.all, except: sorted(append(slices.Clone(l.except), m.except...))}
	switch {
	case l.all:
		both.names = m.names
	case m.all:
		both.names = l.names
	default:
		for _, a := range l.names {
			for _, b := range m.names {
				switch {
				case covers(a, b):
					both.names = append(both.names, b)
				case covers(b, a):
					both.names = append(both.names, a)
				}
			}
		}
		both.names = sorted(both.names)
	}
	return both
}

// but returns the list less some names.
func (l List) but(names ...string) List {
	l.except = sorted(append(slices.Clone(l.except), names...))
	return l
}

// Scope is the permission set of an agent (RFC 0082). The zero value permits no
// action; unknown agents have it.
type Scope struct {
	Tools, Skills, MCPs, Members List
	// Instructions are the files outside the session's directory that read and edit open:
	// the path of the home's Crab.md.
	Instructions List
	// Confined is set for every agent whose configuration bounds it: its
	// commands see neither the data directory nor the daemon.
	Confined bool
	// TextOnly removes the options from the questions of ask_user.
	TextOnly bool
	// Memory bounds the memory tools.
	Memory Memory

	listed []string     // tools of MCP servers that are tools of the agent
	remote []remoteList // each bounds the tools of MCP servers
}

// Grant is the permissions of an agent in the configuration.
type Grant struct {
	// Tools is nil for no bound. An empty list permits no tool.
	Tools, Skills, MCPs, Members []string
	// OnlySkills restricts the agent to Skills even if Skills is empty.
	OnlySkills bool
	// Default is set for the agent that requests without an agent use.
	Default bool
	// Instructions is the path of the Crab.md that the agent may edit, or "".
	Instructions string
	// NoMemory removes the memory tools.
	NoMemory bool
	// Bash is "base" (permitted unless Tools omits it), "listed" (a scoped agent
	// only if Tools names it), or "never"; "" is "base".
	Bash string
}

// For returns the scope of an agent with that grant. An empty list of skills or
// servers does not restrict. An empty list of members permits no delegation, but the
// default agent delegates to all agents if no list restricts it. The tools list is
// intersected with the tools that the other lists bring, so that no list widens
// another. It lists tools of MCP servers only if the other lists bring the tool mcp.
func For(g Grant) Scope {
	s := Scope{Tools: Everything(), Skills: Everything(), MCPs: Everything(), Memory: AllMemory()}
	skills := g.OnlySkills || len(g.Skills) > 0
	s.Confined = skills || g.Tools != nil || len(g.MCPs)+len(g.Members) > 0
	if skills {
		s.Skills = Only(g.Skills...)
	}
	if len(g.MCPs) > 0 {
		s.MCPs = Matching(g.MCPs...)
	}
	if len(g.Members) > 0 {
		s.Members = Only(g.Members...)
	} else if g.Default && !s.Confined {
		s.Members = Everything()
	}
	if skills || len(g.MCPs)+len(g.Members) > 0 {
		tools := append([]string{Bash, AskUser}, memoryTools...)
		if skills {
			tools = append(tools, Skill)
		}
		if len(g.MCPs) > 0 {
			tools = append(tools, MCP)
		}
		if len(g.Members) > 0 {
			tools = append(tools, Delegate)
		}
		s.Tools = Only(append(tools, Read, Edit, ListFiles, Write, Send)...)
	}
	if s.Tools.Allows(MCP) {
		s.listed = remoteNames(g.Tools, func(name string) bool { return len(g.MCPs) > 0 || strings.HasSuffix(name, "*") })
	}
	if g.Tools != nil {
		s.Tools = s.Tools.Intersect(Matching(g.Tools...))
	}
	// Only a name permits these, no pattern. An agent without limits has read and edit.
	for _, t := range []string{Read, Edit, ListFiles, Write, Send} {
		implied := !s.Confined && (t == Read || t == Edit)
		if !implied && !slices.Contains(g.Tools, t) {
			s.Tools = s.Tools.but(t)
		}
	}
	if mcp := s.Tools.Allows(MCP); !mcp || len(s.listed) > 0 {
		s.remote = []remoteList{{s.listed, mcp}}
	}
	if g.Instructions != "" {
		s.Instructions = Only(g.Instructions)
	}
	if s.Members.empty() {
		s.Tools = s.Tools.but(Delegate)
	}
	if g.NoMemory {
		s.Tools = s.Tools.but(memoryTools...)
	}
	if g.Bash == "never" || g.Bash == "listed" && s.Confined && !slices.Contains(g.Tools, Bash) {
		s.Tools = s.Tools.but(Bash)
	}
	return s
}

// Intersect returns the intersection of two scopes. A delegated task runs in
// the intersection of its agent's scope and the caller's. A memory tool to which
// no space or session is left is not in the result. The agent is that of s: the result
// lists the tools of MCP servers that s lists.
func (s Scope) Intersect(t Scope) Scope {
	both := Scope{
		Tools: s.Tools.Intersect(t.Tools), Skills: s.Skills.Intersect(t.Skills), MCPs: s.MCPs.Intersect(t.MCPs), Members: s.Members.Intersect(t.Members),
		Instructions: s.Instructions.Intersect(t.Instructions),
		Confined:     s.Confined || t.Confined, TextOnly: s.TextOnly || t.TextOnly, Memory: s.Memory.Intersect(t.Memory),
		listed: s.listed, remote: s.both(t.remote...),
	}
	both.Tools = both.Tools.but(both.Memory.without()...)
	return both
}

// Violation is a call outside the scope of the caller.
type Violation struct {
	Kind    string // "tool", "skill", "mcp", "member", or "space"
	Name    string // name of the call
	Agent   string
	Session uint64
}

func (v *Violation) Error() string {
	switch v.Kind {
	case "skill":
		return "skill not available: " + v.Name
	case "member":
		return fmt.Sprintf("agent '%s' is not in your members list", v.Name)
	case "mcp":
		return fmt.Sprintf("mcp tool '%s' not available", v.Name)
	case "space":
		return "space not available: " + v.Name
	}
	return "tool not available: " + v.Name
}

func (s Scope) check(l List, kind, name string) error {
	if l.Allows(name) {
		return nil
	}
	return &Violation{Kind: kind, Name: clipName(name)}
}

// Tool returns a *Violation when the scope does not allow the tool. So do
// Skill for a skill, Server for an MCP server and Member for an agent.
func (s Scope) Tool(name string) error {
	if server, remote, ok := strings.Cut(name, "/"); ok && s.Lists(server, remote, false) {
		return nil
	}
	return s.check(s.Tools, "tool", name)
}
func (s Scope) Skill(name string) error  { return s.check(s.Skills, "skill", name) }
func (s Scope) Server(name string) error { return s.check(s.MCPs, "mcp", name) }
func (s Scope) Member(name string) error { return s.check(s.Members, "member", name) }

// Prompt returns the description of the scope in the agent's prompt, or "" if the
// scope has no limits.
func (s Scope) Prompt() string {
	var b strings.Builder
	for _, l := range []struct {
		name string
		List
	}{{"skills", s.Skills}, {"mcp servers", s.MCPs}, {"members", s.Members}, {"instructions that you may read and edit", s.Instructions}} {
		if names := l.Names(); !l.all && len(names) > 0 {
			fmt.Fprintf(&b, "%s: %s\n", l.name, strings.Join(names, ", "))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "<scope>\n" + b.String() + "</scope>"
}

// Unbounded returns the scope without restrictions: that of a session of the
// user.
func Unbounded() Scope {
	return Scope{Tools: Everything(), Skills: Everything(), MCPs: Everything(), Members: Everything(), Instructions: Everything(), Memory: AllMemory()}
}
