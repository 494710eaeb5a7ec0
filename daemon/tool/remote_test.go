package tool

import (
	"slices"
	"strings"
	"testing"
)

// TestRemote compares the tools of MCP servers that a scope allows and lists.
func TestRemote(t *testing.T) {
	tools := []string{"srv/get-a", "srv/echo", "two/get-a", "two/only"}
	get, mcp := For(Grant{Tools: []string{Recall, "srv/get-*"}}), For(Grant{Tools: []string{MCP, "srv/get-*"}})
	alone := For(Grant{Tools: []string{"only", "get-a", Recall}, MCPs: []string{"two"}})
	for _, c := range []struct {
		name          string
		scope         Scope
		allows, lists string // of tools
	}{
		{"unbounded", Unbounded(), "srv/get-a srv/echo two/get-a two/only", ""},
		{"zero", Scope{}, "", ""},
		{"pattern for all", For(Grant{Tools: []string{"*"}}), "srv/get-a srv/echo two/get-a two/only", ""},
		{"patterns without a slash", For(Grant{Tools: []string{"re*", "*", "s*", "srv*"}}), "srv/get-a srv/echo two/get-a two/only", ""},
		{"a pattern of ours gains no tool", For(Grant{Tools: []string{"re*", "s*", "srv*"}}), "", ""},
		{"a pattern that matches no tool of ours", For(Grant{Tools: []string{"re*", "onl*", "get*", "e*"}}), "two/only", "two/only"},
		{"such a pattern without the server", For(Grant{Tools: []string{"onl*"}, MCPs: []string{"srv"}}), "", ""},
		{"such a pattern with skills", For(Grant{Tools: []string{"onl*"}, Skills: []string{"x"}}), "", ""},
		{"listed", get, "srv/get-a", "srv/get-a"},
		{"listed, and mcp", mcp, "srv/get-a two/get-a two/only", "srv/get-a"},
		{"all of a server", For(Grant{Tools: []string{"srv/*"}}), "srv/get-a srv/echo", "srv/get-a srv/echo"},
		{"server that is not listed", For(Grant{Tools: []string{"srv/*", "two/only"}, MCPs: []string{"two"}}), "two/only", "two/only"},
		{"not brought by the other lists", For(Grant{Tools: []string{MCP, "srv/*"}, Skills: []string{"x"}}), "", ""},
		{"skills alone", For(Grant{Skills: []string{"x"}}), "", ""},
		{"servers alone", For(Grant{MCPs: []string{"s*"}}), "srv/get-a srv/echo", ""},
		{"name alone", alone, "two/only", "two/only"},
		{"name alone without its server", For(Grant{Tools: []string{"only"}}), "", ""},
		{"invalid", For(Grant{Tools: []string{"s*/get-a", "/get-a", "srv/", "*/*", "srv/g*-a"}}), "", ""},
		{"name of a server", For(Grant{Tools: []string{MCP, "srv"}, MCPs: []string{"srv"}}), "srv/get-a srv/echo", ""},
		{"for another agent", get.Intersect(mcp), "srv/get-a", "srv/get-a"},
		{"an agent that lists more", For(Grant{Tools: []string{"srv/*"}}).Intersect(get), "srv/get-a", "srv/get-a"},
		{"an agent that lists less", get.Intersect(For(Grant{Tools: []string{"srv/*"}})), "srv/get-a", "srv/get-a"},
		{"an agent with the tool mcp", For(Grant{Tools: []string{MCP}}).Intersect(mcp), "srv/get-a two/get-a two/only", ""},
		{"a caller without servers", get.Intersect(For(Grant{Tools: []string{Recall}})), "", ""},
		{"a caller with other servers", mcp.Intersect(Scope{Tools: Everything(), MCPs: Only("two")}), "two/get-a two/only", ""},
		{"a skill with mcp", get.Narrow(Only(MCP)), "srv/get-a", "srv/get-a"},
		{"a skill without mcp", get.Narrow(Only(Recall)), "", ""},
		{"a skill with a tool", For(Grant{Tools: []string{"srv/*"}}).Narrow(Matching("srv/e*")), "srv/echo", "srv/echo"},
		{"a skill that lists it only", Unbounded().Narrow(Only("srv/echo")), "srv/echo", ""},
		{"a skill without a list", get.Narrow(Everything()), "srv/get-a", "srv/get-a"},
	} {
		var allows, lists []string
		for _, name := range tools {
			server, tool, _ := strings.Cut(name, "/")
			err := c.scope.Remote(server, tool, tool == "only")
			if err == nil {
				allows = append(allows, name)
			} else if _, ok := err.(*Violation); !ok {
				t.Errorf("%s: %s: %v", c.name, name, err)
			}
			if c.scope.Lists(server, tool, tool == "only") {
				lists = append(lists, name)
			}
			if listed := slices.Contains(lists, name); listed && (!c.scope.MayList(server) || !c.scope.ListsAny() || tool != "only" && c.scope.Tool(name) != nil) {
				t.Errorf("%s: %s is listed, and may not be", c.name, name)
			}
		}
		if got := strings.Join(allows, " "); got != c.allows {
			t.Errorf("%s: allows %s, want %s", c.name, got, c.allows)
		}
		if got := strings.Join(lists, " "); got != c.lists {
			t.Errorf("%s: lists %s, want %s", c.name, got, c.lists)
		}
		if twice := c.scope.Intersect(c.scope); len(twice.remote) != len(c.scope.remote) {
			t.Errorf("%s: %d lists after an intersection with itself, want %d", c.name, len(twice.remote), len(c.scope.remote))
		}
	}
	if got := strings.Join(For(Grant{Tools: []string{"two/b", "srv/*", "x", Recall}, MCPs: []string{"srv"}}).Listed(), " "); got != "srv/*" {
		t.Errorf("listed: %s", got)
	}
	if err := get.Remote("srv", "echo", true); err == nil || err.Error() != "mcp tool 'srv/echo' not available" {
		t.Error(err)
	}
	if err := get.Tool("srv/echo"); err == nil || err.Error() != "tool not available: srv/echo" {
		t.Error(err)
	}
}
