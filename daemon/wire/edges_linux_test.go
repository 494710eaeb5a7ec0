package wire

import (
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/daemon/wire/pb"
)

// openFiles returns the number of open files of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestDialsClose checks that probe, and a Dial that the server refuses, close
// their connections.
func TestDialsClose(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection closes files
	l, err := net.Listen("unix", socket(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	path := l.Addr().String()
	accept := func(answer *pb.ServerMessage) {
		nc, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		if answer == nil {
			return
		}
		c := NewConn(nc)
		if err := c.Read(new(pb.ClientMessage)); err != nil {
			t.Error(err)
		}
		if err := c.Write(answer); err != nil {
			t.Error(err)
		}
	}
	refusal := &pb.ServerMessage{Msg: &pb.ServerMessage_Error{Error: &pb.ErrorMsg{Code: 401, Message: "no"}}}
	before := openFiles(t)
	for range 3 {
		if err := probe(path); err != nil {
			t.Error(err)
		}
		accept(nil)
		done := make(chan bool)
		go func() { accept(refusal); close(done) }()
		c, err := Dial(t.Context(), Addr{Network: "unix", Address: path, Token: "token"})
		<-done
		if want := fmt.Sprintf("authenticate at unix:%s: refused: no", path); c != nil || err == nil || err.Error() != want {
			t.Errorf("Dial: %v, want %s", err, want)
		}
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d open files, %d before", after, before)
	}
}

// TestListenKeepsUmask checks the mask of the process after ListenUnix.
func TestListenKeepsUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	path := socket(t)
	l, err := ListenUnix(vfs.OS{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if mask := syscall.Umask(0o027); mask != 0o027 {
		t.Errorf("mask %04o", mask)
	}
	if fi, err := os.Lstat(path); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("socket: %v, %v", fi.Mode(), err)
	}
}

// TestUsersOfOtherUser checks which users may connect to a daemon of a user other
// than root.
func TestUsersOfOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can be another user")
	}
	if err := syscall.Seteuid(65534); err != nil {
		t.Fatal(err)
	}
	own := ownUID()
	may := fmt.Sprint(mayUse(0), mayUse(1), mayUse(65534), mayUse(65533))
	if err := syscall.Seteuid(0); err != nil {
		t.Fatal(err)
	}
	if own != 65534 || may != "true false true false" {
		t.Errorf("own user %d; users 0, 1, 65534, and 65533 may connect: %s", own, may)
	}
}

// TestMixedPeer connects from a loopback address to another address of this
// machine, and back. The user of such a peer is unknown.
func TestMixedPeer(t *testing.T) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Skip("SKIPPED:", err)
	}
	other := net.IP(nil)
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			other = n.IP
		}
	}
	if other == nil {
		t.Skip("SKIPPED: the machine has only loopback addresses")
	}
	local := net.IPv4(127, 0, 0, 1)
	for _, tt := range []struct{ from, to net.IP }{{local, other}, {other, local}, {other, other}} {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: tt.to})
		if err != nil {
			t.Skip("SKIPPED:", err)
		}
		nc, err := net.DialTCP("tcp", &net.TCPAddr{IP: tt.from}, l.Addr().(*net.TCPAddr))
		if err != nil {
			t.Logf("%v to %v: %v", tt.from, tt.to, err)
			l.Close()
			continue
		}
		there, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := peerOf(there), (Peer{Network: "tcp", Addr: nc.LocalAddr().String(), UID: -1}); got != want {
			t.Errorf("%v to %v: %+v, want %+v", tt.from, tt.to, got, want)
		}
		nc.Close()
		there.Close()
		l.Close()
	}
}

// TestFreshWithUnreadBytes checks a connection that has buffered bytes.
func TestFreshWithUnreadBytes(t *testing.T) {
	l, err := net.Listen("unix", socket(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nc, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := NewConn(nc)
	if c.w = 1; c.Fresh() {
		t.Error("a connection with unread bytes is fresh")
	}
	if c.r = 1; !c.Fresh() {
		t.Error("a connection without unread bytes is not fresh")
	}
}

// TestFindUIDSkips searches lines that contain the address only in later fields,
// before the line of the socket.
func TestFindUIDSkips(t *testing.T) {
	const from, to = "0100007F:C002", "0100007F:1A20"
	line := strings.Join([]string{"2:", from, to, "01", "0:0", "0:0", "0", "1001"}, " ")
	for _, other := range []string{"2: x " + to + " 01 0:0 0:0 0 7 " + from + " " + to + " 01 1", "2: " + from + " x 01 0:0 0:0 0 7 " + from + " " + to + " 01 1",
		"2: " + from + " " + to + " 02 0:0 0:0 0 7 " + from + " " + to + " 01 1", "2: x x 01 0:0 0:0 0 7 " + from + " " + to + " 01 1", "2: " + from + " " + to + " 01 7",
		"2: " + from + " " + to + " 01 0:0 0:0 0 x"} {
		for text, want := range map[string]int{other + "\n": -1, other + "\n" + line + "\n": 1001, line + "\n" + other + "\n": 1001} {
			if got := findUID(strings.NewReader(text), from, to); got != want {
				t.Errorf("user %d, want %d, of\n%s", got, want, text)
			}
		}
	}
}
