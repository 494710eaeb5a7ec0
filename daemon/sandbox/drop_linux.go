package sandbox

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// drop removes every capability in its namespaces from this thread and the
// processes it starts, prevents them from gaining others, and denies them Unix
// sockets, or all sockets.
func drop(allSockets bool) error {
	const noRoot = 1<<0 | 1<<1 | 1<<2 | 1<<3 // SECBIT_NOROOT, SECBIT_NO_SETUID_FIXUP, each with its lock
	for _, p := range []struct {
		name   string
		option int
		arg    uintptr
	}{
		{"PR_SET_SECUREBITS", unix.PR_SET_SECUREBITS, noRoot},
		{"PR_SET_NO_NEW_PRIVS", unix.PR_SET_NO_NEW_PRIVS, 1},
		// The command must not read process 1, which has older threads.
		{"PR_SET_DUMPABLE", unix.PR_SET_DUMPABLE, 0},
	} {
		if err := system.prctl(p.option, p.arg, 0, 0, 0); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if err := system.prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("PR_CAP_AMBIENT: %w", err)
	}
	for c := uintptr(0); ; c++ {
		err := system.prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) && c > 0 {
			break // c is after the last capability
		} else if err != nil {
			return fmt.Errorf("PR_CAPBSET_DROP %d: %w", c, err)
		}
	}
	var none [2]unix.CapUserData
	if err := system.capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	filter, err := socketFilter(runtime.GOARCH, allSockets)
	if err != nil {
		return err
	}
	if err := system.setFilter(filter); err != nil {
		return fmt.Errorf("PR_SET_SECCOMP: %w", err)
	}
	return nil
}

// socketFilter returns a filter for an architecture that denies Unix sockets
// except connected pairs, or all sockets except pairs. It also denies io_uring, which bypasses filters, and
// system calls of other architectures, which have other numbers.
func socketFilter(goarch string, all bool) ([]unix.SockFilter, error) {
	arch, ok := map[string]uint32{
		"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64, "riscv64": unix.AUDIT_ARCH_RISCV64,
	}[goarch]
	if !ok {
		return nil, fmt.Errorf("no filter of system calls for %s", goarch)
	}
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		above = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K

		// struct seccomp_data, of little-endian machines
		offNr, offArch, offArg0 = 0, 4, 16

		x32 = 0x40000000 // the bit of amd64's other numbers; too large for any call elsewhere
	)
	family := unix.SockFilter{Code: equal, K: unix.AF_UNIX, Jt: 2} // → no such family
	if all {
		family = unix.SockFilter{Code: above, K: 0, Jt: 2}
	}
	return []unix.SockFilter{
		{Code: load, K: offArch},
		{Code: equal, K: arch, Jf: 7}, // → no such call
		{Code: load, K: offNr},
		{Code: above, K: x32, Jt: 5},                             // → no such call
		{Code: equal, K: uint32(unix.SYS_IO_URING_SETUP), Jt: 4}, // → no such call
		{Code: equal, K: uint32(unix.SYS_SOCKET), Jf: 2},         // → allowed
		{Code: load, K: offArg0},
		family,
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
	}, nil
}
