package crmem_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "crabmem/crmem"
	"crabmem/crmem/internal/format"
	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"
	"crabmem/fuzz/golden"
)

// reportUser makes random calls on a store in memory. Hook and Warn may run in a
// goroutine of the store, so mu guards what they write.
type reportUser struct {
	t      *testing.T
	m      *faultfs.Mem
	random *rand.Rand
	path   string
	o      Options
	s      *Store
	other  *Store // another process that holds the lock, or nil
	out    strings.Builder

	mu     sync.Mutex
	seen   []string           // calls of the file system and warnings of this step
	left   int                // calls before the fault; 0 = no fault
	fault  func(string) error // of the call on a file
	inside bool               // the fault itself makes calls
}

// lockNumbers matches the parts of a lock file that differ between two runs. A
// failed write may leave a part of the sum.
var lockNumbers = regexp.MustCompile(`(pid|sum) [0-9a-f]+`)

// TestReportsOfCalls makes random calls on stores, with faults and changes by
// other programs, and compares the results, the warnings, the calls of the file
// system, and the files.
func TestReportsOfCalls(t *testing.T) { synctest.Test(t, reportCalls) }

func reportCalls(t *testing.T) {
	defer FixProcessID(12345)() // the fill level of a disk depends on its length
	var r golden.Reports
	for seed := range uint64(300) {
		u := &reportUser{t: t, m: faultfs.NewMem(), random: rand.New(rand.NewPCG(seed, 9)), path: "/m.db"}
		r.Add(fmt.Sprintf("seed %d", seed), unstable.ReplaceAllString(u.run(), "*"))
	}
	r.Compare(t, "testdata/reports/calls.txt.gz")
}

func (u *reportUser) run() string {
	u.begin()
	for range 4 + u.random.IntN(10) {
		time.Sleep(time.Millisecond)
		u.step()
	}
	u.close()
	u.end()
	return u.out.String()
}

// begin prepares the files and the options, and opens the store.
func (u *reportUser) begin() {
	switch u.random.IntN(8) {
	case 0:
		u.path = "/a/b/m.db"
	case 1:
		noErr(u.t, u.m.Mkdir("/real", 0o700))
		noErr(u.t, opened(u.t, "/real/m.db", &Options{FS: u.m, Socket: "socket"}, 0).Close())
		u.m.Symlink("/real/m.db", u.path)
	}
	if u.path == "/m.db" && u.random.IntN(2) == 0 {
		s, err := Open(u.path, &Options{FS: u.m, CheckpointOnClose: CheckpointNever})
		noErr(u.t, err)
		noErr(u.t, s.Apply(Add{Name: "one", Content: "words"}, Add{Name: "four", Aliases: []string{"alias"}}))
		noErr(u.t, s.Close())
	}
	u.m.Hook = u.hook
	u.options()
	if u.random.IntN(4) == 0 {
		u.setFault(30)
	}
	u.open()
}

// options chooses options. Most stores have the default of each.
func (u *reportUser) options() {
	u.o = Options{FS: u.m, Warn: func(line string) { u.note("warning: " + line) }}
	for range u.random.IntN(4) {
		switch u.random.IntN(10) {
		case 0:
			u.o.Literal = true
		case 1, 2:
			u.o.LogVersion = format.LogVersion1
		case 3, 4:
			u.o.CheckpointOnClose = []CheckpointMode{CheckpointAuto, CheckpointNever, CheckpointNever}[u.random.IntN(3)]
		case 5:
			u.o.LogLimit = int64(200 + u.random.IntN(400))
		case 6:
			u.o.MaxBytes = int64(300 + u.random.IntN(600))
		case 7:
			u.o.Command, u.o.Socket = "the command", "the socket"
		case 8:
			u.o.MustExist = true
		default:
			u.o.ReadOnly = u.random.IntN(3) == 0
		}
	}
}

func (u *reportUser) note(line string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.inside {
		u.seen = append(u.seen, line)
	}
}

// hook records a call of the file system, and fails the one that setFault chose.
func (u *reportUser) hook(c faultfs.Call) error {
	u.mu.Lock()
	if u.inside {
		u.mu.Unlock()
		return nil
	}
	line := c.Op + " " + c.Name
	if c.Op == "write" && !strings.HasSuffix(c.Name, LockSuffix) && !strings.Contains(c.Name, format.CompressedSuffix) {
		line += fmt.Sprint(" ", c.Size)
	}
	u.seen = append(u.seen, line)
	if u.left--; u.left != 0 {
		u.mu.Unlock()
		return nil
	}
	u.inside = true
	u.mu.Unlock()
	err := u.fault(c.Name)
	u.mu.Lock()
	u.inside = false
	u.seen = append(u.seen, fmt.Sprintf("  fault: %v", err))
	u.mu.Unlock()
	return err
}

