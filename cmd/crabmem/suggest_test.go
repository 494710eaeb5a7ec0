package main

import (
	"strings"
	"testing"
)

// TestAcceptedWords runs words of other programs that are commands.
func TestAcceptedWords(t *testing.T) {
	p := newPlace(t, false)
	for _, row := range [][2]string{
		{"add deploy build", "remembered deploy"}, {"--lock-wait 1s save tea green", "remembered tea"}, {"get deploy", "build"},
		{"--json cat tea", `"green"`}, {"search build", "deploy"}, {"find green -q", "tea"}, {"rm tea", "forgot tea"}, {"delete deploy", "forgot deploy"},
		{"logs --help", "crabmem daemon logs"}, {"agents list --help", "crabmem agents"},
	} {
		if out, diag, code := p.runs(strings.Fields(row[0])...); code != 0 || !strings.Contains(out, row[1]) || diag != "" {
			t.Errorf("crabmem %s: code %d\n%s%s", row[0], code, out, diag)
		}
	}
	if _, diag, code := p.runs("show", "search"); code != 3 {
		t.Errorf("a word that is no command: code %d, %s", code, diag)
	}
}

// TestSuggestedCommands runs words of other programs as commands, and checks that
// every suggestion is a command.
func TestSuggestedCommands(t *testing.T) {
	p := newPlace(t, false)
	for line, want := range map[string]string{
		"query how do we deploy": "crabmem recall", "put a b": "crabmem remember", "new": "crabmem remember", "read deploy": "crabmem show",
		"del x": "crabmem forget", "remove x": "crabmem forget", "status": "crabmem daemon status",
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
