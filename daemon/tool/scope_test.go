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
	if !For(Grant{Default: true}).Members.All() || !For(Grant{}).Members.empty() || !For(Grant{Default: true, MCPs: []string{"m"}}).Members.empty() {
		t.Error("who may delegate to whom is wrong")
	}
	if (Scope{}).Tool(Recall) == nil || (Scope{}).Skill("a") == nil || (Scope{}).Server("a") == nil || (Scope{}).Member("a") == nil {
		t.Error("the scope of an unknown agent allows something")
	}
	remote := For(Grant{Default: true}).Remote()
	for _, name := range fileTools {
		if remote.Tools.Allows(name) {
			t.Errorf("a session from elsewhere may call %s", name)
		}
	}
	if !remote.Confined {
		t.Error("a session from elsewhere is not confined")
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
