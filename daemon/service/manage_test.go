package service

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
)

// TestLaunchEnd checks that an installed service is started and stopped by the
// system's commands, and that a missing service is an error.
func TestLaunchEnd(t *testing.T) {
	for goos, want := range map[string][]string{
		"linux":   {"systemctl --user start ai.crabtalk.search.service", "systemctl --user stop ai.crabtalk.search.service"},
		"darwin":  {"launchctl bootstrap gui/U /home/crab/Library/LaunchAgents/ai.crabtalk.search.plist", "launchctl bootout gui/U/ai.crabtalk.search"},
		"windows": {"schtasks /Run /TN ai.crabtalk.search", "schtasks /End /TN ai.crabtalk.search"},
	} {
		s, m, sys := installed(t, goos)
		ctx := context.Background()
		if err := errors.Join(s.Launch(ctx), s.End(ctx)); !errors.Is(err, ErrNotInstalled) || len(sys.commands) > 0 {
			t.Errorf("%s: not installed: %v, commands %v", goos, err, sys.commands)
		}
		file, ok, err := s.Installed()
		if ok || err != nil {
			t.Errorf("%s: %v, %v", goos, ok, err)
		}
		if err := vfs.MkdirAll(m, filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		m.WriteFile(file, []byte("x"), 0o600)
		if err := errors.Join(s.Launch(ctx), s.End(ctx)); err != nil {
			t.Errorf("%s: %v", goos, err)
		}
		for i := range want {
			want[i] = strings.Replace(want[i], "gui/U", "gui/"+strconv.Itoa(os.Getuid()), 1)
		}
		if !slices.Equal(sys.commands, want) {
			t.Errorf("%s: commands %q, want %q", goos, sys.commands, want)
		}
		sys.fail = "crabtalk"
		if err := s.End(ctx); err == nil {
			t.Errorf("%s: a command that failed is no error", goos)
		}
	}
}
