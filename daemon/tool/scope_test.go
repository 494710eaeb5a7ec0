package tool

import (
	"slices"
	"strings"
	"testing"
)

func TestFor(t *testing.T) {
	tools := []string{AskUser, Bash, Delegate, Edit, Forget, MCP, Read, Recall, Remember, SessionSearch, Skill, "weather"}
	for _, c := range []struct {
		name  string
		grant Grant
		want  string // the tools allowed, of those
	}{
		{"default agent", Grant{Default: true}, "ask_user bash delegate edit forget mcp read recall remember session_search skill weather"},
		{"another without bounds", Grant{}, "ask_user bash edit forget mcp read recall remember session_search skill weather"},
		{"skills", Grant{Skills: []string{"a"}}, "ask_user bash forget recall remember session_search skill"},
		{"default agent with skills", Grant{Default: true, Skills: []string{"a"}}, "ask_user bash forget recall remember session_search skill"},
		{"mcps", Grant{MCPs: []string{"s*"}}, "ask_user bash forget mcp recall remember session_search"},
		{"members", Grant{Members: []string{"b"}}, "ask_user bash delegate forget recall remember session_search"},
		{"no tools", Grant{Default: true, Tools: []string{}}, ""},
		{"no tools, all other lists", Grant{Tools: []string{}, Skills: []string{"a"}, MCPs: []string{"s"}, Members: []string{"b"}}, ""},
		{"tools alone", Grant{Tools: []string{"weather", Bash}}, "bash weather"},
		{"tools do not widen", Grant{Tools: []string{"weather", Skill, Read, Bash}, Members: []string{"b"}}, "bash read"},
		{"a pattern gives no file tools", Grant{Tools: []string{"*"}}, "ask_user bash forget mcp recall remember session_search skill weather"},
		{"a pattern", Grant{Tools: []string{"re*", "re"}}, "recall remember"},
		{"no memory", Grant{Skills: []string{"a"}, NoMemory: true}, "ask_user bash skill"},
		{"bash never", Grant{Default: true, Bash: "never"}, "ask_user delegate edit forget mcp read recall remember session_search skill weather"},
		{"bash listed, scoped", Grant{Skills: []string{"a"}, Bash: "listed"}, "ask_user forget recall remember session_search skill"},
		{"bash listed and in the list", Grant{Skills: []string{"a"}, Tools: []string{Bash, Skill}, Bash: "listed"}, "bash skill"},
		{"bash listed, not scoped", Grant{Bash: "listed"}, "ask_user bash edit forget mcp read recall remember session_search skill weather"},
	} {
		s := For(c.grant)
		var got []string
		for _, name := range tools {
			if s.Tools.Allows(name) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s, want %s", c.name, strings.Join(got, " "), c.want)
		}
	}
	if !For(Grant{Tools: []string{}}).Confined || For(Grant{}).Confined {
		t.Error("an agent without tools is not confined, or one without bounds is")
	}
	if !For(Grant{Default: true}).Members.All() || !For(Grant{}).Members.empty() || !For(Grant{Default: true, MCPs: []string{"m"}}).Members.empty() {
		t.Error("who may delegate to whom is wrong")
	}
	if (Scope{}).Tool(Recall) == nil || (Scope{}).Skill("a") == nil || (Scope{}).Server("a") == nil || (Scope{}).Member("a") == nil {
		t.Error("the scope of an unknown agent allows something")
	}
}

// TestIntersectKeepsConfinement checks that an intersection is confined if either
// scope is.
func TestIntersectKeepsConfinement(t *testing.T) {
	for _, s := range []bool{false, true} {
		for _, u := range []bool{false, true} {
			if got := (Scope{Confined: s}).Intersect(Scope{Confined: u}).Confined; got != (s || u) {
				t.Errorf("%v and %v: %v", s, u, got)
			}
		}
	}
}

// TestIntersect compares Intersect with both lists for every name.
func TestIntersect(t *testing.T) {
	lists := []List{
		{}, Everything(), Only("a"), Only("a", "ab*"), Matching("a*"), Matching("*"), Matching("ab*", "b"), Everything().but("a"),
		Matching("a*").but("ab", "a"), Only("a", "b").but("a"), Matching("ab*", "a*"), Only().but("x"),
	}
	names := []string{"", "a", "ab", "abc", "b", "x", "*", "ab*"}
	for i, l := range lists {
		for j, m := range lists {
			both := l.Intersect(m)
			for _, n := range names {
				if got, want := both.Allows(n), l.Allows(n) && m.Allows(n); got != want {
					t.Errorf("%d and %d: %q is %v", i, j, n, got)
				}
			}
			if names := both.Names(); !slices.Equal(names, sorted(names)) {
				t.Errorf("%d and %d: names %q are not sorted and unique", i, j, names)
			}
			if both.empty() != !slices.ContainsFunc(append(names, "abcd", "aZ", "other"), both.Allows) {
				t.Errorf("%d and %d: empty is %v", i, j, both.empty())
			}
		}
	}
}

func TestPrompt(t *testing.T) {
	if p := For(Grant{Default: true}).Prompt(); p != "" {
		t.Errorf("a scope without restrictions has a prompt: %q", p)
	}
	want := "<scope>\nskills: check-feeds, summarize\nmcp servers: search\nmembers: researcher, writer\n</scope>"
	if p := For(Grant{Skills: []string{"summarize", "check-feeds"}, MCPs: []string{"search"}, Members: []string{"writer", "researcher"}}).Prompt(); p != want {
		t.Errorf("got %q, want %q", p, want)
	}
}

// TestIntersectMemory intersects the spaces and the limits of two scopes.
func TestIntersectMemory(t *testing.T) {
	with := func(m Memory) Scope {
		s := Unbounded()
		s.Memory = m
		return s
	}
	one := Memory{Reads: Only("a", "team"), Writes: Only("a"), Sessions: Only("x:1"), MaxEntries: 9}
	two := Memory{Reads: Only("b", "team"), Writes: Only("b"), Sessions: Only("x:2"), MaxEntries: 5, MaxBytes: 7}
	for _, c := range []struct {
		name        string
		s, t        Scope
		reads       string
		write       string
		tools       string // of the memory tools
		entries, kb int
	}{
		{"admins", Unbounded(), Unbounded(), "own team", "own", "forget recall remember session_search", 0, 0},
		{"admin and one", Unbounded(), with(one), "a team", "a", "forget recall remember session_search", 9, 0},
		{"one and one", with(one), with(one), "a team", "a", "forget recall remember session_search", 9, 0},
		{"one and another", with(one), with(two), "team", "", "recall", 5, 7},
		{"one and none", with(one), with(Memory{}), "", "", "", 9, 0},
		{"admin and none", with(Memory{}), Unbounded(), "", "", "", 0, 0},
	} {
		s := c.s.Intersect(c.t)
		reads, rerr := s.ReadSpaces([]string{"own", "team"})
		write, werr := s.WriteSpace("own")
		if strings.Join(reads, " ") != c.reads || write != c.write || (rerr == nil) != (c.reads != "") || (werr == nil) != (c.write != "") {
			t.Errorf("%s: reads %q, %v; writes %q, %v", c.name, reads, rerr, write, werr)
		}
		var tools []string
		for _, name := range memoryTools {
			if s.Tools.Allows(name) {
				tools = append(tools, name)
			}
		}
		if strings.Join(tools, " ") != c.tools || s.Memory.MaxEntries != c.entries || s.Memory.MaxBytes != c.kb {
			t.Errorf("%s: tools %q, limits %d and %d", c.name, tools, s.Memory.MaxEntries, s.Memory.MaxBytes)
		}
	}
}
