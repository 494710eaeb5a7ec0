//go:build linux

package vfs_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"crabmem/crmem/vfs"
	"crabmem/crmem/vfs/faultfs"

	"github.com/google/go-cmp/cmp"
)

// replaceCalls lists the system calls of Replace in the order that durability
// requires. The contents are durable before the rename. The name is durable
// before Replace returns.
var replaceCalls = []string{
	"open temp O_RDWR|O_CREAT|O_EXCL",
	"write temp", "write temp", // twoBuffers exceeds the buffer of Replace
	"fsync temp",
	"close temp",
	"rename temp over file",
	"open directory",
	"fsync directory",
	"close directory",
}

// TestReplaceMem checks that the crash tests, which use a Mem, see the same calls
// in the same order.
func TestReplaceMem(t *testing.T) {
	m := faultfs.NewMem()
	var calls []string
	m.Hook = func(c faultfs.Call) error {
		switch op, _, _ := strings.Cut(c.Op, " "); {
		case op == "create":
			calls = append(calls, "open temp O_RDWR|O_CREAT|O_EXCL")
		case op == "rename" && c.Name == "/file":
			calls = append(calls, "rename temp over file")
		case op == "syncdir" && c.Name == "/":
			calls = append(calls, "open directory", "fsync directory", "close directory")
		case op == "sync":
			calls = append(calls, "fsync temp")
		default:
			calls = append(calls, op+" temp")
		}
		return nil
	}
	if err := vfs.Replace(m, "/file", 0o600, twoBuffers); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(replaceCalls, calls); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
}

// twoBuffers writes 300,000 bytes. Replace needs two writes for them.
func twoBuffers(w io.Writer) error {
	for range 3 {
		if _, err := w.Write(make([]byte, 100_000)); err != nil {
			return err
		}
	}
	return nil
}

// TestReplaceStrace runs itself under strace in a child process, which calls
// Replace with OS and with a root.
func TestReplaceStrace(t *testing.T) {
	if dir := os.Getenv("CRABMEM_REPLACE"); dir != "" {
		if err := vfs.Replace(vfs.OS{}, filepath.Join(dir, "file"), 0o600, twoBuffers); err != nil {
			t.Fatal(err)
		}
		r, err := vfs.OS{}.Root(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := vfs.Replace(r, "rooted", 0o600, twoBuffers); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		return
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("SKIPPED: strace is not installed")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	cmd := exec.Command(strace, "-f", "-y", "-o", log, "-e", "trace=openat,write,pwrite64,writev,fsync,fdatasync,sync_file_range,close,rename,renameat,renameat2,unlink,unlinkat,link,linkat,fchmod,ftruncate",
		os.Args[0], "-test.run", "^TestReplaceStrace$")
	cmd.Env = append(os.Environ(), "CRABMEM_REPLACE="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "ptrace") {
			t.Skipf("SKIPPED: strace cannot trace: %s", out)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	trace, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "rooted"} {
		if d := cmp.Diff(replaceCalls, calls(string(trace), dir, name)); d != "" {
			t.Errorf("calls for %s (-want +got):\n%s", name, d)
		}
	}
}

var callLine = regexp.MustCompile(`^\d+ +(\w+)\((.*)\) += (\S+)`)

// calls translates lines of a trace to the format of replaceCalls. It starts at
// the creation of name's temporary file and ends at the close of the directory.
func calls(trace, dir, name string) []string {
	temp := regexp.MustCompile(`[/"]\.` + name + `\d+`)
	var list []string
	opened := false // the directory is open for the sync; Pending in a root also opens it
	for line := range strings.Lines(unfinished(trace)) {
		m := callLine.FindStringSubmatch(line)
		if m == nil || strings.HasPrefix(m[3], "-1") {
			continue
		}
		call, args := strings.TrimSuffix(m[1], "at"), m[2]
		onDir := strings.Contains(args, "<"+dir+">") || strings.Contains(m[3], "<"+dir+">")
		switch {
		case call == "open" && temp.MatchString(args):
			flags := regexp.MustCompile(`O_RDWR|O_CREAT|O_EXCL|O_TRUNC|O_APPEND`).FindAllString(args, -1)
			list = append(list, "open temp "+strings.Join(flags, "|"))
		case strings.HasPrefix(call, "rename") && temp.MatchString(args) && strings.Contains(args, name+`"`):
			list = append(list, "rename temp over file")
		case temp.MatchString(args):
			list = append(list, call+" temp")
		case len(list) == 0 || !onDir:
		case call == "open":
			opened = true
			list = append(list, "open directory")
		case opened && (call == "fsync" || call == "close"):
			list = append(list, call+" directory")
			if call == "close" {
				return list
			}
		}
	}
	return list
}

// unfinished joins the two lines of each call that another thread interrupts.
func unfinished(trace string) string {
	var b strings.Builder
	begun := map[string]string{}
	for line := range strings.Lines(trace) {
		pid, rest, _ := strings.Cut(line, " ")
		if head, ok := strings.CutSuffix(strings.TrimRight(rest, "\n"), "<unfinished ...>"); ok {
			begun[pid] = head
			continue
		}
		if i := strings.Index(rest, " resumed>"); i >= 0 {
			rest = begun[pid] + rest[i+len(" resumed>"):]
		}
		b.WriteString(pid + " " + rest)
	}
	return b.String()
}
