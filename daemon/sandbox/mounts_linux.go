package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// confine changes this process's mounts to those of a job, marks every descriptor
// above 2 to be closed on exec, and drops every privilege of this thread. It stops
// at the first step that fails.
func confine(j *job) error {
	if err := system.mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	mounts, err := readMounts()
	if err != nil {
		return err
	}
	var covers []cover
	for _, h := range j.Hidden {
		list, err := coversOf(h, mounts)
		if err != nil {
			return err
		}
		for _, c := range list {
			if !slices.ContainsFunc(covers, func(o cover) bool { return o.path == c.path }) {
				covers = append(covers, c)
			}
		}
	}
	if j.View != "" {
		err = enterView(j, covers, mounts)
	} else {
		err = coverHidden(covers, mounts)
	}
	if err != nil {
		return err
	}
	for _, c := range covers {
		if identityOf(c.path) == c.id {
			return fmt.Errorf("%s is visible after it was covered", c.path)
		}
	}
	// The daemon may have inherited descriptors of hidden files.
	if err := system.closeRange(uint(fdJob), math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	return drop(j.View != "")
}

// coverHidden covers the hidden paths among the mounts of the machine, and replaces
// /dev and /proc.
func coverHidden(covers []cover, mounts []mount) error {
	devices, err := cloneDevices()
	if err != nil {
		return err
	}
	if err := setMounts("/", unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID); err != nil {
		return err
	}
	if err := pin(covers, mounts); err != nil {
		return err
	}
	for _, c := range covers {
		if err := c.hide(covers); err != nil {
			return err
		}
	}
	if err := newDev(devices); err != nil {
		return err
	}
	if err := newProc(mounts); err != nil {
		return err
	}
	if err := setMounts("/sys", unix.MOUNT_ATTR_RDONLY); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// mount is a line of mountinfo.
type mount struct {
	id   uint64
	dev  string // the file system's, major:minor
	root string // the mounted part of it
	at   string // mount point
	kind string
}

// readMounts returns the mounts of this process.
func readMounts() ([]mount, error) {
	f, err := system.open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []mount
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		front, back, ok := strings.Cut(lines.Text(), " - ")
		w, kind := strings.Fields(front), strings.Fields(back)
		if !ok || len(w) < 6 || len(kind) < 1 {
			return nil, fmt.Errorf("parse /proc/self/mountinfo: invalid line %q", lines.Text())
		}
		id, err := strconv.ParseUint(w[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("parse /proc/self/mountinfo: %w", err)
		}
		list = append(list, mount{id, w[2], unescape.Replace(w[3]), unescape.Replace(w[4]), kind[0]})
	}
	return list, lines.Err()
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// identity identifies a file until the next boot.
type identity struct {
	dev [2]uint32
	ino uint64
}

func statx(path string) (s unix.Statx_t, err error) {
	err = system.statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &s)
	return s, err
}

// identityOf returns the identity of a file, or the zero identity, which no file
// has, if it cannot.
func identityOf(path string) identity {
	s, _ := statx(path) // zero after an error
	return identity{[2]uint32{s.Dev_major, s.Dev_minor}, s.Ino}
}

// cover is a path at which a hidden file or directory is visible.
type cover struct {
	path string
	dir  bool
	id   identity
}

// coversOf returns every path at which a hidden file or directory is visible:
// its own, and those in other mounts of the same file system.
func coversOf(path string, mounts []mount) ([]cover, error) {
	s, err := statx(path)
	if isUnreachable(err) {
		return nil, nil
	}
	if err != nil {
		return nil, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	if s.Mask&unix.STATX_MNT_ID == 0 {
		return nil, errors.New("kernel is older than Linux 5.12")
	}
	i := slices.IndexFunc(mounts, func(m mount) bool { return m.id == s.Mnt_id })
	if i < 0 {
		return nil, fmt.Errorf("%s: its mount %d is not in /proc/self/mountinfo", path, s.Mnt_id)
	}
	below, ok := under(path, mounts[i].at)
	if !ok {
		return nil, fmt.Errorf("%s is not under its mount %s", path, mounts[i].at)
	}
	inside := filepath.Join(mounts[i].root, below) // of the file system
	id := identity{[2]uint32{s.Dev_major, s.Dev_minor}, s.Ino}
	covers := []cover{{path, s.Mode&unix.S_IFMT == unix.S_IFDIR, id}}
	for _, m := range mounts {
		if m.dev != mounts[i].dev {
			continue
		}
		at := ""
		if rest, ok := under(inside, m.root); ok {
			at = filepath.Join(m.at, rest)
			if identityOf(at) != id {
				continue // another file system is mounted over it
			}
		} else if _, ok := under(m.root, inside); ok {
			at = m.at // m is a part of the hidden directory
		} else {
			continue
		}
		o, err := statx(at)
		if err != nil || at == path {
			continue
		}
		covers = append(covers, cover{at, o.Mode&unix.S_IFMT == unix.S_IFDIR, identity{[2]uint32{o.Dev_major, o.Dev_minor}, o.Ino}})
	}
	return covers, nil
}

// isUnreachable reports whether err means that neither this process nor the
// command can reach a path.
func isUnreachable(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOTDIR)
}

// under returns the relative name of path in dir, if path is dir or in it.
func under(path, dir string) (string, bool) {
	rel, err := filepath.Rel(dir, path)
	return rel, err == nil && filepath.IsLocal(rel)
}

// pin mounts each parent of a hidden path over itself. Otherwise a command
// could rename the parent and create another, in which the daemon would find
// another data directory. pin skips parents that a command cannot rename.
func pin(covers []cover, mounts []mount) error {
	done := make(map[string]bool)
	for _, m := range mounts {
		done[m.at] = true
	}
	for _, c := range covers {
		var up []string
		for dir := filepath.Dir(c.path); dir != "/"; dir = filepath.Dir(dir) {
			up = append(up, dir)
		}
		for _, dir := range slices.Backward(up) {
			if done[dir] || system.access(filepath.Dir(dir), unix.W_OK) != nil {
				continue
			}
			done[dir] = true
			if err := system.mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
				return &os.PathError{Op: "pin", Path: dir, Err: err}
			}
		}
	}
	return nil
}

// hide mounts an empty read-only directory, or an empty file, over the path.
func (c cover) hide(all []cover) error {
	if identityOf(c.path) != c.id {
		// A cover of a parent covers it too.
		if slices.ContainsFunc(all, func(o cover) bool { _, ok := under(c.path, o.path); return ok && o.path != c.path }) {
			return nil
		}
		return fmt.Errorf("cover %s: path changed concurrently", c.path)
	}
	if c.dir {
		const flags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
		if err := system.mount("tmpfs", c.path, "tmpfs", flags, "mode=0555,size=4k,nr_inodes=1"); err != nil {
			return &os.PathError{Op: "cover", Path: c.path, Err: err}
		}
		return nil
	}
	if err := system.mount("/dev/null", c.path, "", unix.MS_BIND, ""); err != nil {
		return &os.PathError{Op: "cover", Path: c.path, Err: err}
	}
	return nil
}

// setMounts adds attributes to the mount at dir and all mounts under it.
func setMounts(dir string, attr uint64) error {
	if err := system.mountSetattr(unix.AT_FDCWD, dir, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr}); err != nil {
		return &os.PathError{Op: "mount_setattr", Path: dir, Err: err}
	}
	return nil
}

