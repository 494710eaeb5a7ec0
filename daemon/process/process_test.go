package process

import (
	"slices"
	"strings"
	"testing"
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
