package main

import "testing"

// TestRememberOnTerminal opens the editor for a name, and writes a text with its first
// words as the name.
func TestRememberOnTerminal(t *testing.T) {
	t.Parallel()
	file, env := program(t)
	home := t.TempDir()
	env = append(env, "HOME="+home, "CRABTALK_HOME="+home, `EDITOR=sh -c 'echo more >>"$1"' sh`)
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"remember", "tea"}, "edited tea (note 1, 5 bytes): created", 0},
		{[]string{"remember", "tea"}, "edited tea (note 1, 10 bytes): replaced (was 5 bytes)", 0},
		{[]string{"remember", "green tea"}, "remembered green tea (note 2, 9 bytes): created", 0},
		{[]string{"remember"}, "missing argument", 2},
		{[]string{"remember", "tea", "--tag", "x"}, "--tag wants NAME and TEXT (or -)", 2},
	} {
		p := openTerminal(t, env, file, c.args...)
		p.await(c.want)
		p.end(c.code)
	}
}
