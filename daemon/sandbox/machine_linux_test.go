package sandbox

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// machine is a model of a machine's files and mounts that records the system
// calls of process 1.
type machine struct {
	mountinfo string
	files     map[string]unix.Statx_t
	readOnly  []string                // directories that the user cannot change
	proc      []string                // files of a new /proc
	old       map[string]unix.Statx_t // of the old root directory
	ignored   string                  // target of mounts without effect
	lastCap   uintptr
	fail      int // number of the call that fails, from 1
	err       error
	before    func(m *machine, call string) // runs before each call

	trace   []string
	created uint64
	fds     int
}

// entry is a file of a machine: its mode, device, inode, and mount.
func entry(mode uint16, dev uint32, ino, mnt uint64) unix.Statx_t {
	return unix.Statx_t{Mask: unix.STATX_BASIC_STATS | unix.STATX_MNT_ID, Mode: mode, Dev_major: dev, Ino: ino, Mnt_id: mnt}
}

// install replaces the system calls until the test ends.
func (m *machine) install(t *testing.T) {
	old := system
	t.Cleanup(func() { system = old })
	system = systemCalls{
		open:  m.open,
		statx: m.statx,
		access: func(path string, mode uint32) error {
			if err := m.call("access %s %#x", path, mode); err != nil || !slices.Contains(m.readOnly, path) {
				return err
			}
			return unix.EACCES
		},
		mount: m.mount,
		mountSetattr: func(dir int, path string, flags uint, attr *unix.MountAttr) error {
			return m.at(path, "mount_setattr %d %s %#x %+v", dir, path, flags, *attr)
		},
		openTree: func(dir int, path string, flags uint) (int, error) {
			err := m.at(path, "open_tree %d %s", dir, path)
			if want := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC); flags&^unix.AT_RECURSIVE != want {
				err = fmt.Errorf("open_tree with flags %#x, want %#x", flags, want)
			}
			m.fds++
			return 100 + m.fds, err
		},
		moveMount: func(fromDir int, from string, toDir int, to string, flags int) error {
			err := m.at(to, "move_mount %d %q %d %s %#x", fromDir, from, toDir, to, flags)
			if err == nil && m.old != nil { // the clone has the path that it had
				for path, s := range m.old {
					if _, ok := under(path, to); ok {
						m.files[path] = s
					}
				}
			}
			return err
		},
		close:      func(fd int) error { return m.call("close %d", fd) },
		closeRange: func(first, last, flags uint) error { return m.call("close_range %d %#x %#x", first, last, flags) },
		mknod: func(path string, mode uint32, dev int) error {
			return m.create(path, "mknod %s %o %d", path, mode, dev)
		},
		mkdir:     func(path string, mode uint32) error { return m.create(path, "mkdir %s %o", path, mode) },
		symlink:   func(target, path string) error { return m.create(path, "symlink %s %s", target, path) },
		readlink:  func(path string) (string, error) { return "usr/x", m.at(path, "readlink %s", path) },
		writeFile: func(path, text string) error { return m.create(path, "write %s %q", path, text) },
		pivotRoot: func(dir string) error {
			err := m.at(dir, "pivot_root %s", dir)
			if err == nil {
				m.old, m.files = m.files, map[string]unix.Statx_t{}
				m.add("/")
			}
			return err
		},
		prctl: func(option int, a, b, c, d uintptr) error {
			err := m.call("prctl %d %d %d %d %d", option, a, b, c, d)
			if err == nil && option == unix.PR_CAPBSET_DROP && a > m.lastCap {
				err = unix.EINVAL
			}
			return err
		},
		capset: func(h *unix.CapUserHeader, data *unix.CapUserData) error {
			return m.call("capset %#x %d %+v", h.Version, h.Pid, *data)
		},
		setFilter: func(filter []unix.SockFilter) error { return m.call("seccomp with %d instructions", len(filter)) },
	}
}

// call records a call and returns the error of the one that fails.
func (m *machine) call(format string, args ...any) error {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
	if m.before != nil {
		m.before(m, m.trace[len(m.trace)-1])
	}
	if len(m.trace) == m.fail {
		return m.err
	}
	return nil
}

// at records a call for a file, which must exist.
func (m *machine) at(path, format string, args ...any) error {
	err := m.call(format, args...)
	if _, ok := m.files[path]; err == nil && !ok {
		err = unix.ENOENT
	}
	return err
}

func (m *machine) create(path, format string, args ...any) error {
	err := m.call(format, args...)
	if err == nil {
		m.add(path)
	}
	return err
}

// add adds a file with a new identity.
func (m *machine) add(path string) {
	m.created++
	m.files[path] = entry(unix.S_IFDIR, 1000, m.created, 1000)
}

func (m *machine) open(name string) (io.ReadCloser, error) {
	return &machineFile{m: m, r: strings.NewReader(m.mountinfo)}, m.call("open %s", name)
}

// machineFile records its first read, and the close.
type machineFile struct {
	m    *machine
	r    io.Reader
	read bool
}

func (f *machineFile) Read(b []byte) (int, error) {
	if !f.read {
		f.read = true
		if err := f.m.call("read"); err != nil {
			return 0, err
		}
	}
	return f.r.Read(b)
}

func (f *machineFile) Close() error { return f.m.call("close") }

func (m *machine) statx(dir int, path string, flags, mask int, s *unix.Statx_t) error {
	if err := m.at(path, "statx %d %s %#x %#x", dir, path, flags, mask); err != nil {
		return err
	}
	*s = m.files[path]
	return nil
}

func (m *machine) mount(source, target, kind string, flags uintptr, data string) error {
	if err := m.at(target, "mount %q %s %q %#x %q", source, target, kind, flags, data); err != nil || target == m.ignored {
		return err
	}
	switch {
	case kind != "":
		maps.DeleteFunc(m.files, func(path string, _ unix.Statx_t) bool { return strings.HasPrefix(path, target+"/") })
		m.add(target)
		for _, name := range m.proc {
			if kind == "proc" {
				m.add(target + "/" + name)
			}
		}
	case source != "" && source != target:
		m.files[target] = m.files[source]
	}
	return nil
}
