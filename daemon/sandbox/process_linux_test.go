package sandbox

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"crabmem/crmem/vfs/faultfs"

	"golang.org/x/sys/unix"
)

// TestDescriptorRead reads the end of a pipe and after errors.
func TestDescriptorRead(t *testing.T) {
	old := system
	t.Cleanup(func() { system = old })
	for _, tt := range []struct {
		room  int
		n     int
		errs  []error // of the calls
		want  int
		err   error
		calls int
	}{
		{5, 3, []error{nil}, 3, nil, 1}, {5, 5, []error{nil}, 5, nil, 1}, {1, 1, []error{nil}, 1, nil, 1},
		{5, 0, []error{nil}, 0, io.EOF, 1}, {1, 0, []error{nil}, 0, io.EOF, 1}, {0, 0, []error{nil}, 0, nil, 1},
		{5, -1, []error{syscall.EBADF}, 0, syscall.EBADF, 1}, {5, 2, []error{syscall.EINTR, syscall.EINTR, nil}, 2, nil, 3},
		{5, 0, []error{syscall.EINTR, nil}, 0, io.EOF, 2}, {5, -1, []error{syscall.EINTR, syscall.EIO}, 0, syscall.EIO, 2},
	} {
		calls := 0
		system.read = func(fd int, b []byte) (int, error) {
			if fd != 7 || len(b) != tt.room {
				t.Errorf("read of %d bytes from %d", len(b), fd)
			}
			calls++
			return tt.n, tt.errs[calls-1]
		}
		if n, err := descriptor(7).Read(make([]byte, tt.room)); n != tt.want || err != tt.err || calls != tt.calls {
			t.Errorf("%+v: %d, %v after %d calls", tt, n, err, calls)
		}
	}
}

// TestWaitFor waits for a child among others.
func TestWaitFor(t *testing.T) {
	old := system
	t.Cleanup(func() { system = old })
	type ended struct {
		pid    int
		status syscall.WaitStatus
		err    error
	}
	for _, tt := range []struct {
		list []ended
		want int
		err  string
	}{
		{[]ended{{12, 7 << 8, nil}}, 7, "<nil>"}, {[]ended{{12, 0, nil}}, 0, "<nil>"}, {[]ended{{12, 9, nil}}, -1, "<nil>"},
		{[]ended{{5, 3 << 8, nil}, {13, 0, nil}, {12, 4 << 8, nil}}, 4, "<nil>"}, {[]ended{{-1, 0, syscall.EINTR}, {12, 1 << 8, nil}}, 1, "<nil>"},
		{[]ended{{-1, 0, syscall.ECHILD}}, 0, "wait: no child processes"}, {[]ended{{5, 1 << 8, nil}, {-1, 0, syscall.EIO}}, 0, "wait: input/output error"},
	} {
		calls := 0
		system.wait4 = func(pid int, status *syscall.WaitStatus, options int, usage *syscall.Rusage) (int, error) {
			if pid != -1 || options != 0 || usage != nil {
				t.Errorf("wait4(%d, %d, %v)", pid, options, usage)
			}
			e := tt.list[calls]
			calls++
			*status = e.status
			return e.pid, e.err
		}
		if code, err := waitFor(12); code != tt.want || fmt.Sprint(err) != tt.err || calls != len(tt.list) {
			t.Errorf("%v: %d, %v after %d calls", tt.list, code, err, calls)
		}
	}
}

// TestStart keeps the first bytes of what it copies.
func TestStart(t *testing.T) {
	all := make([]byte, 3*startSize)
	for i := range all {
		all[i] = byte(i % 251)
	}
	for _, sizes := range [][]int{{0}, {5, 7}, {startSize - 1}, {startSize}, {startSize + 1}, {startSize - 1, 1}, {startSize - 1, 2}, {startSize / 2, startSize}, {600, 600, 600}, {startSize, 1}} {
		for _, next := range []*bytes.Buffer{nil, new(bytes.Buffer)} {
			s := &start{}
			if next != nil {
				s.next = next
			}
			total := 0
			for _, n := range sizes {
				if got, err := s.Write(all[total : total+n]); got != n || err != nil {
					t.Errorf("%v: wrote %d of %d, %v", sizes, got, n, err)
				}
				total += n
			}
			if !bytes.Equal(s.text, all[:min(total, startSize)]) || next != nil && !bytes.Equal(next.Bytes(), all[:total]) {
				t.Errorf("%v: %d bytes are kept", sizes, len(s.text))
			}
		}
	}
	in, out := io.Pipe()
	in.Close()
	if n, err := (&start{next: out}).Write([]byte("text")); n != 0 || err != io.ErrClosedPipe {
		t.Errorf("%d, %v", n, err)
	}
}