// devices are the names in /dev that every command may use.
var devices = []string{"full", "null", "random", "tty", "urandom", "zero"}

// cloneDevices returns descriptors of detached mounts of the devices.
func cloneDevices() (map[string]int, error) {
	fds := make(map[string]int)
	for _, name := range devices {
		fd, err := system.openTree(unix.AT_FDCWD, "/dev/"+name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return nil, &os.PathError{Op: "open_tree", Path: "/dev/" + name, Err: err}
		}
		fds[name] = fd
	}
	return fds, nil
}

// newDev mounts a new /dev without disks and without terminals of other
// namespaces.
func newDev(fds map[string]int) error {
	const flags = unix.MS_NOSUID | unix.MS_NOEXEC
	if err := system.mount("tmpfs", "/dev", "tmpfs", flags, "mode=0755,size=1m"); err != nil {
		return &os.PathError{Op: "mount", Path: "/dev", Err: err}
	}
	for _, name := range devices {
		path := "/dev/" + name
		if err := system.mknod(path, unix.S_IFREG|0o666, 0); err != nil {
			return &os.PathError{Op: "create", Path: path, Err: err}
		}
		if err := system.moveMount(fds[name], "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return &os.PathError{Op: "move_mount", Path: path, Err: err}
		}
		system.close(fds[name])
	}
	for _, m := range []struct{ name, kind, data string }{
		{"pts", "devpts", "newinstance,ptmxmode=0666,mode=0620"},
		{"shm", "tmpfs", "mode=1777"},
	} {
		path := "/dev/" + m.name
		if err := system.mkdir(path, 0o755); err != nil {
			return &os.PathError{Op: "mkdir", Path: path, Err: err}
		}
		if err := system.mount(m.kind, path, m.kind, flags, m.data); err != nil {
			return &os.PathError{Op: "mount", Path: path, Err: err}
		}
	}
	for _, l := range [][2]string{
		{"pts/ptmx", "ptmx"}, {"/proc/self/fd", "fd"}, {"fd/0", "stdin"}, {"fd/1", "stdout"}, {"fd/2", "stderr"},
	} {
		if err := system.symlink(l[0], "/dev/"+l[1]); err != nil {
			return &os.PathError{Op: "symlink", Path: "/dev/" + l[1], Err: err}
		}
	}
	return nil
}

// newProc mounts a new /proc that contains only processes of this namespace.
// Its files of the whole machine are read-only: a root without privileges still
// owns them.
func newProc(mounts []mount) error {
	if err := system.mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount a private /proc: %w", err)
	}
	for _, name := range []string{"bus", "fs", "irq", "sys", "sysrq-trigger"} {
		path := "/proc/" + name
		err := system.mount(path, path, "", unix.MS_BIND|unix.MS_REC, "")
		if errors.Is(err, unix.ENOENT) {
			continue
		} else if err != nil {
			return &os.PathError{Op: "mount", Path: path, Err: err}
		}
		if err := setMounts(path, unix.MOUNT_ATTR_RDONLY); err != nil {
			return err
		}
	}
	return coverProcs(mounts)
}

// coverProcs covers each proc file system that is mounted at another place than /proc:
// its files describe processes outside.
func coverProcs(mounts []mount) error {
	for _, m := range mounts {
		if _, ok := under(m.at, "/proc"); ok || m.kind != "proc" {
			continue
		}
		err := system.mount("tmpfs", m.at, "tmpfs", unix.MS_RDONLY, "mode=0555,size=4k,nr_inodes=1")
		if err != nil && !isUnreachable(err) {
			return &os.PathError{Op: "cover", Path: m.at, Err: err}
		}
	}
	return nil
}
