package main

import (
	"strings"
	"testing"

	"crabmem/bench/gate"

	"golang.org/x/sys/unix"
)

// TestSecretPrompt types a secret on a terminal, which must not show it. After an
// interrupt, the terminal must be as it was.
func TestSecretPrompt(t *testing.T) {
	file, env := program(t)
	for _, c := range []struct {
		typed, then string
		code        int
	}{
		{"sk-hunter2\r", "stored openai: created", 0},
		{"sk-hunter2\x03", "stopped by signal", 130},
		{"\r", "the value is empty", 2},
	} {
		p := openTerminal(t, env, file, "secret", "set", "openai")
		p.await("value of openai: ")
		gate.Until(t, "the terminal hides the input", func() bool {
			modes, err := unix.IoctlGetTermios(int(p.other.Fd()), unix.TCGETS)
			return err == nil && modes.Lflag&unix.ECHO == 0
		})
		p.typed(c.typed)
		p.await(c.then)
		p.end(c.code)
		p.mu.Lock()
		if strings.Contains(p.ever.String(), "hunter2") {
			t.Errorf("the terminal shows the secret: %q", p.ever.String())
		}
		p.mu.Unlock()
	}
}
