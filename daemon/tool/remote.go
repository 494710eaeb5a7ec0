package tool

import (
	"slices"
	"strings"
)

// A tool of an MCP server has the name SERVER/TOOL. It is a tool of an agent if the
// agent lists it by that name, or by SERVER/PREFIX*. Without a server, TOOL and PREFIX* list
// it if they match no tool of the daemon, and no other tool has its name. TOOL may be
// misspelled, so the agent must list the server, too.

// remoteList lists tools of MCP servers.
type remoteList struct {
	names []string
	// rest is set if the list has the tool mcp. It then allows the tools of each server of
	// which it has no SERVER/TOOL.
	rest bool
}

// remoteNames returns the names in a tools list that mean MCP server tools. Of the names
// without a server, it returns those that alone permits.
func remoteNames(tools []string, alone func(name string) bool) (names []string) {
	for _, n := range tools {
		server, name, ok := strings.Cut(n, "/")
		isAlone := !ok && alone(n) && !slices.ContainsFunc(BuiltIn(), func(own string) bool { return covers(n, own) })
		if isAlone || ok && server != "" && name != "" && !strings.Contains(server, "*") {
			names = append(names, n)
		}
	}
	return sorted(names)
}

func never(string) bool { return false }

// allows reports whether the list has a tool. alone is set if no other tool has its name.
func (l remoteList) allows(server, name string, alone bool) bool {
	rest := l.rest
	for _, n := range l.names {
		s, t, ok := strings.Cut(n, "/")
		if !ok && alone && covers(n, name) || ok && s == server && covers(t, name) {
			return true
		}
		rest = rest && !(ok && s == server)
	}
	return rest
}

func (l remoteList) equal(m remoteList) bool {
	return l.rest == m.rest && slices.Equal(l.names, m.names)
}

// Remote returns a *Violation when the scope does not allow a tool of an MCP server. alone
// is set if no other tool has the name.
func (s Scope) Remote(server, name string, alone bool) error {
	if err := s.Server(server); err != nil {
		return err
	}
	for _, l := range s.remote {
		if !l.allows(server, name, alone) {
			return &Violation{Kind: "mcp", Name: clipName(server + "/" + name)}
		}
	}
	return nil
}

// AllRemote reports whether the scope allows all tools of all MCP servers.
func (s Scope) AllRemote() bool { return s.MCPs.All() && len(s.remote) == 0 }

// Lists reports whether a tool of an MCP server is a tool of the scope's agent.
func (s Scope) Lists(server, name string, alone bool) bool {
	return remoteList{names: s.listed}.allows(server, name, alone) && s.Remote(server, name, alone) == nil
}

// ListsAny reports whether any tool of an MCP server may be a tool of the scope's agent.
func (s Scope) ListsAny() bool { return len(s.listed) > 0 }

// MayList reports whether a tool of an MCP server may be a tool of the scope's agent.
func (s Scope) MayList(server string) bool {
	return s.Server(server) == nil && slices.ContainsFunc(s.listed, func(n string) bool {
		of, _, ok := strings.Cut(n, "/")
		return !ok || of == server
	})
}

// Listed returns the names SERVER/TOOL and SERVER/PREFIX* of the scope's agent.
func (s Scope) Listed() []string {
	return slices.DeleteFunc(slices.Clone(s.listed), func(n string) bool {
		server, _, ok := strings.Cut(n, "/")
		return !ok || s.Server(server) != nil
	})
}

// Narrow returns the scope with only the tools of a list.
func (s Scope) Narrow(tools List) Scope {
	if tools.All() {
		return s
	}
	s.Tools = s.Tools.Intersect(tools)
	s.remote = s.both(remoteList{remoteNames(tools.names, never), tools.Allows(MCP)})
	return s
}

// both returns the lists of s and more lists, none twice.
func (s Scope) both(more ...remoteList) []remoteList {
	lists := slices.Clone(s.remote)
	for _, l := range more {
		if !slices.ContainsFunc(lists, l.equal) {
			lists = append(lists, l)
		}
	}
	return lists
}
