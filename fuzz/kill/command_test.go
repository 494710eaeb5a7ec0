package kill_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"crabmem/fuzz/seed"
)

// TestKillCommand kills runs of crabmem remember. Exit code 0 acknowledges the entry
// of a run. The entry of a killed run must be complete or missing.
func TestKillCommand(t *testing.T) {
	bin := command(t)
	n := rounds(8, 200)
	rng := seed.Random(t)
	path := filepath.Join(t.TempDir(), "home", "memory.db")
	acked, killed, complete := make(map[string]string), make(map[string]string), 0
	began := time.Now()
	if err := exec.Command(bin, "--db", path, "remember", "run 0", "text of run 0").Run(); err != nil {
		t.Fatal(err)
	}
	acked["run 0"] = "text of run 0"
	limit := 3 * time.Since(began) // of the delay before a kill; follows the load of the machine
	// The test needs killed and acknowledged runs. The load determines how many runs
	// that takes.
	for i := 1; i < n || i < 20*n && (len(acked) == 1 || len(killed) == 0); i++ {
		name, text := fmt.Sprintf("run %d", i), fmt.Sprintf("text of run %d", i)
		cmd := exec.Command(bin, "--db", path, "remember", name, text)
		start := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(rng.Int64N(int64(limit))), func() { cmd.Process.Kill() })
		err := cmd.Wait()
		timer.Stop()
		var exit *exec.ExitError
		switch {
		case err == nil:
			acked[name] = text
			limit = 3 * time.Since(start)
		case errors.As(err, &exit) && exit.ExitCode() == -1:
			killed[name] = text
		default:
			t.Fatalf("%s: %v", name, err)
		}
	}
	got := contents(t, path)
	for name, text := range acked {
		if got[name] != text {
			t.Errorf("%s was acknowledged, but the store has %q", name, got[name])
		}
	}
	for name, text := range killed {
		switch got[name] {
		case text:
			complete++
		case "":
		default:
			t.Errorf("%s was killed, and the store has %q", name, got[name])
		}
	}
	if len(got) != len(acked)+complete {
		t.Errorf("%d entries, want %d acknowledged and %d of killed runs", len(got), len(acked), complete)
	}
	checkHealthy(t, path)
	t.Logf("kill -9 of commands: %d runs, %d acknowledged, 0 lost, %d killed, %d of these complete", n, len(acked), len(killed), complete)
	if !testing.Short() && (len(acked) == 1 || len(killed) == 0) {
		t.Errorf("%d runs acknowledged, %d killed: too few to test", len(acked), len(killed))
	}
}
