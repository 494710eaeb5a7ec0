package skill

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"crabmem/bench/gate"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain":              {"---\nname: a\ndescription: b c\n---\nbody\n", "a|b c|<nil>||body"},
		"BOM and CRLF":       {"\ufeff---\r\nname: a\r\ndescription: b\r\n---\r\n\r\none\r\ntwo\r\n", "a|b|<nil>||one\ntwo"},
		"no body":            {"---\nname: a\ndescription: b\n---", "a|b|<nil>||"},
		"blanks at fences":   {"--- \nname: a\ndescription: b\n---\t\nbody", "a|b|<nil>||body"},
		"fence in the body":  {"---\nname: a\ndescription: b\n---\none\n---\ntwo", "a|b|<nil>||one\n---\ntwo"},
		"folded":             {"---\nname: a\ndescription: >-\n  one\n  two\n\n  three\n---\nx", "a|one two three|<nil>||x"},
		"literal":            {"---\nname: a\ndescription: |\n  one\n  two\n---\nx", "a|one two|<nil>||x"},
		"quoted":             {"---\nname: \"a\"\ndescription: 'b: c'\n---\nx", "a|b: c|<nil>||x"},
		"numbers":            {"---\nname: 7\ndescription: 1.0\n---\nx", "7|1.0|<nil>||x"},
		"booleans":           {"---\nname: yes\ndescription: true\n---\nx", "yes|true|<nil>||x"},
		"comments":           {"---\n# first\nname: a # here\ndescription: b#c\n---\nx", "a|b#c|<nil>||x"},
		"JSON":               {"---\n{\"name\": \"a\", \"description\": \"b\"}\n---\nx", "a|b|<nil>||x"},
		"unknown keys":       {"---\nname: a\ndescription: b\nmodel: x\nhooks: {a: [1, {b: c}]}\n---\nx", "a|b|<nil>||x"},
		"unknown alias":      {"---\nname: a\ndescription: b\nx: &x [1]\ny: [*x, *x]\n---\nx", "a|b|<nil>||x"},
		"tools, text":        {"---\nname: a\ndescription: b\nallowed-tools: Bash(git add:*, x) Read, mcp\n---\nx", "a|b|[Bash(git add:*, x) Read mcp]||x"},
		"tools, list":        {"---\nname: a\ndescription: b\nallowed-tools:\n  - Bash(git add:*)\n  - Read\n---\nx", "a|b|[Bash(git add:*) Read]||x"},
		"tools, flow":        {"---\nname: a\ndescription: b\nallowed-tools: [bash, browser_*]\n---\nx", "a|b|[bash browser_*]||x"},
		"tools, none":        {"---\nname: a\ndescription: b\nallowed-tools: []\n---\nx", "a|b|[]||x"},
		"tools, empty":       {"---\nname: a\ndescription: b\nallowed-tools: ''\n---\nx", "a|b|[]||x"},
		"tools, null":        {"---\nname: a\ndescription: b\nallowed-tools:\n---\nx", "a|b|<nil>||x"},
		"triggers, list":     {"---\nname: a\ndescription: b\ntriggers: [pull request, CI]\n---\nx", "a|b|<nil>|pull request/CI|x"},
		"triggers, text":     {"---\nname: a\ndescription: b\ntriggers: pull  request, , CI\n---\nx", "a|b|<nil>|pull request/CI|x"},
		"triggers, metadata": {"---\nname: a\ndescription: b\nmetadata:\n  triggers: deploy, ship\n  x: {y: z}\n---\nx", "a|b|<nil>|deploy/ship|x"},
		"other scripts":      {"---\nname: résumé\ndescription: 部署\n---\n步骤", "résumé|部署|<nil>||步骤"},
	} {
		s, err := Parse("SKILL.md", []byte(c.in))
		tools := "<nil>"
		if s.AllowedTools != nil {
			tools = fmt.Sprint(s.AllowedTools)
		}
		got := strings.Join([]string{s.Name, s.Description, tools, strings.Join(s.Triggers, "/"), s.Body}, "|")
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// TestDescriptionAsWritten checks descriptions that YAML refuses, or reads as
// something else, and that the lines of later keys keep their numbers.
func TestDescriptionAsWritten(t *testing.T) {
	for in, want := range map[string]string{
		`Use this when: the user asks. Trigger: "do x".`: `Use this when: the user asks. Trigger: "do x".`,
		"fixes issue #12 and more":                       "fixes issue #12 and more",
		"# first":                                        "# first",
		"@mention handling":                              "@mention handling",
		"[draft] writes: notes":                          "[draft] writes: notes",
		"[draft]":                                        "[draft]",
		"*bold* text":                                    "*bold* text",
		"%d is replaced":                                 "%d is replaced",
		"&co and !important":                             "&co and !important",
		"{name} is replaced":                             "{name} is replaced",
		"- one":                                          "- one",
		"? asks":                                         "? asks",
		"`code` runs":                                    "`code` runs",
		`C:\dir "x"`:                                     `C:\dir "x"`,
		`"quoted" words: more`:                           `"quoted" words: more`,
		"'tis: one":                                      "'tis: one",
		"first: line\n  second #2 line\n\tthird":         "first: line second #2 line third",
		"first: line\r\n  second line\r":                 "first: line second line",
		"tail:":                                          "tail:",
		`"a: b"`:                                         "a: b",
		`"a\n  b"`:                                       "a b",
		"'it''s: b'":                                     "it's: b",
		">-\n  one: two\n  three":                        "one: two three",
		"| # comment\n  one #1":                          "one #1",
		"null":                                           "null",
	} {
		lines := strings.Count(in, "\n")
		s, err := Parse("SKILL.md", []byte("---\nname: a\ndescription: "+in+"\nallowed-tools: bash\n---\nx"))
		if err != nil || s.Description != want || s.toolsAt != 4+lines {
			t.Errorf("%q: %q in line %d, %v; want %q", in, s.Description, s.toolsAt, err, want)
		}
	}
	for in, want := range map[string]string{
		"---\nname: a\nlicense: \"b\ndescription: c\n  d\"\ndescription: e\n---\nx": "e|bash",
		"---\n{name: a,\ndescription: e, license: f}\n---\nx":                       "e|",
		"---\nname: a\ndescription: \x01: b\n---\nx":                                "SKILL.md:2: the front matter is not YAML: control characters are not allowed",
	} {
		s, err := Parse("SKILL.md", []byte(in))
		if err == nil && s.Description != strings.Split(want, "|")[0] || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %q, %v; want %s", in, s.Description, err, want)
		}
	}
}

