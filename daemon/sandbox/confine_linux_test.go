package sandbox

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const plainMounts = `20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
21 20 0:5 / /dev rw - devtmpfs udev rw
22 20 0:4 / /proc rw shared:2 master:1 - proc proc rw
23 20 0:3 / /sys rw - sysfs sysfs rw
30 20 8:2 / /home rw - ext4 /dev/sda2 rw
`

// manyMounts has further mounts of /home and of /proc. The first of each comes
// before plainMounts.
const manyMounts = `31 20 8:2 /u /mnt/all rw - ext4 /dev/sda2 rw
37 20 0:4 / /jail/proc rw - proc proc rw
` + plainMounts + `32 20 8:2 /u/data/sessions /mnt/part rw - ext4 /dev/sda2 rw
33 20 8:2 /other /mnt/other rw - ext4 /dev/sda2 rw
34 20 8:2 / /mnt/whole rw - ext4 /dev/sda2 rw
35 20 8:2 /u/key /mnt/single rw - ext4 /dev/sda2 rw
36 20 8:2 /u /mnt/a\040b rw - ext4 /dev/sda2 rw
39 20 8:2 /u/gone /mnt/gone rw - ext4 /dev/sda2 rw
40 22 0:4 /sys /proc/sys ro - proc proc rw
38 20 0:4 / /gone/proc rw - proc proc rw
41 20 0:4 /sys /jail/sys rw - proc proc rw
42 20 8:2 /u/data/gone /mnt/gone2 rw - ext4 /dev/sda2 rw
`

func newMachine() *machine {
	const dir, file = unix.S_IFDIR | 0o755, unix.S_IFREG | 0o644
	m := &machine{mountinfo: plainMounts, lastCap: 3, proc: []string{"fs", "irq", "sys", "sysrq-trigger"}, files: map[string]unix.Statx_t{
		"/": entry(dir, 8, 2, 20), "/dev": entry(dir, 5, 1, 21), "/proc": entry(dir, 4, 1, 22), "/sys": entry(dir, 3, 1, 23),
		"/home": entry(dir, 9, 2, 30), "/home/u": entry(dir, 9, 3, 30),
		"/home/u/data": entry(dir, 9, 4, 30), "/home/u/data/sessions": entry(dir, 9, 5, 30), "/home/u/data/secret": entry(file, 9, 6, 30),
		"/home/u/key": entry(file, 9, 7, 30), "/home/other": entry(dir, 9, 8, 30), "/key": entry(file, 8, 9, 20),
		"/mnt/all": entry(dir, 9, 3, 31), "/mnt/all/data": entry(dir, 9, 4, 31), "/mnt/all/key": entry(file, 9, 7, 31),
		"/mnt/part": entry(dir, 9, 5, 32), "/mnt/other": entry(dir, 9, 8, 33), "/mnt/single": entry(file, 9, 7, 35),
		// Another file system covers a part of this mount.
		"/mnt/whole/u/data": entry(dir, 77, 4, 50), "/mnt/whole/u/key": entry(file, 9, 7, 34),
		"/mnt/a b/data": entry(dir, 9, 4, 36), "/mnt/a b/key": entry(file, 9, 7, 36), "/jail/proc": entry(dir, 4, 1, 37), "/jail/sys": entry(dir, 4, 9, 41),
		"/dev/null": entry(unix.S_IFCHR|0o666, 5, 9, 21),
		"/mnt":      entry(dir, 8, 10, 20), "/mnt/whole/u": entry(dir, 9, 3, 34),
	}}
	for _, name := range devices {
		if name != "null" {
			m.files["/dev/"+name] = entry(unix.S_IFCHR|0o666, 5, uint64(20+len(name)), 21)
		}
	}
	return m
}

// run confines this model and describes the calls after the first skip ones.
func (m *machine) run(t *testing.T, skip int, hidden ...string) string {
	m.install(t)
	err := confine(&job{Hidden: hidden})
	return fmt.Sprintf("error: %v\n%s", err, strings.Join(m.trace[min(skip, len(m.trace)):], "\n"))
}

// change returns a hook that runs f before the first call with a prefix.
func change(prefix string, f func(*machine)) func(*machine, string) {
	return func(m *machine, call string) {
		if strings.HasPrefix(call, prefix) {
			m.before = nil
			f(m)
		}
	}
}

