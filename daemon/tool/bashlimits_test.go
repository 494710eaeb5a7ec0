//go:build unix

package tool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBashLimits checks the defaults of the limits, and each limit exactly.
func TestBashLimits(t *testing.T) {
	for _, c := range []struct {
		options BashOptions
		most    int // largest timeout_secs
		killed  string
	}{
		{BashOptions{}, 600, "30 seconds"},
		{BashOptions{Timeout: -1, MaxTimeout: -1, MaxOutput: -1}, 600, "30 seconds"},
		{BashOptions{Timeout: time.Minute}, 600, "60 seconds"},
		{BashOptions{Timeout: 1}, 600, "1ns"},
		{BashOptions{Timeout: 20 * time.Minute}, 1200, "1200 seconds"},
		{BashOptions{MaxTimeout: 1}, 30, "30 seconds"},
		{BashOptions{MaxTimeout: 40 * time.Second}, 40, "30 seconds"},
	} {
		b := NewBash(c.options)
		if want := "killed after " + c.killed + " unless"; !strings.Contains(b.Description, want) {
			t.Errorf("%+v: %q, want %q", c.options, b.Description, want)
		}
		for secs, want := range map[int]string{
			c.most: "<nil>", 1: "<nil>",
			c.most + 1: fmt.Sprintf("bash failed: timeout_secs is %d, want 1 to %d", c.most+1, c.most),
			-1:         fmt.Sprintf("bash failed: timeout_secs is -1, want 1 to %d", c.most),
		} {
			if _, err := b.Run(t.Context(), Call{Dir: "/", Arguments: args(t, "command", "true", "timeout_secs", secs)}); secs != 1 && fmt.Sprint(err) != want {
				t.Errorf("%+v, %d seconds: %v, want %s", c.options, secs, err, want)
			}
		}
	}
	for most, want := range map[int]string{0: "", 1: "... [32767 bytes left out] ...", bashMaxOutput - 1: "... [1 bytes left out] ..."} {
		for _, stream := range []string{"", " >&2"} {
			r := runBash(t, NewBash(BashOptions{MaxOutput: most}), Call{Dir: "/", Arguments: args(t, "command", "printf %032768d 0"+stream)})
			if out := r.Stdout + r.Stderr; !strings.Contains(out, want) || want == "" && len(out) != bashMaxOutput {
				t.Errorf("%d bytes of output%s: %d bytes, %.60q", most, stream, len(out), out[max(0, len(out)-60):])
			}
		}
	}
	r := runBash(t, NewBash(BashOptions{}), Call{Dir: "/", Arguments: args(t, "command", "printf %032769d 0")})
	if !strings.Contains(r.Stdout, "... [1 bytes left out] ...") {
		t.Errorf("one byte over the limit: %d bytes", len(r.Stdout))
	}
}

// TestBashEnviron checks the complete environment of a command.
func TestBashEnviron(t *testing.T) {
	for _, e := range os.Environ() {
		name, value, _ := strings.Cut(e, "=")
		if slices.Contains(inherited, name) || strings.HasPrefix(name, "LC_") {
			t.Setenv(name, value) // restores it after the test
			os.Unsetenv(name)
		}
	}
	t.Setenv("LC_ALL", "C")
	t.Setenv("HOME", "/home")
	t.Setenv("SECRET", "s")
	b := bash{BashOptions{Env: map[string]string{"B": "1", "C": "1", "HOME": "/b"}}}
	got, err := b.environ(map[string]string{"C": "2", "A": "=", "PATH": ""})
	if want := []string{"A==", "B=1", "C=2", "HOME=/b", "LC_ALL=C", "PATH="}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	got, err = bash{}.environ(nil)
	if want := []string{"HOME=/home", "LC_ALL=C", "PATH=/usr/local/bin:/usr/bin:/bin"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// TestWorkingDir checks the errors of a working directory.
func TestWorkingDir(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := workingDir(dir + "/none/x"); got != "" || err == nil || !strings.HasPrefix(err.Error(), "working directory: ") {
		t.Errorf("a missing parent: %q, %v", got, err)
	}
	gone := filepath.Join(dir, "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(gone)
	if got, err := workingDir(""); got != gone || err != nil {
		t.Errorf("%q, %v, want %s", got, err, gone)
	}
	if err := os.Remove(gone); err != nil {
		t.Skipf("SKIPPED: the working directory cannot be removed here: %v", err)
	}
	if got, err := workingDir("x"); got != "" || err == nil || strings.HasPrefix(err.Error(), "working directory: ") {
		t.Errorf("no working directory: %q, %v", got, err)
	}
}

// registry is a context that counts the functions to be called at its end.
type registry struct {
	context.Context
	done    chan struct{}
	waiting int
}

func (r *registry) Done() <-chan struct{} { return r.done }

func (r *registry) AfterFunc(func()) func() bool {
	r.waiting++
	return func() bool { r.waiting--; return true }
}

// TestBashLeavesNothing checks that no function waits for the end of a call's
// context after the call.
func TestBashLeavesNothing(t *testing.T) {
	ctx := &registry{Context: t.Context(), done: make(chan struct{})}
	if _, err := NewBash(BashOptions{}).Run(ctx, Call{Dir: "/", Arguments: args(t, "command", "true")}); err != nil || ctx.waiting != 0 {
		t.Errorf("%v, %d functions wait", err, ctx.waiting)
	}
}