// TestParseRefuses checks that errors have the line, the problem, and the fix.
func TestParseRefuses(t *testing.T) {
	const ok = "---\nname: a\ndescription: b\n"
	for in, want := range map[string]string{
		"":                        "SKILL.md:1: no front matter; begin the file with",
		"# a skill":               "SKILL.md:1: no front matter; ",
		"\n---\nname: a\n---\n":   "SKILL.md:1: no front matter; ",
		"----\nname: a\n----\n":   "SKILL.md:1: no front matter; ",
		"---":                     "SKILL.md:1: the front matter does not end; end it with a line ---",
		ok:                        "SKILL.md:1: the front matter does not end; ",
		ok + "  ---\nx":           "SKILL.md:1: the front matter does not end; ",
		"---\n---\nx":             "SKILL.md:1: no name; add a line name:",
		"---\n# only\n---\nx":     "SKILL.md:1: no name; ",
		"---\nname: a\n---\nx":    "SKILL.md:1: no description; add a line description:",
		"---\na b\n---\n":         "SKILL.md:2: the front matter is not a list of keys",
		"---\n- name: a\n---\n":   "SKILL.md:2: the front matter is not a list of keys",
		"---\n? [a]\n: b\n---\nx": "SKILL.md:2: a key is not plain text",
		"---\nname: a\nname: b\ndescription: c\n---\nx":                         "SKILL.md:3: duplicate key name: it is also in line 2; keep one",
		"---\nname: [a]\ndescription: b\n---\nx":                                "SKILL.md:2: name is not text; ",
		"---\nname: a\ndescription:\n  - b\n---\nx":                             "SKILL.md:4: description is not text; ",
		"---\nname: a\ndescription: b\nlicense: when: this\n---\nx":             "SKILL.md:4: the front matter is not YAML: mapping values are not allowed in this context; put the value in quotes: it contains a colon",
		"---\nname: a: b\ndescription: c\n---\nx":                               "SKILL.md:2: the front matter is not YAML: mapping values",
		"---\nname: a\n\tdescription: c\n---\nx":                                "SKILL.md:3: the front matter is not YAML: ",
		"---\nname: 'a\ndescription: c\n---\nx":                                 "SKILL.md:",
		ok + "--- {a: b}\n---\nx":                                               "SKILL.md:4: a second document in the front matter; ",
		"---\nname: &a a\ndescription: *a\n---\nx":                              "SKILL.md:2: name uses an anchor or an alias of YAML; write the value out",
		"---\nname: a\ndescription: b\nlicense: *b\n---\nx":                     "SKILL.md:2: the front matter is not YAML: unknown anchor 'b'",
		ok + "allowed-tools: {a: b}\n---\nx":                                    "SKILL.md:4: allowed-tools is not text; ",
		ok + "allowed-tools: [a, [b]]\n---\nx":                                  "SKILL.md:4: allowed-tools is not text; ",
		ok + "allowed_tools: Read\n---\nx":                                      "SKILL.md:4: allowed_tools does not limit the tools; write allowed-tools",
		ok + "AllowedTools: []\n---\nx":                                         "SKILL.md:4: AllowedTools does not limit the tools; write allowed-tools",
		ok + "allowed-tools: [" + strings.Repeat("a,", maxItems) + "a]\n---\nx": fmt.Sprintf("SKILL.md:4: allowed-tools has %d items, more than the limit of %d; remove some", maxItems+1, maxItems),
		ok + "allowed-tools: " + strings.Repeat("a ", maxItems) + "a\n---\nx":   fmt.Sprintf("SKILL.md:4: allowed-tools has %d items, more than the limit of %d; remove some", maxItems+1, maxItems),
		ok + "metadata: x\n---\nx":                                              "SKILL.md:4: metadata is not a list of keys and values; ",
		"---\nname: a/b\ndescription: b\n---\nx":                                "SKILL.md:2: the name \"a/b\" is not usable; use lowercase",
		"---\nname: ..\ndescription: b\n---\nx":                                 "SKILL.md:2: the name \"..\" is not usable; ",
		"---\nname: 'a\"><b'\ndescription: b\n---\nx":                           "SKILL.md:2: the name ",
		"---\nname: \"a\\nb\"\ndescription: b\n---\nx":                          "SKILL.md:2: the name \"a\\nb\" is not usable; ",
		"---\nname: \"a\\0b\"\ndescription: b\n---\nx":                          "SKILL.md:2: the name \"a\\x00b\" is not usable; ",
		"---\nname: " + strings.Repeat("a", 65) + "\n---\nx":                    "SKILL.md:2: the name ",
		"---\nname: a\ndescription: \xff\n---\nx":                               "SKILL.md:3: not valid UTF-8; save it as UTF-8",
		ok + "---\none\ntwo \xc3":                                               "SKILL.md:6: not valid UTF-8; ",
		ok + "---\none\n\x00":                                                   "SKILL.md:6: a NUL byte; ",
		ok + "---\n\x00":                                                        "SKILL.md:5: a NUL byte; ",
		"\xff\xfe-\x00-\x00-\x00":                                               "SKILL.md:1: no front matter; ",
		"---\n" + strings.Repeat("x", maxFront):                                 "SKILL.md:1: the front matter does not end in the first 32768 bytes; ",
		"---\n" + strings.Repeat("#\n", maxFront) + "---\n":                     "SKILL.md:1: the front matter does not end in the first 32768 bytes; ",
	} {
		s, err := Parse("SKILL.md", []byte(in))
		if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "; ") || len(err.Error()) > 400 {
			t.Errorf("%.60q: %v, %+v; want %s", in, err, s, want)
		}
	}
}