// TestConfine compares the result of process 1 on model machines, and its calls on one
// of them.
func TestConfine(t *testing.T) {
	data, key := "/home/u/data", "/home/u/key"
	for _, c := range []struct {
		title   string
		hidden  []string
		prepare func(*machine)
		want    string // error
	}{
		{"no hidden path", nil, nil, ""},
		{"directory and file", []string{data, key}, nil, ""},
		{"file in the root", []string{"/key"}, nil, ""},
		{"many mounts", []string{data, key}, func(m *machine) { m.mountinfo = manyMounts }, ""},
		{"read-only parents", []string{data}, func(m *machine) { m.readOnly = []string{"/", "/home"}; m.mountinfo = manyMounts }, ""},
		{"child after its directory", []string{data, data + "/secret", data + "/sessions"}, nil, ""},
		{"child before its directory", []string{data + "/secret", data + "/sessions", data}, nil, ""},
		{"missing paths", []string{"/missing", key, "/home/missing/x"}, nil, ""},
		{"more of /proc", nil, func(m *machine) { m.proc = append(m.proc, "bus") }, ""},
		{"no /sys", nil, func(m *machine) { delete(m.files, "/sys") }, ""},
		{"no device", nil, func(m *machine) { delete(m.files, "/dev/random") }, "open_tree /dev/random: no such file or directory"},
		{"first mount of the list", []string{"/key"}, func(m *machine) { m.mountinfo = strings.SplitAfter(plainMounts, "\n")[0] }, ""},
		{"paths listed twice", []string{key, data, key, data}, nil, ""},
		{"two mounts at a path", []string{key}, func(m *machine) {
			m.mountinfo = plainMounts + strings.Repeat("35 20 8:2 /u/key /mnt/single rw - ext4 /dev/sda2 rw\n", 2)
		}, ""},
		{"no mount ID", []string{key}, func(m *machine) {
			s := m.files[key]
			s.Mask = unix.STATX_BASIC_STATS
			m.files[key] = s
		}, "kernel is older than Linux 5.12"},
		{"only a mount ID", []string{key}, func(m *machine) {
			s := m.files[key]
			s.Mask = unix.STATX_MNT_ID
			m.files[key] = s
		}, ""},
		{"unknown mount", []string{key}, func(m *machine) { m.mountinfo = strings.Replace(plainMounts, "30 20", "31 20", 1) }, "/home/u/key: its mount 30 is not in /proc/self/mountinfo"},
		{"path outside of its mount", []string{key}, func(m *machine) { m.mountinfo = strings.Replace(plainMounts, "/home", "/elsewhere", 1) }, "/home/u/key is not under its mount /elsewhere"},
		{"mount has no effect", []string{data}, func(m *machine) { m.ignored = data }, "/home/u/data is visible after it was covered"},
		{"path removed while covered", []string{data, key}, func(m *machine) {
			m.before = change(`mount "tmpfs" /dev`, func(m *machine) { delete(m.files, key); delete(m.files, data) })
		}, ""},
		{"file removed concurrently", []string{data, key}, func(m *machine) {
			m.before = change("access", func(m *machine) { delete(m.files, key) })
		}, "cover /home/u/key: path changed concurrently"},
		{"file replaced concurrently", []string{data, key}, func(m *machine) {
			m.before = change("access", func(m *machine) { m.add(key) })
		}, "cover /home/u/key: path changed concurrently"},
		{"directory replaced concurrently", []string{data, key}, func(m *machine) {
			m.before = change("access", func(m *machine) { m.add(data) })
		}, "cover /home/u/data: path changed concurrently"},
		{"unrelated file removed concurrently", []string{"/key", key, data}, func(m *machine) {
			m.before = change("access", func(m *machine) { delete(m.files, "/key") })
		}, "cover /key: path changed concurrently"},
	} {
		m := newMachine()
		if c.prepare != nil {
			c.prepare(m)
		}
		want := "<nil>"
		if c.want != "" {
			want = c.want
		}
		got := m.run(t, 0, c.hidden...)
		if !strings.HasPrefix(got, "error: "+want+"\n") {
			t.Errorf("%s: %s, want %s", c.title, got, want)
		}
		if c.title == "directory and file" {
			calls, err := os.ReadFile("testdata/confine.txt")
			if err != nil {
				t.Fatal(err)
			}
			if got+"\n" != string(calls) {
				t.Errorf("%s: the calls are\n%s\nwant\n%s", c.title, got, calls)
			}
		}
	}
}

// TestFailingCalls fails each call of process 1 in turn: it ends, unless both hidden
// paths are hidden without the call.
func TestFailingCalls(t *testing.T) {
	for _, err := range []error{unix.EIO, unix.ENOENT, unix.EACCES, unix.ENOTDIR, unix.EINVAL} {
		for n := 1; ; n++ {
			m := newMachine()
			m.mountinfo, m.fail, m.err = manyMounts, n, err
			outcome := m.run(t, 0, "/home/u/data", "/home/u/key")
			if len(m.trace) < n {
				break
			}
			op, _, _ := strings.Cut(m.trace[n-1], " ")
			if strings.HasPrefix(m.trace[n-1], `mount "/home/u" /home/u `) && !strings.HasPrefix(outcome, "error: pin /home/u: ") {
				t.Errorf("%s: %.100s", m.trace[n-1], outcome)
			}
			missing := err == unix.ENOENT || err == unix.ENOTDIR || err == unix.EACCES
			tolerated := slices.Contains([]string{"access", "close", "close:", "statx"}, op) || op == "prctl" && err == unix.EINVAL || strings.HasPrefix(op, "mount") && missing
			hidden := strings.Contains(outcome, `mount "tmpfs" /home/u/data `) && strings.Contains(outcome, `mount "/dev/null" /home/u/key `)
			if ok := strings.HasPrefix(outcome, "error: <nil>"); ok && (!tolerated || !hidden && !(op == "statx" && missing)) { // a missing path needs no cover
				t.Errorf("%s: %v is ignored, hidden %v", m.trace[n-1], err, hidden)
			}
		}
	}
}

