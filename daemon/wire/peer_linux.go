package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"crabmem/crmem/vfs"

	"golang.org/x/sys/unix"
)

func unixUID(c *net.UnixConn) int {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1
	}
	uid := -1
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = int(cred.Uid)
		}
	})
	return uid
}

// loopbackUID returns the user of the peer's end of a connection, from the
// table of this machine's sockets.
func loopbackUID(local, remote netip.AddrPort) int {
	return socketUID(vfs.OS{}, local, remote)
}

func socketUID(fsys vfs.FS, local, remote netip.AddrPort) int {
	for _, t := range []struct {
		file string
		wide bool
	}{{"/proc/net/tcp", false}, {"/proc/net/tcp6", true}} {
		if !t.wide && !(local.Addr().Unmap().Is4() && remote.Addr().Unmap().Is4()) {
			continue
		}
		f, err := fsys.Open(t.file)
		if err != nil {
			continue
		}
		uid := findUID(f, procAddr(remote, t.wide), procAddr(local, t.wide))
		f.Close()
		if uid >= 0 {
			return uid
		}
	}
	return -1
}

// findUID reads a table of sockets. The owner is valid only for an
// established socket: the system reports 0 for sockets that are closed.
func findUID(table io.Reader, from, to string) int {
	const established = "01"
	want := []byte(from + " " + to + " " + established + " ")
	for in := bufio.NewScanner(table); in.Scan(); {
		if !bytes.Contains(in.Bytes(), want) {
			continue // most are
		}
		f := strings.Fields(in.Text())
		if len(f) < 8 || f[1] != from || f[2] != to || f[3] != established {
			continue
		}
		if uid, err := strconv.ParseUint(f[7], 10, 31); err == nil {
			return int(uid)
		}
	}
	return -1
}

// procAddr writes an address as the tables have it: words of the machine's byte
// order, in hexadecimal.
func procAddr(a netip.AddrPort, wide bool) string {
	ip := a.Addr().Unmap().AsSlice()
	if wide {
		b := a.Addr().As16()
		ip = b[:]
	}
	var s strings.Builder
	for ; len(ip) >= 4; ip = ip[4:] {
		fmt.Fprintf(&s, "%08X", binary.NativeEndian.Uint32(ip))
	}
	fmt.Fprintf(&s, ":%04X", a.Port())
	return s.String()
}
