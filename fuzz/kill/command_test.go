package kill_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestKillCommand kills runs of crabmem remember. A run that exited with 0 was
// acknowledged; the entry of a killed run is complete or missing.
func TestKillCommand(t *testing.T) {
	bin := command(t)
	n := scale(20, 200)
	rng := random(seed(t))
	path := filepath.Join(t.TempDir(), "home", "memory.db")
	acked, killed, whole := make(map[string]string), make(map[string]string), 0
	began := time.Now()
	if err := exec.Command(bin, "--db", path, "remember", "run 0", "text of run 0").Run(); err != nil {
		t.Fatal(err)
	}
	acked["run 0"] = "text of run 0"
	life := 3 * time.Since(began) // of a run that is not killed, as the machine is now
	// The test needs runs of both kinds; the load decides how many it takes.
	for i := 1; i < n || i < 20*n && (len(acked) == 1 || len(killed) == 0); i++ {
		name, text := fmt.Sprintf("run %d", i), fmt.Sprintf("text of run %d", i)
		cmd := exec.Command(bin, "--db", path, "remember", name, text)
		start := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(rng.Int64N(int64(life))), func() { cmd.Process.Kill() })
		err := cmd.Wait()
		timer.Stop()
		var exit *exec.ExitError
		switch {
		case err == nil:
			acked[name] = text
			life = 3 * time.Since(start)
		case errors.As(err, &exit) && exit.ExitCode() == -1:
			killed[name] = text
		default:
			t.Fatalf("%s: %v", name, err)
		}
	}
	got := contents(t, path)
	for name, text := range acked {
		if got[name] != text {
			t.Errorf("%s was acknowledged; the store has %q", name, got[name])
		}
	}
	for name, text := range killed {
		switch got[name] {
		case text:
			whole++
		case "":
		default:
			t.Errorf("%s was killed and left %q", name, got[name])
		}
	}
	if len(got) != len(acked)+whole {
		t.Errorf("%d entries; %d acknowledged, %d killed but complete", len(got), len(acked), whole)
	}
	healthy(t, path)
	t.Logf("kill -9 of commands: %d runs, %d acknowledged, 0 lost, %d killed, of which %d kept", n, len(acked), len(killed), whole)
	if !testing.Short() && (len(acked) == 1 || len(killed) == 0) {
		t.Error("every run was acknowledged, or only the first: the test does not test")
	}
}
