// Package kill contains the crash tests that require real processes: kill -9,
// system calls that fail, a full disk, many processes on one store.
//
//	go test ./fuzz/kill                                   about half a minute
//	CRABMEM_CRASH=full go test -timeout 20m ./fuzz/kill   all cases
//	CRABMEM_SEED=N                                        the seed that a failure printed
//	CRABMEM_REQUIRE=root,strace                           fail instead of skipping without these
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
	"crabmem/crmem/checkpoint"
	"crabmem/crmem/vfs"
	"crabmem/fuzz/kill/history"
)

// The test binary is its own child: childEnv selects the child's task.
const childEnv = "CRABMEM_KILL_CHILD"

var children = map[string]func(args []string) error{
	"write":  childWrite,
	"add":    childAdd,
	"first":  childFirst,
	"hold":   childHold,
	"talk":   childTalk,
	"create": childCreate,
	"linear": childLinear,
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

// child prepares this binary to run as a child.
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

// scale returns how often a layer runs.
func scale(usual, all int) int {
	if full() {
		return all
	}
	if testing.Short() {
		return max(1, usual/10)
	}
	return usual
}

// seed returns the seed of a random test, and prints it when the test fails.
func seed(t *testing.T) uint64 {
	n := uint64(time.Now().UnixNano())
	if s := os.Getenv("CRABMEM_SEED"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("CRABMEM_SEED: %v", err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with CRABMEM_SEED=%d", n)
		}
	})
	return n
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// lacks skips the test for want of something, or fails it when that is
// required.
func lacks(t *testing.T, what, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("CRABMEM_REQUIRE"), ","), what) {
		t.Fatalf("%s is required: %s", what, why)
	}
	t.Skipf("SKIPPED for want of %s: %s", what, why)
}

// built is the command, built once.
var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// command returns the path of a freshly built crabmem.
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

// options are the options of every store here. Close checkpoints only if that
// is cheap, as in one-shot commands.
func options() *crmem.Options {
	return &crmem.Options{Now: func() time.Time { return history.Stamp }, CheckpointOnClose: checkpoint.Auto}
}

// reading opens the store without a lock, for as long as use takes.
func reading(path string, use func(*crmem.Store) error) error {
	o := options()
	o.ReadOnly = true
	return with(path, o, use)
}

func with(path string, o *crmem.Options, use func(*crmem.Store) error) error {
	s, err := crmem.Open(path, o)
	if err != nil {
		return err
	}
	return errors.Join(use(s), s.Close())
}

// contents returns the state of a reader, by name.
func contents(t *testing.T, path string) map[string]string {
	t.Helper()
	m := make(map[string]string)
	err := reading(path, func(s *crmem.Store) error {
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

// healthy opens the store for writing, writes, reads it back and has the files
// checked.
func healthy(t *testing.T, path string) {
	t.Helper()
	const name = "is it healthy"
	err := with(path, options(), func(s *crmem.Store) error {
		_, err := s.Remember(name, "yes", nil)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	err = with(path, options(), func(s *crmem.Store) error {
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
			t.Errorf("%s: the temporary file %s is left over", path, e.Name())
		}
	}
}

// firstLine waits for a child's first line.
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
