package mcp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"crabmem/crmem/vfs"
)

// checkOwner returns an error unless the user, or root, listens on a port of
// this machine. The tables of sockets are looked at after the connection is
// made: the process that accepted it still listens. If the tables are not
// readable, the owner is unknown.
func checkOwner(a netip.AddrPort) error { return checkListener(vfs.OS{}, os.Geteuid(), a) }

func checkListener(fsys vfs.FS, user int, a netip.AddrPort) error {
	found, read := false, false
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := fsys.Open(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		} else if err != nil {
			return err
		}
		uids, err := listeners(f, a)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		read = true
		for _, uid := range uids {
			if found = true; uid != 0 && uid != user {
				return fmt.Errorf("port %d belongs to another user (%d): the port file is stale", a.Port(), uid)
			}
		}
	}
	if read && !found {
		return fmt.Errorf("port %d has no listener", a.Port())
	}
	return nil
}

// listeners returns the owners of the sockets in a table that listen on an
// address.
func listeners(table io.Reader, a netip.AddrPort) ([]int, error) {
	const listen = "0A"
	port := fmt.Sprintf("%04X", a.Port())
	v4 := a.Addr().As4()
	word := fmt.Sprintf("%08X", binary.NativeEndian.Uint32(v4[:]))
	mapped := fmt.Sprintf("%016X%08X", 0, binary.NativeEndian.Uint32([]byte{0, 0, 0xff, 0xff}))
	var uids []int
	in := bufio.NewScanner(table)
	for in.Scan() {
		f := strings.Fields(in.Text())
		if len(f) < 8 || f[3] != listen {
			continue
		}
		addr, p, _ := strings.Cut(f[1], ":")
		if p != port || addr != word && addr != mapped+word && strings.Trim(addr, "0") != "" {
			continue
		}
		uid, err := strconv.ParseUint(f[7], 10, 32)
		if err != nil {
			return nil, err
		}
		uids = append(uids, int(uid))
	}
	return uids, in.Err()
}
