//go:build !linux && !darwin

package wire

import (
	"net"
	"net/netip"
)

func unixUID(*net.UnixConn) int { return -1 }

func loopbackUID(local, remote netip.AddrPort) int { return -1 }