// TestBombs has front matters that are made to cost much.
func TestBombs(t *testing.T) {
	const n = maxFront - 100
	lines := func(f func(i int) string) string {
		var b strings.Builder
		for i := 0; ; i++ {
			if l := f(i); b.Len()+len(l) <= n {
				b.WriteString(l)
			} else {
				return b.String()
			}
		}
	}
	for name, front := range map[string]string{
		"laughs": "a0: &a0 [x, x]\n" + lines(func(i int) string {
			return fmt.Sprintf("a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i+1, i+1, i, i, i, i, i, i, i, i)
		}),
		"laughs in metadata": "name: a\ndescription: b\nmetadata:\n  a0: &a0 [x, x]\n" + strings.Join(strings.SplitAfter(lines(func(i int) string {
			return fmt.Sprintf("  a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
		}), "\n")[:200], ""),
		"itself": "name: a\ndescription: b\nmetadata: &a\n  b: *a\n",
		"merge":  "a: &a {name: x}\n<<: *a\ndescription: b\n",
		"lists":  "a: " + strings.Repeat("[", n),
		"maps":   "a: " + strings.Repeat("{", n),
		"dashes": strings.Repeat("- ", n/2),
		"keys":   lines(func(i int) string { return fmt.Sprintf("k%d: v\n", i) }),
		"indents": lines(func(i int) string {
			return strings.Repeat(" ", i) + "a:\n"
		}),
		"questions": strings.Repeat("? ", n/2),
		"tools":     "name: a\ndescription: b\nallowed-tools: " + strings.Repeat("a ", n/4),
		"depth":     "name: a\ndescription: b\nallowed-tools: " + strings.Repeat("(", n/2),
	} {
		began := time.Now()
		s, err := Parse("SKILL.md", []byte("---\n"+front+"\n---\nx"))
		gate.Time(t, name, began, 10*time.Second)
		if size := len(fmt.Sprint(s.Metadata, s.AllowedTools)); size > 2*maxFront || err != nil && len(err.Error()) > 400 {
			t.Errorf("%s: %d bytes of values, %v", name, size, err)
		}
	}
}

// TestToolsOfServers checks that the case of SERVER/TOOL counts, and that of other names
// does not.
func TestToolsOfServers(t *testing.T) {
	list := (&Skill{AllowedTools: []string{"Bash(git:*)", "srv/getA"}}).Tools()
	if !list.Allows("bash") || !list.Allows("srv/getA") || list.Allows("srv/geta") {
		t.Errorf("tools %q", list.Names())
	}
}
