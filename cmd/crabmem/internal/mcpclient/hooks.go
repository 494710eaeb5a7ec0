package mcpclient

import "path/filepath"

// HookEvents are the events of crabmem hook.
var HookEvents = []string{"session-start", "pre-compact", "stop", "session-end"}

// hooks is how a client runs commands at events.
type hooks struct {
	file        func(Machine) string
	transcripts []func(Machine) string // directories, in which the client writes sessions
}

// hooksOf returns the hooks of the clients that have them, by ID. testdata/hooks.md
// lists the pages that define them.
func hooksOf() map[string]hooks {
	in := func(variable, dir string, path ...string) func(Machine) string {
		return func(m Machine) string {
			return filepath.Join(append([]string{m.variable(variable, filepath.Join(m.Home, dir))}, path...)...)
		}
	}
	return map[string]hooks{
		"claude-code": {in("CLAUDE_CONFIG_DIR", ".claude", "settings.json"), []func(Machine) string{in("CLAUDE_CONFIG_DIR", ".claude", "projects")}},
		"codex":       {in("CODEX_HOME", ".codex", "hooks.json"), []func(Machine) string{in("CODEX_HOME", ".codex", "sessions"), in("CODEX_HOME", ".codex", "archived_sessions")}},
		"gemini-cli":  {in("", ".gemini", "settings.json"), []func(Machine) string{in("", ".gemini", "tmp")}},
	}
}

// TranscriptDirs returns the directories in which clients write transcripts.
func TranscriptDirs(m Machine) (dirs []string) {
	for _, h := range hooksOf() {
		for _, dir := range h.transcripts {
			dirs = append(dirs, dir(m))
		}
	}
	return dirs
}
