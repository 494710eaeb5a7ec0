package main

import (
	"testing"
)

// TestPurgeAsks purges an entry, one of its texts, and history on a terminal: each asks,
// and changes nothing without a yes.
func TestPurgeAsks(t *testing.T) {
	t.Parallel()
	file, env := program(t)
	home := t.TempDir()
	env = append(env, "HOME="+home, "CRABTALK_HOME="+home)
	type question struct{ ask, answer, want string }
	run := func(q question, args ...string) {
		t.Helper()
		p := openTerminal(t, env, file, args...)
		if q.ask != "" {
			p.await(q.ask)
			p.typed(q.answer)
		}
		p.await(q.want)
		p.end(0)
	}
	run(question{want: "remembered"}, "remember", "tea", "the first text of tea")
	run(question{want: "remembered"}, "remember", "tea", "the second text of tea")
	for _, answer := range []string{"\r", "n\r", "yess\r"} {
		run(question{ask: "purge tea and its history; undo is not possible? [y/N]", answer: answer, want: "nothing was changed"}, "forget", "tea", "--purge")
		run(question{ask: "purge the text of tea after change 1", answer: answer, want: "nothing was changed"}, "forget", "tea", "--purge", "--at", "1")
		run(question{ask: "remove the changes older than 1d", answer: answer, want: "nothing was changed"}, "prune", "--history", "--older-than", "1d")
	}
	run(question{want: "the second text"}, "show", "tea")
	run(question{want: "purged the text"}, "forget", "tea", "--purge", "--at", "1", "--yes")
	run(question{ask: "purge tea and its history", answer: "Y\r", want: "purged tea"}, "forget", "tea", "--purge")
}
