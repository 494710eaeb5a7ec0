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

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/daemon/tool"
	"crabmem/fuzz/golden"
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

// TestReportsOfOwners compares whether a port belongs to a user, for tables of
// sockets, and if one cannot be read.
func TestReportsOfOwners(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	line := func(addr, state string, uid any) string {
		return fmt.Sprintf("   0: %s 00000000:0000 %s 00000000:00000000 00:00000000 00000000 %5v        0 1 1 0\n", addr, state, uid)
	}
	tables := map[string]string{
		"": "-", "empty": "", "head": head, "own": head + line("0100007F:0050", "0A", 7), "root": head + line("0100007F:0050", "0A", 0), "other": head + line("0100007F:0050", "0A", 8),
		"own, then other": head + line("0100007F:0050", "0A", 7) + line("00000000:0050", "0A", 8), "established": head + line("0100007F:0050", "01", 8), "another port": head + line("0100007F:0051", "0A", 8),
		"another address": head + line("0200007F:0050", "0A", 8), "any address": head + line("00000000:0050", "0A", 8), "any address of 6": head + line(strings.Repeat("0", 32)+":0050", "0A", 8),
		"mapped": head + line("0000000000000000FFFF00000100007F:0050", "0A", 8), "mapped, another": head + line("0000000000000000FFFF00000200007F:0050", "0A", 8), "no user": head + line("0100007F:0050", "0A", "x"),
		"a negative user": head + line("0100007F:0050", "0A", -1), "a large user": head + line("0100007F:0050", "0A", int64(1<<32)), "the largest user": head + line("0100007F:0050", "0A", int64(1<<32-1)),
		"eight fields": "0: 0100007F:0050 0:0 0A 0:0 0:0 0 7\n", "seven fields": "0: 0100007F:0050 0:0 0A 0:0 0:0 8\n", "a long line": strings.Repeat("x", 1<<16),
	}
	var r golden.Reports
	check := func(title, four, six string, hook func(faultfs.Call) error) {
		fsys := faultfs.NewMem()
		if err := vfs.MkdirAll(fsys, "/proc/net", 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"tcp": four, "tcp6": six} {
			if text != "-" {
				fsys.WriteFile("/proc/net/"+name, []byte(text), 0o600)
			}
		}
		opened, closed := 0, 0
		fsys.Hook = func(c faultfs.Call) error {
			var err error
			if hook != nil {
				err = hook(c)
			}
			if c.Op == "open" && err == nil && (c.Name == "/proc/net/tcp" && four != "-" || c.Name == "/proc/net/tcp6" && six != "-") {
				opened++
			} else if c.Op == "close" {
				closed++
			}
			return err
		}
		err := checkListener(fsys, 7, netip.MustParseAddrPort("127.0.0.1:80"))
		r.Addf(title, "%v", err)
		if opened != closed {
			t.Errorf("%s: %d tables opened, %d closed", title, opened, closed)
		}
	}
	for _, four := range sortedKeys(tables) {
		for _, six := range []string{"", "head", "own", "other", "any address of 6", "mapped", "no user"} {
			check(fmt.Sprintf("tcp %q, tcp6 %q", four, six), tables[four], tables[six], nil)
		}
	}
	for _, op := range []string{"open", "read", "close"} {
		for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			for _, err := range []error{fs.ErrNotExist, fs.ErrPermission, io.ErrUnexpectedEOF} {
				check(fmt.Sprintf("%s of %s fails: %v", op, name, err), tables["own"], tables["own"], func(c faultfs.Call) error {
					if c.Op == op && c.Name == name {
						return err
					}
					return nil
				})
			}
		}
	}
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("SKIPPED: the tables are of a little-endian machine")
	}
	r.Compare(t, "testdata/reports/owners.txt.gz")
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
