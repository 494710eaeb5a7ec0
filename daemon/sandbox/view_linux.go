package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"crabmem/crmem/vfs"

	"golang.org/x/sys/unix"
)

// A view is a root directory that contains, read-only:
//
//	/usr/bin, /lib …    system programs, libraries, and data
//	/etc                files that libraries need, and an account for the user
//	/dev/null
//	/home, /tmp         empty
//	the directory of the command, without the hidden paths
//
// It has no /proc and no /sys. A program may use maxData of memory.

// systemDirs are the directories of programs and libraries. They do not contain
// /usr/local, /usr/src, and others in /usr, in which people keep their files. On most
// systems, those outside /usr are links to them.
var systemDirs = []string{"/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/libx32", "/usr/sbin", "/usr/share",
	"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"}

// maxData is the limit of memory of a program, in bytes: a pattern of grep may need
// all memory of the machine.
const maxData = 512 << 20

// systemFiles are the files that the loaders of the C libraries, and their time
// zones, need.
var systemFiles = []string{"/etc/ld.so.cache", "/etc/localtime"}

const tmpfsFlags = unix.MS_NOSUID | unix.MS_NODEV

// setView sets the view of a job to a directory. It returns an error for one that a
// hidden directory contains, and for a link, which may have replaced the directory.
func (j *job) setView(dir string) error {
	dirs, err := resolved(vfs.OS{}, []string{dir})
	if err != nil {
		return err
	}
	if len(dirs) == 0 || dirs[0] == "/" || dirs[0] != filepath.Clean(dir) {
		return &os.PathError{Op: "view", Path: dir, Err: os.ErrPermission}
	}
	j.View = dirs[0]
	for _, h := range j.Hidden {
		if _, ok := under(j.View, h); ok {
			return fmt.Errorf("view %s: it is in the hidden directory %s", dir, h)
		}
	}
	j.User = "user"
	if u, err := user.Current(); err == nil && u.Username != "" {
		j.User = u.Username
	}
	return nil
}

// A part is a file, directory, or link of a view.
type part struct {
	path string
	dir  bool
	fd   int    // detached mount
	link string // target; then there is no mount
}

// enterView makes a view the root directory of this process. It covers the hidden
// paths that the view contains.
func enterView(j *job, covers []cover, mounts []mount) error {
	parts, err := cloneParts(j.View)
	if err != nil {
		return err
	}
	const base = "/proc" // any directory that exists everywhere
	if err := system.mount("tmpfs", base, "tmpfs", tmpfsFlags, "mode=0755,size=1m"); err != nil {
		return &os.PathError{Op: "mount", Path: base, Err: err}
	}
	if err := system.pivotRoot(base); err != nil {
		return &os.PathError{Op: "pivot_root", Path: base, Err: err}
	}
	for _, dir := range []string{"/dev", "/etc", "/home", "/tmp"} {
		if err := makeDirs(dir); err != nil {
			return err
		}
	}
	if err := writeAccounts(j.User); err != nil { // before a part may be mounted over /etc
		return err
	}
	for _, p := range parts {
		if err := p.attach(); err != nil {
			return err
		}
	}
	if err := setMounts("/", unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID); err != nil {
		return err
	}
	if err := setMounts(j.View, unix.MOUNT_ATTR_NOEXEC); err != nil {
		return err
	}
	if err := allowDevice("/dev/null"); err != nil {
		return err
	}
	if err := coverProcs(mounts); err != nil {
		return err
	}
	for _, c := range covers {
		if identityOf(c.path) == (identity{}) {
			continue // not in the view
		}
		if err := c.hide(covers); err != nil {
			return err
		}
	}
	return nil
}

// cloneParts returns the parts of a view that exist on the machine, the directory
// of the command last.
func cloneParts(view string) ([]part, error) {
	files := append(slices.Clone(systemFiles), "/etc/ld-musl-"+machineName()+".path", "/dev/null")
	var parts []part
	for _, path := range slices.Concat(systemDirs, files, []string{view}) {
		s, err := statx(path)
		if isUnreachable(err) && path != view {
			continue
		} else if err != nil {
			return nil, &os.PathError{Op: "statx", Path: path, Err: err}
		}
		p := part{path: path, dir: s.Mode&unix.S_IFMT == unix.S_IFDIR}
		if s.Mode&unix.S_IFMT == unix.S_IFLNK {
			p.link, err = system.readlink(path)
		} else {
			p.fd, err = system.openTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		}
		if err != nil {
			return nil, &os.PathError{Op: "clone", Path: path, Err: err}
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// machineName returns the name of the architecture in names of files of musl.
func machineName() string {
	if name, ok := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]; ok {
		return name
	}
	return runtime.GOARCH
}

// attach adds a part to the root directory.
func (p *part) attach() error {
	if err := makeDirs(filepath.Dir(p.path)); err != nil {
		return err
	}
	var err error
	switch {
	case p.link != "":
		if err := system.symlink(p.link, p.path); err != nil {
			return &os.PathError{Op: "symlink", Path: p.path, Err: err}
		}
		return nil
	case p.dir:
		err = makeDirs(p.path)
	default:
		err = system.mknod(p.path, unix.S_IFREG|0o644, 0)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "create", Path: p.path, Err: err}
	}
	if err := system.moveMount(p.fd, "", unix.AT_FDCWD, p.path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return &os.PathError{Op: "move_mount", Path: p.path, Err: err}
	}
	return system.close(p.fd)
}

// makeDirs creates a directory and its parents.
func makeDirs(path string) error {
	if path == "/" || identityOf(path) != (identity{}) {
		return nil
	}
	if err := makeDirs(filepath.Dir(path)); err != nil {
		return err
	}
	if err := system.mkdir(path, 0o755); err != nil {
		return &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return nil
}

// writeAccounts creates the files that map numbers of users and groups to names. A
// lookup asks no service.
func writeAccounts(name string) error {
	users, groups := "root:x:0:0:root:/home:/bin/sh\n", "root:x:0:\n"
	if uid, gid := strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Getegid()); uid != "0" {
		users += name + ":x:" + uid + ":" + gid + "::/home:/bin/sh\n"
		groups += name + ":x:" + gid + ":\n"
	}
	users += "nobody:x:65534:65534::/home:/bin/sh\n"
	groups += "nogroup:x:65534:\n"
	for _, f := range [][2]string{{"/etc/passwd", users}, {"/etc/group", groups}, {"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"}} {
		if err := system.writeFile(f[0], f[1]); err != nil {
			return &os.PathError{Op: "write", Path: f[0], Err: err}
		}
	}
	return nil
}

// allowDevice permits the use of a device that is its own mount.
func allowDevice(path string) error {
	err := system.mountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_NODEV})
	if err != nil {
		return &os.PathError{Op: "mount_setattr", Path: path, Err: err}
	}
	return nil
}

// limitData limits the memory of this process and the processes that it starts.
func limitData() error {
	var r unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_DATA, &r)
	if err == nil {
		r.Cur, r.Max = min(r.Cur, maxData), min(r.Max, maxData)
		err = unix.Setrlimit(unix.RLIMIT_DATA, &r)
	}
	if err != nil {
		return fmt.Errorf("limit memory: %w", err)
	}
	return nil
}
