package sandbox_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attack runs the part of an attack that a shell cannot do. The tests' program
// calls it when a command of an attack runs it.
func attack(what string, args []string) {
	err := fmt.Errorf("no attack is called %q", what)
	switch what {
	case "connect": // to a Unix socket, at a path or @abstract
		var c net.Conn
		if c, err = net.Dial("unix", args[0]); err == nil {
			fmt.Fprintln(c, "it was me")
			io.Copy(os.Stdout, c)
		}
	case "ring": // creates a ring, whose operations bypass the filter
		params := make([]byte, 256)
		_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params[0])), 0)
		err = errno
		if errno == 0 {
			fmt.Println("MADE")
		}
	case "trace":
		pid, _ := strconv.Atoi(args[0])
		if err = unix.PtraceSeize(pid); err == nil {
			fmt.Println("MADE")
		}
	case "memory": // of another process, the pages at an address
		pid, _ := strconv.Atoi(args[0])
		at, _ := strconv.ParseUint(args[1], 0, 64)
		b := make([]byte, 64)
		_, err = unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: 64}}, []unix.RemoteIovec{{Base: uintptr(at), Len: 64}}, 0)
		os.Stdout.Write(b)
	case "handle": // opens a file by its handle on the file system of a directory
		var dir, fd int
		if dir, err = unix.Open(args[0], unix.O_RDONLY, 0); err != nil {
			break
		}
		kind, _ := strconv.Atoi(args[1])
		var b []byte
		fmt.Sscanf(args[2], "%x", &b)
		if fd, err = unix.OpenByHandleAt(dir, unix.NewFileHandle(int32(kind), b), unix.O_RDONLY); err == nil {
			io.Copy(os.Stdout, os.NewFile(uintptr(fd), "handle"))
		}
	case "mounts": // attempts of a private namespace: hidden path, its home, a directory to use
		mounts(args[0], args[1], args[2])
	case "devices": // makes the node of the disk and reads it
		var st unix.Stat_t
		if err = unix.Stat(args[0], &st); err != nil {
			break
		}
		node := args[1] + "/node"
		if err = unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(uint32(unix.Major(st.Dev)), uint32(unix.Minor(st.Dev))))); err == nil {
			var f *os.File
			if f, err = os.Open(node); err == nil {
				fmt.Println("MADE")
				f.Close()
			}
			os.Remove(node)
		}
	}
	fmt.Fprintln(os.Stderr, strings.Join(append([]string{what}, args...), " "), err)
}

// mounts tries to see a covered directory through system calls.
func mounts(hidden, home, use string) {
	below := strings.TrimPrefix(hidden, home)
	show := func(name string) {
		if b, err := os.ReadFile(name); err == nil {
			fmt.Printf("%s\n", b)
		}
	}
	succeeded := func(what string, err error) bool {
		fmt.Fprintln(os.Stderr, what, err)
		return err == nil
	}
	succeeded("private", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	succeeded("slave", unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""))
	for _, attr := range []uint64{unix.MOUNT_ATTR_RDONLY, unix.MOUNT_ATTR_NODEV, unix.MOUNT_ATTR_NOSUID} {
		for _, name := range []string{hidden, "/", "/proc/sys", "/sys"} {
			succeeded(fmt.Sprint("clear ", attr, " of ", name), unix.MountSetattr(unix.AT_FDCWD, name, 0, &unix.MountAttr{Attr_clr: attr}))
		}
	}
	os.WriteFile(hidden+"/new", nil, 0o600)
	if os.WriteFile("/proc/sys/vm/laptop_mode", []byte("0"), 0) == nil {
		fmt.Println("MADE")
	}
	for _, name := range []string{home, "/", filepath.Dir(hidden)} {
		if succeeded("bind "+name, unix.Mount(name, use, "", unix.MS_BIND, "")) {
			show(use + below + "/secret")
			show(use + hidden + "/secret")
			show(use + "/data/secret")
			unix.Unmount(use, unix.MNT_DETACH)
		}
		for _, flags := range []uint{unix.OPEN_TREE_CLONE, unix.OPEN_TREE_CLONE | unix.AT_RECURSIVE} {
			fd, err := unix.OpenTree(unix.AT_FDCWD, name, flags)
			if succeeded(fmt.Sprint("open_tree ", flags, " ", name), err) {
				at := fmt.Sprint("/proc/self/fd/", fd)
				show(at + below + "/secret")
				show(at + hidden + "/secret")
				for _, d := range []string{below, hidden, "/data"} {
					succeeded("umount there", unix.Unmount(at+d, unix.MNT_DETACH))
					show(at + d + "/secret")
				}
			}
		}
		if succeeded("rbind "+name, unix.Mount(name, use, "", unix.MS_BIND|unix.MS_REC, "")) {
			for _, d := range []string{use + below, use + hidden, use + "/data"} {
				succeeded("umount "+d, unix.Unmount(d, unix.MNT_DETACH))
				succeeded("umount "+d, unix.Unmount(d, 0))
				show(d + "/secret")
			}
			unix.Unmount(use, unix.MNT_DETACH)
		}
	}
	if succeeded("overlay", unix.Mount("o", use, "overlay", 0, "lowerdir="+filepath.Dir(hidden)+":"+home+"/work")) {
		show(use + "/data/secret")
		unix.Unmount(use, unix.MNT_DETACH)
	}
	succeeded("move", unix.Mount(hidden, use, "", unix.MS_MOVE, ""))
	succeeded("rename", os.Rename(hidden, home+"/elsewhere"))
	succeeded("rename", os.Rename(filepath.Dir(hidden), home+"/elsewhere"))
	for _, flags := range []int{0, unix.MNT_DETACH, unix.MNT_FORCE, unix.MNT_EXPIRE, unix.MNT_EXPIRE} {
		succeeded("umount", unix.Unmount(hidden, flags))
	}
	show(hidden + "/secret")
	if succeeded("tmpfs", unix.Mount("t", use, "tmpfs", 0, "")) {
		os.Mkdir(use+"/old", 0o700)
		succeeded("pivot", unix.PivotRoot(use, use+"/old"))
		show("/old" + hidden + "/secret")
		succeeded("umount", unix.Unmount("/old"+hidden, unix.MNT_DETACH))
		show("/old" + hidden + "/secret")
	}
}
