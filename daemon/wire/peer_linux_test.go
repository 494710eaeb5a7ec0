package wire

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/wire/pb"
)

const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1A20 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0
   1: 0100007F:C001 0100007F:1A20 06 00000000:00000000 00:00000000 00000000     0        0 0 3 0
   2: 0100007F:C002 0100007F:1A20 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0 20 4 30 10 -1
   3: 0100007F:1A20 0100007F:C002 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0 20 4 30 10 -1
   4: 0100007F:C003 0100007F:1A20 04 00000000:00000000 00:00000000 00000000     0        0 0 1 0
   5: 0100007F:C004
`

func TestFindUID(t *testing.T) {
	local := netip.MustParseAddrPort("127.0.0.1:6688")
	for port, want := range map[uint16]int{0xC001: -1, 0xC002: 1001, 0xC003: -1, 0xC004: -1, 0xC005: -1} {
		remote := netip.AddrPortFrom(local.Addr(), port)
		if got := findUID(strings.NewReader(table), procAddr(remote, false), procAddr(local, false)); got != want {
			t.Errorf("port %x: user %d, want %d", port, got, want)
		}
	}
	for a, want := range map[string]string{
		"[::1]:6688":     "00000000000000000000000001000000:1A20",
		"127.0.0.1:6688": "0000000000000000FFFF00000100007F:1A20",
	} {
		if got := procAddr(netip.MustParseAddrPort(a), true); got != want {
			t.Errorf("%s: %s, want %s", a, got, want)
		}
	}
}

// TestOtherUser connects as another user, in another process: this test again.
func TestOtherUser(t *testing.T) {
	if a := os.Getenv("CRABMEM_TEST_DIAL"); a != "" {
		network, address, _ := strings.Cut(a, ":")
		c := dial(t, Addr{Network: network, Address: address})
		_ = c.Write(&pb.ClientMessage{Msg: &pb.ClientMessage_Ping{Ping: &pb.Ping{}}}) // the answer may be there already
		t.Logf("answer %v", answer(t, c))
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can be another user")
	}
	path := socket(t)
	dir := filepath.Dir(path)
	l, err := ListenUnix(vfs.OS{}, path)
	if err != nil {
		t.Fatal(err)
	}
	requests := 0
	s := &Server{Token: "secret"}
	s.Handler = func(_ context.Context, _ *pb.ClientMessage, send func(*pb.ServerMessage) error) {
		requests++
		_ = send(pong())
	}
	serveOn(t, s, l)
	tcp, err := ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, s, tcp)
	// The directory keeps others out by itself: it is opened to show that it is
	// not all that does.
	for name, mode := range map[string]os.FileMode{dir: 0o711, path: 0o777} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	self := filepath.Join(dir, "self")
	b, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(self, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{"unix:" + path, "tcp:" + tcp.Addr().String()} {
		for uid, want := range map[uint32]string{0: "pong:{}", 65534: "authenticate: this daemon accepts only user 0 and root, but you are user 65534"} {
			cmd := exec.Command(self, "-test.run=TestOtherUser", "-test.v")
			cmd.Env = []string{"CRABMEM_TEST_DIAL=" + a}
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
			out, err := cmd.CombinedOutput()
			if !strings.Contains(string(out), want) {
				t.Errorf("user %d at %s: %v\n%s", uid, a, err, out)
			}
		}
	}
	if requests != 2 {
		t.Errorf("%d requests, want 2 of root", requests)
	}
}

// TestFindUIDFields changes each field of a line of the table.
func TestFindUIDFields(t *testing.T) {
	line := "2: 0100007F:C002 0100007F:1A20 01 00000000:00000000 00:00000000 00000000 1001"
	find := func(line string) int {
		return findUID(strings.NewReader("header\n"+line+"\n"), "0100007F:C002", "0100007F:1A20")
	}
	fields := strings.Fields(line)
	for i := range fields {
		changed := append([]string(nil), fields...)
		changed[i] = "x"
		want := 1001
		if i > 0 && i < 4 || i == 7 {
			want = -1
		}
		if got := find(strings.Join(changed, " ")); got != want {
			t.Errorf("field %d changed: user %d, want %d", i, got, want)
		}
		// What the search looks for is in a later field.
		if got := find(strings.Join(fields[:i], " ") + " x " + strings.Join(fields[1:], " ")); i > 0 && i < 4 && got != -1 {
			t.Errorf("fields moved by %d: user %d", i, got)
		}
		if got := find(strings.Join(fields[:i], " ")); got != -1 {
			t.Errorf("%d fields: user %d", i, got)
		}
	}
	if got := find(line + " 0 1"); got != 1001 {
		t.Errorf("more fields: user %d", got)
	}
	if got := find(line); got != 1001 {
		t.Errorf("eight fields: user %d", got)
	}
	for uid, want := range map[string]int{"0": 0, "2147483647": 1<<31 - 1, "2147483648": -1, "-1": -1} {
		if got := find(strings.TrimSuffix(line, "1001") + uid); got != want {
			t.Errorf("user %s: %d, want %d", uid, got, want)
		}
	}
}

// TestUnknownPeer asks for the users of connections that do not have one.
func TestUnknownPeer(t *testing.T) {
	if got := unixUID(new(net.UnixConn)); got != -1 {
		t.Errorf("no connection: user %d", got)
	}
	l, err := net.Listen("unix", socket(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nc, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if got := unixUID(nc.(*net.UnixConn)); got != os.Geteuid() {
		t.Errorf("user %d", got)
	}
	nc.Close()
	if got := unixUID(nc.(*net.UnixConn)); got != -1 {
		t.Errorf("closed: user %d", got)
	}
	if quiet(nc) || quiet(new(net.UnixConn)) || quiet(&deadlineConn{}) {
		t.Error("a closed connection is open")
	}
	for _, a := range [][2]string{{"127.0.0.1:1", "127.0.0.1:2"}, {"[::1]:1", "[::1]:2"}, {"[::ffff:127.0.0.1]:1", "127.0.0.1:2"}} {
		if got := loopbackUID(netip.MustParseAddrPort(a[0]), netip.MustParseAddrPort(a[1])); got != -1 {
			t.Errorf("%s to %s: user %d", a[0], a[1], got)
		}
	}
}

// TestLoopbackPeer identifies the user of TCP connections of each family.
func TestLoopbackPeer(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("no %s: %v", address, err)
			continue
		}
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		there, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := peerOf(there), (Peer{Network: "tcp", Addr: nc.LocalAddr().String(), UID: os.Geteuid()}); got != want {
			t.Errorf("%s: %+v, want %+v", address, got, want)
		}
		nc.Close()
		there.Close()
		l.Close()
	}
}

// TestSocketUID searches the tables of both families. Either may be missing.
func TestSocketUID(t *testing.T) {
	const line = " 0: %s %s 01 0:0 0:0 0 %d\n"
	own, peer := netip.MustParseAddrPort("127.0.0.1:6688"), netip.MustParseAddrPort("127.0.0.1:50000")
	own6, peer6 := netip.MustParseAddrPort("[::1]:6688"), netip.MustParseAddrPort("[::1]:50000")
	entry := func(remote, local netip.AddrPort, wide bool, uid int) string {
		return fmt.Sprintf(line, procAddr(remote, wide), procAddr(local, wide), uid)
	}
	for _, tt := range []struct {
		name          string
		tcp, tcp6     string // "-" = no file
		local, remote netip.AddrPort
		want          int
	}{
		{"narrow", entry(peer, own, false, 5), "-", own, peer, 5}, {"no narrow table", "-", entry(peer, own, true, 6), own, peer, 6},
		{"only in the wide table", entry(own, peer, false, 5), entry(peer, own, true, 0), own, peer, 0}, {"both", entry(peer, own, false, 0), entry(peer, own, true, 6), own, peer, 0},
		{"wide", "-", entry(peer6, own6, true, 7), own6, peer6, 7}, {"none", "-", "-", own, peer, -1}, {"other sockets", entry(own, peer, false, 5), entry(peer6, own6, true, 7), own, peer, -1},
		{"wide address", entry(peer6, own6, false, 5), "-", own6, peer6, -1}, {"one wide address", fmt.Sprintf(line, procAddr(peer6, false), procAddr(own, false), 5), "", own, peer6, -1},
		{"the other wide address", fmt.Sprintf(line, procAddr(peer, false), procAddr(own6, false), 5), "", own6, peer, -1},
		{"mapped address", entry(peer, own, false, 8), "-", netip.MustParseAddrPort("[::ffff:127.0.0.1]:6688"), peer, 8},
	} {
		m := faultfs.NewMem()
		for _, dir := range []string{"/proc", "/proc/net"} {
			if err := m.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for name, text := range map[string]string{"tcp": tt.tcp, "tcp6": tt.tcp6} {
			if text != "-" {
				m.WriteFile("/proc/net/"+name, []byte(text), 0o444)
			}
		}
		closed := 0
		m.Hook = func(c faultfs.Call) error {
			switch c.Op {
			case "open":
				closed--
			case "close":
				closed++
			}
			return nil
		}
		if got := socketUID(m, tt.local, tt.remote); got != tt.want {
			t.Errorf("%s: user %d, want %d", tt.name, got, tt.want)
		}
		if missing := strings.Count(tt.tcp+tt.tcp6, "-"); closed < -missing {
			t.Errorf("%s: %d files are open", tt.name, -closed)
		}
	}
}
