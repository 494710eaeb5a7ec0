package mcpclient

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func hookClient(t *testing.T, id string) Client {
	t.Helper()
	list := HookClients()
	i := slices.IndexFunc(list, func(c Client) bool { return c.ID == id })
	if i < 0 {
		t.Fatalf("no hooks of %s", id)
	}
	return list[i]
}

func hookCommands(program string) func(string) string {
	return func(event string) string { return program + " hook " + event }
}

// TestHookFiles compares the files, the events, and the time-outs with the pages in
// testdata/hooks.md.
func TestHookFiles(t *testing.T) {
	m := Machine{OS: "linux", Home: "/u", Getenv: func(string) string { return "" }}
	moved := Machine{OS: "linux", Home: "/u", Getenv: func(k string) string {
		return map[string]string{"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x"}[k]
	}}
	for id, want := range map[string]string{
		"claude-code": "/u/.claude/settings.json /c/settings.json SessionStart,PreCompact,Stop,SessionEnd 15,15,15,15",
		"codex":       "/u/.codex/hooks.json /x/hooks.json SessionStart,PreCompact,Stop,SessionEnd 15,15,15,3",
		"gemini-cli":  "/u/.gemini/settings.json /u/.gemini/settings.json SessionStart,PreCompress,AfterAgent,SessionEnd 15000,15000,15000,15000",
	} {
		c := hookClient(t, id)
		text, err := c.SetHooks(nil, hookCommands("/bin/crabmem"))
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonc{}.decode(text)
		if err != nil {
			t.Fatal(err)
		}
		var events, timeouts []string
		for i, event := range c.hooks.events {
			hook := v["hooks"].(map[string]any)[event].([]any)[0].(map[string]any)["hooks"].([]any)[0].(map[string]any)
			if hook["type"] != "command" || hook["command"] != "/bin/crabmem hook "+HookEvents[i] || len(hook) != 3 {
				t.Errorf("%s: %v", id, hook)
			}
			events, timeouts = append(events, event), append(timeouts, fmt.Sprint(hook["timeout"]))
		}
		got := strings.Join([]string{filepath.ToSlash(c.File(m)), filepath.ToSlash(c.File(moved)), strings.Join(events, ","), strings.Join(timeouts, ",")}, " ")
		if got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	if dirs := TranscriptDirs(moved); !slices.Equal(dirs, []string{"/c/projects", "/x/sessions", "/x/archived_sessions", "/u/.gemini/tmp"}) {
		t.Errorf("transcripts in %q", dirs)
	}
}

// TestSetAndRemoveHooks adds hooks to files, adds them again, moves them to another
// program, and removes them. Everything else stays.
func TestSetAndRemoveHooks(t *testing.T) {
	c := hookClient(t, "claude-code")
	for _, text := range []string{
		"",
		"// mine\n",
		"{}",
		"\ufeff{}\r\n",
		`{"a": 1}`,
		"{\n\t\"a\": [1, 2], // one\n\t/* two */ \"hooks\": {}\n}\n",
		"{\n  \"hooks\": null,\n}\n",
		"{\r\n  \"hooks\": {\r\n    \"Stop\": [\r\n      {\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]} // sound\r\n    ],\r\n    \"PreToolUse\": []\r\n  }\r\n}",
		"{\"hooks\": {\"Stop\": [{\"matcher\": \"*\", \"hooks\": [{\"command\": \"echo crabmem hook stop\"}, {\"command\": \"other hook stop\"},]},], \"SessionEnd\": [ ]}}",
		"{\n  \"hooks\": {\n    \"SessionStart\": [\n      // first\n      {\n        \"hooks\": []\n      },\n    ],\n  },\n}\n",
	} {
		set, err := c.SetHooks([]byte(text), hookCommands("'/my bin/crabmem'"))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if again, err := c.SetHooks(set, hookCommands("'/my bin/crabmem'")); err != nil || string(again) != string(set) {
			t.Errorf("%q: a second time: %v\n%s", text, err, again)
		}
		if programs, err := HookPrograms(set); err != nil || len(programs) != 4 || programs[0] != "/my bin/crabmem" {
			t.Errorf("%q: programs %q, %v", text, programs, err)
		}
		moved, err := c.SetHooks(set, hookCommands("crabmem.exe"))
		if programs, perr := HookPrograms(moved); err != nil || perr != nil || len(programs) != 4 || programs[3] != "crabmem.exe" {
			t.Errorf("%q: moved to %q, %v, %v", text, programs, err, perr)
		}
		for _, comment := range []string{"// mine", "// one", "/* two */", "// sound", "// first"} {
			if strings.Contains(text, comment) != strings.Contains(string(set), comment) {
				t.Errorf("%q: lost %s", text, comment)
			}
		}
		if strings.Contains(text, "\r\n") && strings.Count(string(set), "\n") != strings.Count(string(set), "\r\n") {
			t.Errorf("%q: other line ends: %q", text, set)
		}
		removed, err := c.RemoveHooks(moved)
		if err != nil {
			t.Errorf("%q: remove: %v", text, err)
			continue
		}
		if programs, err := HookPrograms(removed); err != nil || len(programs) > 0 || strings.Contains(string(removed), "session-start") {
			t.Errorf("%q: left %q, %v\n%s", text, programs, err, removed)
		}
		if strings.Contains(text, "say done") && string(removed) != text {
			t.Errorf("%q: removed to %q", text, removed)
		}
		if again, err := c.RemoveHooks(removed); err != nil || string(again) != string(removed) {
			t.Errorf("%q: removed again: %q, %v", text, again, err)
		}
	}
}

// TestHooksByHand refuses files in other forms.
func TestHooksByHand(t *testing.T) {
	c := hookClient(t, "gemini-cli")
	for _, text := range []string{"[", "[]", "{\n\"hooks\": [],\n}", `{"hooks": {"SessionStart": {}}}`, `{"hooks": {}, "hooks": {}}`, `{"hooks": {"AfterAgent": [], "AfterAgent": []}}`} {
		got, err := c.SetHooks([]byte(text), hookCommands("crabmem"))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) && !errors.Is(err, ErrByHand) {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}
