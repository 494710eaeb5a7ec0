//go:build !unix

package wire

import "net"

func quiet(net.Conn) bool { return false }
