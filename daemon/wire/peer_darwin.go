package wire

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

func unixUID(c *net.UnixConn) int {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1
	}
	uid := -1
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED); err == nil {
			uid = int(cred.Uid)
		}
	})
	return uid
}

func loopbackUID(local, remote netip.AddrPort) int { return -1 }
