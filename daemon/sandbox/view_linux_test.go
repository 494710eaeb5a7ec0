package sandbox

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// viewMachine is a model machine with directories of programs.
func viewMachine() *machine {
	m := newMachine()
	for _, dir := range []string{"/usr", "/usr/bin", "/lib"} {
		m.files[dir] = entry(unix.S_IFDIR|0o755, 8, uint64(100+len(dir)), 20)
	}
	m.files["/bin"] = entry(unix.S_IFLNK|0o777, 8, 200, 20)
	m.files["/etc/ld.so.cache"] = entry(unix.S_IFREG|0o644, 8, 201, 20)
	m.files["/home/u/work"] = entry(unix.S_IFDIR|0o755, 9, 202, 30)
	m.files["/home/u/work/root/proc"] = entry(unix.S_IFDIR|0o755, 4, 204, 40)
	m.mountinfo += "40 30 0:44 / /home/u/work/root/proc rw - proc proc rw\n"
	m.files["/home/u/work/hidden"] = entry(unix.S_IFDIR|0o755, 9, 203, 30)
	return m
}

var viewJob = job{View: "/home/u/work", User: "u", Hidden: []string{"/home/u/data", "/home/u/work/hidden"}}

// TestConfineView makes a view on a model machine, and fails each call in turn.
func TestConfineView(t *testing.T) {
	m := viewMachine()
	m.install(t)
	if err := confine(&viewJob); err != nil {
		t.Fatal(err)
	}
	calls := m.trace
	order := []string{`mount "tmpfs" /proc`, "pivot_root /proc", `write /etc/passwd`, "symlink usr/x /bin", `move_mount 1`, "mount_setattr -100 / ", "mount_setattr -100 /home/u/work",
		"mount_setattr -100 /dev/null", `mount "tmpfs" /home/u/work/root/proc`, `mount "tmpfs" /home/u/work/hidden`, "close_range", "seccomp"}
	at := 0
	for _, want := range order {
		i := slices.IndexFunc(calls[at:], func(call string) bool { return strings.HasPrefix(call, want) })
		if i < 0 {
			t.Fatalf("no %q after %q:\n%s", want, calls[max(at-1, 0)], strings.Join(calls, "\n"))
		}
		at += i + 1
	}
	if _, ok := m.files["/home/u/data"]; ok || slices.ContainsFunc(calls, func(call string) bool { return strings.HasPrefix(call, `mount "tmpfs" /home/u/data`) }) {
		t.Error("the view has another directory of the user")
	}
	// The writing of accounts precedes each part: the command's directory may be /etc.
	account := slices.IndexFunc(calls, func(call string) bool { return strings.HasPrefix(call, "write /etc/nsswitch.conf") })
	if first := slices.IndexFunc(calls, func(call string) bool { return strings.HasPrefix(call, "move_mount") }); first < account {
		t.Error("a part is mounted before the accounts are written")
	}
	for n := 1; n <= len(calls); n++ {
		m := viewMachine()
		m.fail, m.err = n, unix.EIO
		m.install(t)
		err := confine(&viewJob)
		// PR_CAPBSET_DROP ends with an error, and a failing statx means that a path is not in the view.
		if err == nil && calls[n-1] != "close" && !strings.HasPrefix(calls[n-1], "statx") {
			t.Errorf("no error after %q fails", calls[n-1])
		}
	}
	for _, ignored := range []string{"/home/u/work/hidden"} {
		m := viewMachine()
		m.ignored = ignored
		m.install(t)
		if err := confine(&viewJob); err == nil || !strings.Contains(err.Error(), "is visible after it was covered") {
			t.Errorf("a cover of %s without effect: %v", ignored, err)
		}
	}
}

// TestViewDirs checks that a view has only the programs, libraries, and data of the
// system.
func TestViewDirs(t *testing.T) {
	m := viewMachine()
	m.files["/usr/local"] = m.files["/usr"]
	m.install(t)
	if err := confine(&viewJob); err != nil {
		t.Fatal(err)
	}
	for _, call := range m.trace {
		if strings.HasPrefix(call, "open_tree") && (strings.HasSuffix(call, " /usr") || strings.HasSuffix(call, " /usr/local")) {
			t.Error(call)
		}
	}
}

// TestSetView checks the directories that a view may have.
func TestSetView(t *testing.T) {
	dir := t.TempDir()
	link := t.TempDir() + "/link"
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		view, hidden string
		ok           bool
	}{{dir, dir + "/x", true}, {dir, dir, false}, {dir + "/x/y", dir + "/x", false}, {"/", dir, false}, {dir, "/nowhere", true}, {link, "/nowhere", false}} {
		j := job{Hidden: []string{c.hidden}}
		if err := j.setView(c.view); (err == nil) != c.ok {
			t.Errorf("view %s without %s: %v", c.view, c.hidden, err)
		}
	}
}