// setFault chooses one of the next calls of the file system, and its fault.
func (u *reportUser) setFault(calls int) {
	left, kind, n, suffix := 1+u.random.IntN(calls), u.random.IntN(14), u.random.IntN(120), storeSuffixes[u.random.IntN(len(storeSuffixes))]
	u.mu.Lock()
	defer u.mu.Unlock()
	u.left = left
	u.fault = func(name string) error {
		file := u.path + suffix
		if strings.HasSuffix(name, LockSuffix) {
			n = 0 // a part of its text would depend on the process ID
		}
		switch kind {
		case 0, 1:
			return syscall.EIO
		case 2, 3:
			return syscall.ENOSPC
		case 4:
			return &faultfs.Fault{Err: syscall.EIO, Done: true}
		case 5:
			return &faultfs.Fault{Err: syscall.ENOSPC, Done: true}
		case 6:
			return &faultfs.Fault{Err: syscall.ENOSPC, N: n}
		case 7:
			return &faultfs.Fault{Err: syscall.EIO, N: n}
		case 8:
			return syscall.EACCES
		case 9:
			_ = u.m.Remove(file)
		case 10:
			u.rewrite(file, func(b []byte) []byte { return b })
		case 11:
			if suffix == LockSuffix {
				n = 20
			}
			u.rewrite(file, func(b []byte) []byte { return b[:len(b)-min(len(b), n)] })
		case 12:
			if b, err := vfs.ReadFile(u.m, file, 1<<20); err == nil {
				u.m.WriteFile(file, append(b, "text"...), 0o600)
			}
		default:
			u.createOther(n%2 == 0)
		}
		return nil
	}
}

// rewrite replaces a file, if it exists, by another with changed contents.
func (u *reportUser) rewrite(file string, change func([]byte) []byte) {
	b, err := vfs.ReadFile(u.m, file, 1<<20)
	if err == nil && u.m.Remove(file) == nil {
		u.m.WriteFile(file, change(b), 0o600)
	}
}

// createOther has another process use the store.
func (u *reportUser) createOther(keepLock bool) {
	s, err := Open(u.path, &Options{FS: u.m, Command: "other"})
	if err != nil {
		return
	}
	_ = s.Apply(Add{Name: "other's", Content: "by another process"})
	if keepLock && u.other == nil {
		u.other = s
		return
	}
	_ = s.Close()
}

// report writes the result of a step, and what it did.
func (u *reportUser) report(what string, result any, err error) {
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.left = 0
	fmt.Fprintf(&u.out, "%s:", what)
	if err != nil {
		fmt.Fprintf(&u.out, " error: %s", strings.ReplaceAll(err.Error(), "\n", "\n\t"))
	}
	if result != nil {
		text, jerr := json.Marshal(result)
		noErr(u.t, jerr)
		fmt.Fprintf(&u.out, " %s", text)
	}
	u.out.WriteString("\n")
	for _, line := range u.seen {
		u.out.WriteString("\t" + line + "\n")
	}
	u.seen = nil
}

func (u *reportUser) open() {
	s, err := Open(u.path, &u.o)
	u.report("open", nil, err)
	if err != nil {
		s = nil
	}
	u.s = s
}

func (u *reportUser) close() {
	if u.s != nil {
		err := u.s.Close()
		u.report("close", nil, err)
		u.s = nil
	}
}

// end writes the files, and the store as a reader sees it.
func (u *reportUser) end() {
	u.mu.Lock()
	u.inside = true // no calls are written
	u.mu.Unlock()
	if u.other != nil {
		_ = u.other.Close()
	}
	report, err := Check(u.m, u.path, 0)
	u.report("check", report, err)
	s, err := Open(u.path, &Options{FS: u.m, ReadOnly: true})
	u.report("read", nil, err)
	if err == nil {
		for e := range s.All() {
			u.report("entry", e, nil)
		}
		noErr(u.t, s.Close())
	}
	for _, dir := range []string{"/", "/real", "/a/b"} {
		list, err := u.m.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		noErr(u.t, err)
		for _, e := range list {
			fi, err := e.Info()
			noErr(u.t, err)
			if strings.HasSuffix(e.Name(), LockSuffix) {
				b, err := vfs.ReadFile(u.m, dir+"/"+e.Name(), 1<<16)
				fmt.Fprintf(&u.out, "%s %v %q %v\n", e.Name(), fi.Mode(), lockNumbers.ReplaceAll(b, []byte("$1")), err)
				continue
			}
			size := fi.Size()
			if strings.HasSuffix(e.Name(), format.CompressedSuffix) {
				size = 0 // it depends on random values
			}
			fmt.Fprintf(&u.out, "%s %v %d\n", e.Name(), fi.Mode(), size)
		}
	}
}
