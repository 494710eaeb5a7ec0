package main

import (
	"os/exec"
	"strings"
	"testing"

	"crabmem/daemon/model/modeltest"
)

// TestPromptProgress sends messages to a model that reports how much of the prompt it has
// read: send and plain chat show it on a terminal, and not elsewhere.
func TestPromptProgress(t *testing.T) {
	t.Parallel()
	m, file, env := chatting(t)
	const shown = "reading the prompt, 43 %"
	reading := modeltest.Reply{}.Raw(`data: {"choices":[],"prompt_progress":{"total":1000,"cache":0,"processed":434,"time_ms":181}}` + "\n\n" +
		`data: {"choices":[{"delta":{"content":"hello"},"finish_reason":"stop"}]}` + "\n\n")
	m.Queue(reading, reading, reading, reading)
	for _, command := range []string{file + " send hi", "echo hi | " + file + " chat"} {
		p := openTerminal(t, env, "/bin/sh", "-c", command)
		p.await("\r" + shown + "\x1b[K\r\x1b[K")
		p.await("hello")
		<-p.ended
	}
	for _, args := range [][]string{{"send", "hi"}, {"chat"}} {
		cmd := exec.Command(file, args...)
		cmd.Env, cmd.Stdin = env, strings.NewReader("hi\n")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "hello") || strings.Contains(string(out), "reading") {
			t.Errorf("%s in a pipe: %v\n%s", args, err, out)
		}
	}
}
