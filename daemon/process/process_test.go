package process

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEnviron checks which variables a child inherits.
func TestEnviron(t *testing.T) {
	for _, e := range []string{"LC_ALL=a", "XDG_CACHE_HOME=b=c", "path_x=1", "LC=1", "MY_TOKEN=1", "lc_x=1", "comspec=d"} {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
	env := environ([]string{"MY_OWN=1", "LC_ALL=other"})
	for _, e := range []string{"LC_ALL=a", "XDG_CACHE_HOME=b=c", "comspec=d", "MY_OWN=1"} {
		if !slices.Contains(env, e) {
			t.Errorf("no %s", e)
		}
	}
	for _, e := range []string{"path_x=1", "LC=1", "MY_TOKEN=1", "lc_x=1"} {
		if slices.Contains(env, e) {
			t.Errorf("inherited %s", e)
		}
	}
	if !slices.Equal(env[len(env)-2:], []string{"MY_OWN=1", "LC_ALL=other"}) {
		t.Errorf("the server's own variables are not the last: %q", env)
	}
}

// TestDrain reads what an ended program wrote, and ends for a program that has its output open.
func TestDrain(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("SKIPPED: sh is not installed")
	}
	for script, want := range map[string]string{"echo last >&2": "last", "exec 3>&2; (sleep 60 >&3) & echo first >&2": "first"} {
		p, err := Start(t.TempDir(), nil, "sh", "-c", script)
		if err != nil {
			t.Fatal(err)
		}
		<-p.Exited
		p.Drain(time.Second)
		var got []string
		Lines(p.Err, 100, func(text string) { got = append(got, text) })
		p.Stop(0, 0)
		p.Close()
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
}
