package mcp

import (
	"fmt"
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
	until(t, "the server to be given up", func() bool {
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