// TestMountinfo parses lists of mounts.
func TestMountinfo(t *testing.T) {
	const line = "30 20 8:2 /root /at rw - ext4 /dev/sda2 rw"
	for list, want := range map[string]int{
		"": 0, "\n": -1, line: 1, line + "\n" + line + "\n": 2, manyMounts: 17, "x" + line: -1, "-1" + line: -1, strings.Replace(line, "30", "18446744073709551615", 1): 1, strings.Replace(line, "30", "18446744073709551616", 1): -1,
		strings.Replace(line, "rw - ", "rw shared:7 master:2 - ", 1): 1, strings.ReplaceAll(line, " - ", " "): -1, "30 20 8:2 /root /at rw - ": -1, "- ext4": -1, line + strings.Repeat("x", 1<<20): -1,
	} {
		m := &machine{mountinfo: list}
		m.install(t)
		mounts, err := readMounts()
		if got := len(mounts); (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%.100q: %d mounts, %v, want %d", list, got, err, want)
		}
	}
	m := &machine{mountinfo: `30 20 8:2 /a\040b\011c\012d\134e\134040 /\040\134\041 rw - ext4 x rw`}
	m.install(t)
	if mounts, err := readMounts(); fmt.Sprint(mounts) != "[{30 8:2 /a b\tc\nd\\e\\040 / \\\\041 ext4}]" {
		t.Errorf("%v, %v", mounts, err)
	}
}

// TestSocketFilter runs the filter for system calls of each architecture.
func TestSocketFilter(t *testing.T) {
	for goarch, arch := range map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64, "riscv64": unix.AUDIT_ARCH_RISCV64} {
		filter, err := socketFilter(goarch, false)
		if err != nil {
			t.Fatal(err)
		}
		const (
			allow  = unix.SECCOMP_RET_ALLOW
			noCall = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
			noUnix = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
			x32    = 0x40000000
		)
		for _, c := range []struct{ arch, nr, arg, want uint32 }{
			{arch, unix.SYS_SOCKET, unix.AF_UNIX, noUnix}, {arch, unix.SYS_SOCKET, unix.AF_UNSPEC, allow}, {arch, unix.SYS_SOCKET, unix.AF_INET, allow},
			{arch, unix.SYS_SOCKETPAIR, unix.AF_UNIX, allow}, {arch, unix.SYS_READ, 0, allow}, {arch, unix.SYS_IO_URING_SETUP, 4, noCall},
			{arch, unix.SYS_IO_URING_SETUP - 1, 4, allow}, {arch, unix.SYS_IO_URING_SETUP + 1, 4, allow},
			{arch, x32 - 1, 0, allow}, {arch, x32, 0, noCall}, {arch, x32 | unix.SYS_SOCKET, unix.AF_INET, noCall}, {arch, 1<<32 - 1, 0, noCall},
			{arch + 1, unix.SYS_READ, 0, noCall}, {arch + 1, unix.SYS_SOCKET, unix.AF_UNIX, noCall}, {0, unix.SYS_SOCKET, unix.AF_INET, noCall},
		} {
			if got := runFilter(t, filter, map[uint32]uint32{0: c.nr, 4: c.arch, 16: c.arg}); got != c.want {
				t.Errorf("%s: call %#x of %#x with %d: %#x, want %#x", goarch, c.nr, c.arch, c.arg, got, c.want)
			}
		}
	}
	filter, err := socketFilter("amd64", true)
	if err != nil {
		t.Fatal(err)
	}
	for family := range uint32(unix.AF_MAX) {
		got := runFilter(t, filter, map[uint32]uint32{0: unix.SYS_SOCKET, 4: unix.AUDIT_ARCH_X86_64, 16: family})
		if got != unix.SECCOMP_RET_ERRNO|uint32(unix.EAFNOSUPPORT) {
			t.Errorf("the filter of the read-only profile permits family %d: %#x", family, got)
		}
	}
	if filter, err := socketFilter("wasm", false); filter != nil || err == nil || err.Error() != "no filter of system calls for wasm" {
		t.Errorf("%v, %v", filter, err)
	}
}

// runFilter interprets a filter for words of struct seccomp_data by offset.
func runFilter(t *testing.T, filter []unix.SockFilter, data map[uint32]uint32) uint32 {
	t.Helper()
	a := uint32(0)
	for i := 0; i < len(filter); i++ {
		f := filter[i]
		jump := false
		switch f.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			word, ok := data[f.K]
			if !ok {
				t.Fatalf("no word at offset %d", f.K)
			}
			a = word
			continue
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump = a == f.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump = a >= f.K
		case unix.BPF_RET | unix.BPF_K:
			return f.K
		default:
			t.Fatalf("instruction %d: code %#x", i, f.Code)
		}
		if jump {
			i += int(f.Jt)
		} else {
			i += int(f.Jf)
		}
	}
	t.Fatal("the filter does not return")
	return 0
}