// TestResolved follows links, and omits paths that the user cannot reach.
func TestResolved(t *testing.T) {
	m := faultfs.NewMem()
	if err := m.Mkdir("/d", 0o700); err != nil {
		t.Fatal(err)
	}
	m.WriteFile("/d/file", nil, 0o600)
	m.Symlink("/d", "/link")
	m.Hook = func(c faultfs.Call) error {
		switch c.Name {
		case "/closed":
			return fs.ErrPermission
		case "/broken":
			return syscall.EIO
		}
		return nil
	}
	for _, tt := range []struct {
		paths, want []string
		err         string
	}{
		{nil, nil, "<nil>"}, {[]string{"/d/file", "/link/file", "/link/missing"}, []string{"/d/file", "/d/file", "/d/missing"}, "<nil>"},
		{[]string{"/closed", "/d/file", "/closed", "/link"}, []string{"/d/file", "/d"}, "<nil>"}, {[]string{"/closed"}, nil, "<nil>"},
		{[]string{"/d/file", "/broken", "/d"}, nil, "/broken: "},
	} {
		got, err := resolved(m, tt.paths)
		if !slices.Equal(got, tt.want) || !strings.HasPrefix(fmt.Sprint(err), tt.err) || tt.err != "<nil>" && !errors.Is(err, syscall.EIO) {
			t.Errorf("%v: %v, %v, want %v, %s", tt.paths, got, err, tt.want, tt.err)
		}
	}
}

// TestError checks the text, the cause, and the fix.
func TestError(t *testing.T) {
	e := &Error{fs.ErrNotExist}
	if e.Error() != "confine command: file does not exist; "+remedy || !errors.Is(e, fs.ErrNotExist) || e.Remedy() != remedy || !strings.HasSuffix(remedy, removeBash) {
		t.Errorf("%v; %s", e, e.Remedy())
	}
}

// TestReportsOfProcess1 starts process 1 without Run and compares its report
// and exit code.
func TestReportsOfProcess1(t *testing.T) {
	if err := Check(t.Context()); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	encode := func(j job) []byte {
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(j); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for _, tt := range []struct {
		name   string
		in     []byte
		closed bool // the descriptor for the report
		want   string
		code   int
	}{
		{"no job", nil, false, `{"Setup":"read the command: EOF","Spawn":"","Code":0}`, 0},
		{"half a job", encode(job{Path: "/bin/sh"})[:20], false, `{"Setup":"read the command: unexpected EOF","Spawn":"","Code":0}`, 0},
		{"no program", encode(job{Dir: "/missing"}), false, `{"Setup":"","Spawn":"","Code":0}`, 0},
		{"no directory", encode(job{Path: "/bin/sh", Dir: "/missing"}), false, `{"Setup":"","Spawn":"chdir /missing: no such file or directory","Code":0}`, 0},
		{"missing program", encode(job{Path: "/missing", Dir: "/"}), false, `{"Setup":"","Spawn":"fork/exec /missing: no such file or directory","Code":0}`, 0},
		{"exit code", encode(job{Path: "/bin/sh", Args: []string{"sh", "-c", "exit 7"}, Dir: "/"}), false, `{"Setup":"","Spawn":"","Code":7}`, 0},
		{"no descriptor for the report", encode(job{}), true, "", 2},
	} {
		in, toChild, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		fromChild, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Args, cmd.Env, cmd.Dir = []string{confinedName}, []string{}, "/"
		cmd.ExtraFiles = []*os.File{in}
		if !tt.closed {
			cmd.ExtraFiles = append(cmd.ExtraFiles, out)
		}
		cmd.SysProcAttr = processOne()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		in.Close()
		out.Close()
		if _, err := toChild.Write(tt.in); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if len(tt.in) < 30 {
			toChild.Close() // a complete job ends with the daemon's end
		}
		report, err := io.ReadAll(fromChild)
		if err != nil {
			t.Error(err)
		}
		cmd.Wait()
		toChild.Close()
		fromChild.Close()
		if string(report) != tt.want || cmd.ProcessState.ExitCode() != tt.code {
			t.Errorf("%s: %s, exit code %d, want %s, %d", tt.name, report, cmd.ProcessState.ExitCode(), tt.want, tt.code)
		}
	}
}

// TestSetFilterFails sets a filter that the kernel rejects.
func TestSetFilterFails(t *testing.T) {
	if err := setFilter([]unix.SockFilter{{Code: 0xffff}}); err == nil {
		t.Error("the kernel accepts an invalid filter")
	}
}
