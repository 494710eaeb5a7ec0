package main

import (
	"strings"
	"testing"
)

// TestSuggestedCommands runs words of other programs as commands, and checks that
// every suggestion is a command.
func TestSuggestedCommands(t *testing.T) {
	p := newPlace(t, false)
	for line, want := range map[string]string{
		"search how do we deploy": "crabmem recall", "add a b": "crabmem remember", "save": "crabmem remember", "get deploy": "crabmem show",
		"rm x": "crabmem forget", "delete x": "crabmem forget", "logs -f": "", "logs": "crabmem daemon logs", "status": "crabmem daemon status",
		"restart": "crabmem daemon restart", "recal x": "crabmem recall", "daemon log": "crabmem daemon logs", "sessions get x": "crabmem sessions show",
		"sessions forget x": "crabmem sessions delete", "cron rm 1": "crabmem cron remove", "daemon stat": "crabmem daemon start, crabmem daemon stop, crabmem daemon status",
		"SEARCH x": "crabmem recall", "help search": "crabmem recall",
	} {
		_, diag, code := p.runs(strings.Fields(line)...)
		if code != 2 || want != "" && !strings.HasSuffix(diag, "\ntry: "+want+"\n") {
			t.Errorf("crabmem %s: code %d\n%swant %s", line, code, diag, want)
		}
	}
	root := rootCommand(newApp(nil, nil, nil))
	for of, words := range otherWords {
		parent, rest, err := root.Find(strings.Fields(of)[1:])
		if err != nil || len(rest) > 0 {
			t.Errorf("%s is no command", of)
		}
		for word, command := range words {
			if cmd, rest, err := root.Find(strings.Fields(command)); (err != nil || len(rest) > 0 || cmd == root) && command != "daemon restart" {
				t.Errorf("%s %s: %s is no command", of, word, command)
			}
			if cmd, rest, err := parent.Find([]string{word}); err == nil && len(rest) == 0 && cmd != parent {
				t.Errorf("%s %s is a command", of, word)
			}
		}
	}
}
