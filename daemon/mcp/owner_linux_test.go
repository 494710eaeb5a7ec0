package mcp

import (
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"crabmem/bench/gate"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/tool"
)

const sockets = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1A20 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0
   1: 0100007F:1A21 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 2 1 0 100 0 0 10 0
   2: 0100007F:1A20 0100007F:C002 01 00000000:00000000 00:00000000 00000000  1002        0 3 1 0 20 4 30 10 -1
   3: 00000000:1A20 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1003        0 4 1 0 100 0 0 10 0
   4: 0200007F:1A20 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1004        0 5 1 0 100 0 0 10 0
   5: 0100007F:1A20
   6: 00000000000000000000000000000000:1A20 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1005        0 6 1 0
   7: 0000000000000000FFFF00000100007F:1A20 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1006        0 7 1 0
   8: 00000000000000000000000001000000:1A20 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1007        0 8 1 0
`

func TestListeners(t *testing.T) {
	got, err := listeners(strings.NewReader(sockets), netip.MustParseAddrPort("127.0.0.1:6688"))
	if fmt.Sprint(got) != "[1000 1003 1005 1006]" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// TestOwner compares whether a port belongs to a user, by the tables of sockets.
func TestOwner(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("SKIPPED: the tables are of a little-endian machine")
	}
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	line := func(uid any) string {
		return fmt.Sprintf(head+"   0: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000 %5v        0 1 1 0\n", uid)
	}
	const stale, none, bad = "port 80 belongs to another user (8): the port file is stale", "port 80 has no listener", "strconv.ParseUint: parsing"
	for i, tt := range []struct {
		four, six, fails string // no text: no table
		err              error
		want             string
	}{
		{want: "<nil>"}, {four: head, want: none}, {six: head, want: none}, {four: line(7), want: "<nil>"}, {six: line(0), want: "<nil>"}, {four: line(8), want: stale},
		{four: line(7), six: line(8), want: stale}, {four: head, six: line(7), want: "<nil>"}, {four: line("x"), want: bad}, {four: line(-1), want: bad}, {four: line(int64(1 << 32)), want: bad}, {six: strings.Repeat("x", 1<<16), want: "token too long"},
		{four: "0: 0100007F:0050 0:0 0A 0:0 0:0 0 7\n", want: "<nil>"}, {four: "0: 0100007F:0050 0:0 0A 0:0 0:0 8\n", want: none},
		{four: line(8), six: line(7), fails: "open", err: fs.ErrPermission, want: "<nil>"}, {four: line(8), fails: "open", err: io.ErrUnexpectedEOF, want: "unexpected EOF"}, {four: line(7), fails: "read", err: fs.ErrPermission, want: "/proc/net/tcp: read"}, {four: line(7), fails: "close", err: io.ErrUnexpectedEOF, want: "<nil>"},
	} {
		fsys := faultfs.NewMem()
		if err := vfs.MkdirAll(fsys, "/proc/net", 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"tcp": tt.four, "tcp6": tt.six} {
			if text != "" {
				fsys.WriteFile("/proc/net/"+name, []byte(text), 0o600)
			}
		}
		open := 0
		fsys.Hook = func(c faultfs.Call) error {
			switch {
			case c.Op == tt.fails && c.Name == "/proc/net/tcp":
				open -= map[string]int{"close": 1}[c.Op]
				return tt.err
			case c.Op == "open" && (c.Name == "/proc/net/tcp" && tt.four != "" || c.Name == "/proc/net/tcp6" && tt.six != ""):
				open++
			case c.Op == "close":
				open--
			}
			return nil
		}
		if err := checkListener(fsys, 7, netip.MustParseAddrPort("127.0.0.1:80")); !strings.Contains(fmt.Sprint(err), tt.want) || open != 0 {
			t.Errorf("tables %d: %v, %d open, want %s", i, err, open, tt.want)
		}
	}
}

// TestStalePort: a component was killed, and another user has its port now.
func TestStalePort(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can be another user")
	}
	type listening struct {
		l   net.Listener
		err error
	}
	done := make(chan listening)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0)); errno != 0 {
			done <- listening{err: errno}
			return
		}
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		done <- listening{l, err}
	}()
	other := <-done
	if other.err != nil {
		t.Fatal(other.err)
	}
	var asked atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) })}
	served := make(chan error)
	go func() { served <- server.Serve(other.l) }()
	defer func() { server.Close(); <-served }()

	s := manager(t)
	port := other.l.Addr().(*net.TCPAddr).Port
	if err := os.WriteFile(filepath.Join(s.home(), "run", "search.port"), fmt.Append(nil, port), 0o600); err != nil {
		t.Fatal(err)
	}
	gate.Until(t, "the server to be given up", func() bool {
		s.scan()
		list := s.servers()
		return len(list) == 1 && list[0].settled()
	})
	if text, err := s.call(tool.Unbounded(), "", ""); text != "no tools found" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	s.Close() // no request is pending after it
	if n := asked.Load(); n != 0 {
		t.Errorf("the program of another user received %d requests", n)
	}
}
