package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"crabmem/crmem"
)

// TestManyWriters runs crabmem remember many times, 16 concurrently, with
// readers that loop: every write exits with 0, every note is found, and every
// reader exits with 0 and sees only complete notes. CRABMEM_CRASH=full runs
// 800.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	runs := 160
	if os.Getenv("CRABMEM_CRASH") == "full" {
		runs = 800
	}
	const atOnce = 16
	_, env := program(t)
	file, err := exec.LookPath("crabmem") // a copy of this test program, or as releases build it
	if err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(t.TempDir(), "home", "memory.db")
	start := func(args ...string) (string, string, int) {
		cmd := exec.Command(file, append(args, "--db", db)...)
		cmd.Env = env
		var out, diag bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &diag
		err := cmd.Run()
		if err != nil && cmd.ProcessState == nil {
			t.Error(err)
			return "", "", -1
		}
		return out.String(), diag.String(), cmd.ProcessState.ExitCode()
	}
	if _, diag, code := start("remember", "first", "before the others"); code != 0 {
		t.Fatalf("exit code %d: %s", code, diag)
	}
	var acknowledged, reads atomic.Int64
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	readers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			before := acknowledged.Load()
			out, diag, code := start("list", "--json", "--content")
			var list []crmem.EntryInfo
			if err := json.Unmarshal([]byte(out), &list); code != 0 || diag != "" || err != nil {
				t.Errorf("reader: exit code %d: %s %v", code, diag, err)
				return
			}
			if int64(len(list)) < before+1 {
				t.Errorf("reader: %d notes after %d were acknowledged", len(list), before+1)
			}
			for _, e := range list {
				if e.Name != "first" && *e.Content != "the text of "+e.Name {
					t.Errorf("reader: %q says %q", e.Name, *e.Content)
				}
			}
			reads.Add(1)
		}
	})
	names := make(chan string)
	for range atOnce {
		writers.Go(func() {
			for name := range names {
				// The machine may be slow: it is the order that is tested.
				_, diag, code := start("remember", name, "the text of "+name, "--lock-wait", "120s")
				if code != 0 || diag != "" {
					t.Errorf("remember %s: exit code %d: %s", name, code, diag)
					continue
				}
				acknowledged.Add(1)
			}
		})
	}
	for i := range runs {
		names <- fmt.Sprintf("note-%03d", i)
	}
	close(names)
	writers.Wait()
	close(done)
	readers.Wait()

	out, diag, code := start("export")
	if code != 0 || diag != "" {
		t.Fatalf("export: exit code %d: %s", code, diag)
	}
	found := 0
	for i := range runs {
		name := fmt.Sprintf("note-%03d", i)
		if strings.Count(out, `"name":"`+name+`"`) == 1 {
			found++
		} else {
			t.Errorf("%s is not there, or more than once", name)
		}
	}
	if _, diag, code := start("verify"); code != 0 || diag != "" {
		t.Errorf("verify: exit code %d: %s", code, diag)
	}
	t.Logf("writers: %d runs, %d at once, %d acknowledged, %d found, %d concurrent reads", runs, atOnce, acknowledged.Load(), found, reads.Load())
	if acknowledged.Load() != int64(runs) || found != runs || reads.Load() == 0 {
		t.Errorf("%d runs: %d acknowledged, %d found, %d reads", runs, acknowledged.Load(), found, reads.Load())
	}
}
