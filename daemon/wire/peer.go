package wire

import "net"

// peerOf identifies the peer of an accepted connection.
func peerOf(nc net.Conn) Peer {
	p := Peer{Network: nc.LocalAddr().Network(), Addr: nc.RemoteAddr().String(), UID: -1}
	switch c := nc.(type) {
	case *net.UnixConn:
		p.UID = unixUID(c)
	case *net.TCPConn:
		local, lok := c.LocalAddr().(*net.TCPAddr)
		remote, rok := c.RemoteAddr().(*net.TCPAddr)
		if lok && rok && local.IP.IsLoopback() && remote.IP.IsLoopback() {
			p.UID = loopbackUID(local.AddrPort(), remote.AddrPort())
		}
	}
	return p
}
