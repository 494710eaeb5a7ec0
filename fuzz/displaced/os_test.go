//go:build unix

package displaced_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/crmem"
)

// childEnv is set in a child process, which runs the same test binary. It contains
// the directory of the store. The child prepares a start state and waits for the
// kill.
const childEnv = "CRABMEM_DISPLACED_CHILD"

func TestMain(m *testing.M) {
	dir := os.Getenv(childEnv)
	if dir == "" {
		debug.SetGCPercent(400) // the stores are small and many
		os.Exit(m.Run())
	}
	a := newActor(newOS(dir))
	i := slices.IndexFunc(starts, func(s start) bool { return s.name == os.Args[1] })
	starts[i].do(a, crmem.CheckpointAlways)
	b, err := json.Marshal(a.acked)
	must(err)
	fmt.Println(string(b))
	time.Sleep(time.Hour)
}

// writer starts a child and returns a machine, the process, and the acknowledged
// entries.
func writer(t *testing.T, st start) (osMachine, *exec.Cmd, map[string]string) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], st.name)
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(err)
	must(cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the child printed %q: %v", line, err)
	}
	acked := map[string]string{}
	must(json.Unmarshal([]byte(line), &acked))
	return osMachine{root: dir}, cmd, acked
}

// TestKilledProcess changes the files of a real process and kills the process. It
// allows only the undetected cells of TestTable. Without CRABMEM_CRASH=full, it runs one
// cell in 29.
func TestKilledProcess(t *testing.T) {
	listed := undetected(t, "in the same boot")
	counts := map[string]int{}
	n, step := 0, 29
	if full() {
		step = 1
	}
	var mu sync.Mutex
	t.Cleanup(func() { t.Logf("real processes killed: %v", counts) })
	for _, st := range starts {
		for _, tg := range targets {
			for _, ch := range changes {
				if n++; n%step > 0 || ch.name == anotherStore && strings.HasPrefix(tg.name, "all") {
					continue
				}
				name := tg.name + ": " + ch.name
				t.Run(strings.ReplaceAll(st.name+"/"+name, " ", "-"), func(t *testing.T) {
					t.Parallel()
					m, cmd, acked := writer(t, st)
					ch.apply(m, tg)
					must(cmd.Process.Kill())
					_ = cmd.Wait() // the error is the kill
					o := &oracle{t: t, acked: acked}
					outcome := o.outcome(m)
					mu.Lock()
					counts[outcome]++
					mu.Unlock()
					if len(o.extra) > 0 {
						t.Errorf("%s: entries that were never written: %v", outcome, o.extra)
					}
					if outcome == silent && !slices.Contains(listed, name) {
						t.Errorf("%s; next open: %q", outcome, o.messages)
					}
				})
			}
		}
	}
}
