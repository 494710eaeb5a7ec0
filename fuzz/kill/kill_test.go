// Package kill contains the crash tests that need real processes: kill -9, failing
// system calls, a full disk, and many processes on one store.
//
//	go test ./fuzz/kill                                   half a minute; a sample of the cases
//	CRABMEM_CRASH=full go test -timeout 20m ./fuzz/kill   all cases
//	CRABMEM_SEED=N                                        repeat a failed test with its seed
//	CRABMEM_REQUIRE=root,strace                           fail, not skip, if one of these is missing
package kill_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"crabmem/crmem"
	"crabmem/crmem/vfs"
	"crabmem/fuzz/kill/history"
)

// The test binary is its own child: childEnv selects the child's task.
const childEnv = "CRABMEM_KILL_CHILD"

var children = map[string]func(args []string) error{
	"write":    childWrite,
	"add":      childAdd,
	"first":    childFirst,
	"hold":     childHold,
	"sessions": childSessions,
	"create":   childCreate,
	"linear":   childLinear,
}

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		if err := children[name](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// child returns a command that runs this binary as the named child.
func child(name string, args ...any) *exec.Cmd {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = fmt.Sprint(a)
	}
	cmd := exec.Command(os.Args[0], words...)
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	cmd.Stderr = os.Stderr
	return cmd
}

func full() bool { return os.Getenv("CRABMEM_CRASH") == "full" }

// rounds returns all if CRABMEM_CRASH=full, a tenth of usual with -short, and else
// usual.
func rounds(usual, all int) int {
	if full() {
		return all
	}
	if testing.Short() {
		return max(1, usual/10)
	}
	return usual
}

// count returns the value of an environment variable, or usual without one.
func count(t *testing.T, name string, usual int) int {
	t.Helper()
	if s := os.Getenv(name); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	return usual
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// skipWithout skips a test that needs a missing program or permission. It fails the
// test if CRABMEM_REQUIRE contains the name. why is the cause.
func skipWithout(t *testing.T, what, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("CRABMEM_REQUIRE"), ","), what) {
		t.Fatalf("%s is required: %s", what, why)
	}
	t.Skipf("SKIPPED: the test needs %s: %s", what, why)
}

// built is the crabmem command, which command builds once.
var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// command returns the path of a crabmem built from this source.
func command(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "crabmem-kill-"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.dir, "crabmem")
		out, err := exec.Command("go", "build", "-o", built.path, "crabmem/cmd/crabmem").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatalf("build crabmem: %v", built.err)
	}
	return built.path
}

// options returns the options of all stores of these tests. As in one-shot
// commands, Close checkpoints only if a checkpoint is cheap.
func options() *crmem.Options {
	return &crmem.Options{Now: func() time.Time { return history.Stamp }, CheckpointOnClose: crmem.CheckpointAuto}
}

// readStore opens a store without a lock, calls use, and closes the store.
func readStore(path string, use func(*crmem.Store) error) error {
	o := options()
	o.ReadOnly = true
	return withStore(path, o, use)
}

// withStore opens a store, calls use, and closes the store.
func withStore(path string, o *crmem.Options, use func(*crmem.Store) error) error {
	s, err := crmem.Open(path, o)
	if err != nil {
		return err
	}
	return errors.Join(use(s), s.Close())
}

// contents returns the contents of a store, as a reader sees them, by name.
func contents(t *testing.T, path string) map[string]string {
	t.Helper()
	m := make(map[string]string)
	err := readStore(path, func(s *crmem.Store) error {
		for e := range s.All() {
			m[e.Name] = e.Content
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return m
}

// checkHealthy writes an entry, reads it in a second open, and checks the files. No
// temporary file may exist after that.
func checkHealthy(t *testing.T, path string) {
	t.Helper()
	const name = "is it healthy"
	err := withStore(path, options(), func(s *crmem.Store) error {
		_, err := s.Remember(name, "yes", nil)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	err = withStore(path, options(), func(s *crmem.Store) error {
		if _, err := s.Get(name); err != nil {
			return err
		}
		return errors.Join(s.Forget(name), s.Checkpoint())
	})
	if err != nil {
		t.Fatalf("%s: after a write: %v", path, err)
	}
	report, err := crmem.Check(vfs.OS{}, path, 0)
	if err != nil {
		t.Fatalf("%s: check: %v", path, err)
	}
	for _, p := range report.Problems {
		t.Errorf("%s: check: %s: %s", path, p.Kind, p.Message)
	}
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if rest, ok := strings.CutPrefix(e.Name(), "."+filepath.Base(path)); ok && strings.Trim(rest, "-wal0123456789") == "" {
			t.Errorf("%s: temporary file %s still exists", path, e.Name())
		}
	}
}

// firstLine starts a child and returns the first line of its output.
func firstLine(cmd *exec.Cmd) (string, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	return bufio.NewReader(out).ReadString('\n')
}
