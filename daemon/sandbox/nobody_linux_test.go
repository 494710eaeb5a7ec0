package sandbox_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"crabmem/fuzz/race"
)

// TestConfinedNobody runs the tests as a user without rights, to whom the
// kernel gives other ones in a namespace than to root.
func TestConfinedNobody(t *testing.T) {
	race.Skip(t)
	userns(t)
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root becomes another user; the other tests run as the one that this is")
	}
	cmd := nobodyTests(t, "^(TestConfined|TestConfinedWorks|TestConfinedEnds|TestConfinedRefused)$")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || strings.Contains(string(out), "SKIP") || strings.Count(string(out), "--- PASS") != 4 {
		t.Errorf("as nobody: %v", err)
	}
}

// nobodyTests returns a command that runs tests as a user without rights.
func nobodyTests(t *testing.T, tests string) *exec.Cmd {
	t.Helper()
	dir, err := os.MkdirTemp("", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(dir+"/test", program, 0o700)
	}
	for _, name := range []string{dir, dir + "/test"} {
		if err == nil {
			err = os.Chown(name, nobody, nobody)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), dir+"/test", "-test.run", tests, "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

// TestConfinedUnreachableProc confines commands of a user who cannot reach a
// second /proc.
func TestConfinedUnreachableProc(t *testing.T) {
	race.Skip(t)
	if !inOwnMounts(t) {
		return
	}
	dir := t.TempDir() + "/closed"
	if err := os.MkdirAll(dir+"/proc", 0o700); err != nil {
		t.Fatal(err)
	}
	bind(t, "/proc", dir+"/proc")
	out, err := nobodyTests(t, "^TestConfinedWorks$").CombinedOutput()
	if err != nil || strings.Contains(string(out), "SKIP") || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v: %s", err, out)
	}
}

// envOwnMounts is set in a process of a test that has its own mounts.
const envOwnMounts = "CRABMEM_OWN_MOUNTS"

// inOwnMounts reports whether this process has its own mounts, which concurrent
// tests do not see. If not, it runs the test again in such a process.
func inOwnMounts(t *testing.T) bool {
	t.Helper()
	userns(t)
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can mount")
	}
	if os.Getenv(envOwnMounts) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), envOwnMounts+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || strings.Contains(string(out), "SKIP") || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("with its own mounts: %v", err)
	}
	return false
}

// bind mounts a file or directory a second time until the test ends.
func bind(t *testing.T, from, to string) {
	t.Helper()
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(to, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

const nobody = 65534
