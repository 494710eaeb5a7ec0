package skill

import (
	"errors"
	"testing"
)

func TestCommand(t *testing.T) {
	set, _ := load(t, tree(t,
		"release/SKILL.md", text("release", "R", "x"),
		"secret/SKILL.md", text("secret", "S", "x"),
		"broken/SKILL.md", "---\nname: [\n---\nx",
	))
	scope := only("release", "broken")
	for _, tc := range []struct {
		content, text string
		literal       bool
		unknown       string // the name in the error
	}{
		{content: "hello /brew", text: "hello /brew"},
		{content: "/release now", text: "/release now"},
		{content: "/brew it", unknown: "brew"},
		{content: " \n/brew\nit", unknown: "brew"},
		{content: "/secret", unknown: "secret"},
		{content: "//brew it", text: "/brew it", literal: true},
		{content: " //release", text: "/release", literal: true},
		{content: "/etc/hosts is wrong", text: "/etc/hosts is wrong"},
		{content: "/etc/", text: "/etc/"},
		{content: "/a.b", text: "/a.b"},
		{content: "/Brew", text: "/Brew"},
		{content: "/", text: "/"},
		{content: "/ brew", text: "/ brew"},
		{content: "/-x", text: "/-x"},
		{content: "// a comment", text: "// a comment"},
		{content: "//etc/hosts", text: "//etc/hosts"},
		{content: "///brew", text: "///brew"},
		{content: "/brew, please", text: "/brew, please"},
	} {
		got, literal, err := set.Command(scope, tc.content)
		unknown, ok := errors.AsType[*UnknownCommand](err)
		switch {
		case tc.unknown != "":
			if !ok || unknown.Name != tc.unknown || err.Error() != "no such command or skill: /"+tc.unknown || unknown.Refused != (tc.unknown == "secret") {
				t.Errorf("%q: %v", tc.content, err)
			} else if len(unknown.Names) != 1 || unknown.Names[0] != "release" {
				t.Errorf("%q: suggests %q, which are not the skills in scope", tc.content, unknown.Names)
			}
		case err != nil || got != tc.text || literal != tc.literal:
			t.Errorf("%q: got %q, literal %v, %v; want %q, %v", tc.content, got, literal, err, tc.text, tc.literal)
		}
	}
}
