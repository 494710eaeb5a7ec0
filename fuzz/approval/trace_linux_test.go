package approval

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// systemCalls are those that the oracle sees: they start a program, open
// or change a file, or reach another process. With --seccomp-bpf, strace stops a new
// thread at every call until the first of the listed ones, so the list contains gettid,
// which each thread of the runner calls first.
const systemCalls = "%process,open,openat,openat2,creat,truncate,mkdir,mkdirat,mknod,mknodat,unlink,unlinkat,rmdir," +
	"rename,renameat,renameat2,link,linkat,symlink,symlinkat,chmod,fchmodat,chown,lchown,fchownat,utimensat,setxattr,lsetxattr," +
	"socket,socketpair,connect,bind,ptrace,mount,umount2,gettid"

// call is a system call of a process whose program is not the runner's.
type call struct {
	pid    int
	name   string
	args   []string // as strace prints them, strings decoded
	result string
}

func (c call) String() string {
	return fmt.Sprintf("%s(%s) = %s", c.name, strings.Join(c.args, ", "), c.result)
}

// failed reports whether the call returned no descriptor: it failed, or a signal killed
// the process in it.
func (c call) failed() bool {
	return strings.HasPrefix(c.result, "-1 ") || strings.HasPrefix(c.result, "?")
}

// program is a successful execve.
type program struct {
	path string
	argv []string
	env  []string
}

// trace is what strace saw between two marks.
type trace struct {
	programs []program
	calls    []call // of those programs; without execve
}

// reader reads the output of strace -f -v -xx line by line.
type reader struct {
	own        string         // path of the runner's program, and of its helpers
	image      map[int]bool   // processes that run another program
	unfinished map[int]string // beginnings of calls
	forking    map[int]bool   // processes of other programs that are in a fork
	marks      map[string]*trace
	current    *trace
}

// mark is the prefix of a path that the runner tries to open before and after each
// command.
const mark = "/crabmem-mark/"

// readTrace returns the traces of the commands by the names of their marks.
func readTrace(r io.Reader, own string) (map[string]*trace, error) {
	t := &reader{
		own: own, image: make(map[int]bool), unfinished: make(map[int]string),
		forking: make(map[int]bool), marks: make(map[string]*trace),
	}
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return t.marks, nil
		}
		if err != nil {
			return nil, err
		}
		if err := t.line(strings.TrimRight(line, "\n")); err != nil {
			return nil, err
		}
	}
}

var (
	lineParts = regexp.MustCompile(`^(\d+) +(.*)$`)
	resumed   = regexp.MustCompile(`^<\.\.\. (\w+) resumed>(.*)$`)
	callParts = regexp.MustCompile(`^(\w+)\((.*)\) += (.*)$`)
)

func (t *reader) line(line string) error {
	m := lineParts.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("read trace: %q", line)
	}
	pid, err := strconv.Atoi(m[1])
	if err != nil {
		return err
	}
	text := m[2]
	if _, seen := t.image[pid]; !seen {
		// A process that appears while another program forks is its child.
		t.image[pid] = len(t.forking) > 0
	}
	switch {
	case strings.HasPrefix(text, "+++"): // the process ended, or a thread of it called execve
		delete(t.image, pid) // the system uses numbers again
		delete(t.forking, pid)
		return nil
	case strings.HasPrefix(text, "---"):
		return nil
	case strings.HasSuffix(text, " <unfinished ...>"):
		text = strings.TrimSuffix(text, " <unfinished ...>")
		t.unfinished[pid] = text
		if t.image[pid] && isFork(text) {
			t.forking[pid] = true
		}
		return nil
	}
	if strings.HasPrefix(text, "<... ??? resumed>") || strings.HasPrefix(text, "???(") || strings.HasSuffix(text, " <detached ...>") { // a killed process does not end its call
		delete(t.unfinished, pid)
		return nil
	}
	if m := resumed.FindStringSubmatch(text); m != nil {
		text = t.unfinished[pid] + m[2]
		delete(t.unfinished, pid)
		delete(t.forking, pid)
	}
	parts := callParts.FindStringSubmatch(text)
	if parts == nil {
		if strings.Contains(text, "exit(") || strings.Contains(text, "exit_group(") {
			return nil
		}
		return fmt.Errorf("read trace: %q", line)
	}
	args, err := arguments(parts[2])
	if err != nil {
		return fmt.Errorf("read trace: %q: %w", line, err)
	}
	return t.call(call{pid, parts[1], args, parts[3]})
}

func isFork(text string) bool {
	return strings.HasPrefix(text, "clone") || strings.HasPrefix(text, "fork") || strings.HasPrefix(text, "vfork")
}

func (t *reader) call(c call) error {
	if c.name == "openat" && len(c.args) > 1 && strings.HasPrefix(c.args[1], mark) {
		name := strings.TrimPrefix(c.args[1], mark)
		t.current = nil
		if name != "end" {
			t.current = new(trace)
			t.marks[name] = t.current
		}
		return nil
	}
	if c.name == "execve" || c.name == "execveat" {
		if c.failed() {
			if t.image[c.pid] && t.current != nil {
				t.current.calls = append(t.current.calls, c)
			}
			return nil
		}
		if c.name == "execveat" {
			return fmt.Errorf("read trace: unexpected %s", c)
		}
		path := c.args[0]
		t.image[c.pid] = path != t.own && path != "/proc/self/exe"
		if t.image[c.pid] && t.current != nil {
			argv, err := list(c.args[1])
			if err != nil {
				return err
			}
			env, err := list(c.args[2])
			if err != nil {
				return err
			}
			t.current.programs = append(t.current.programs, program{path, argv, env})
		}
		return nil
	}
	if t.image[c.pid] && t.current != nil && c.name != "gettid" && !strings.HasPrefix(c.name, "exit") && !strings.HasPrefix(c.name, "wait") {
		t.current.calls = append(t.current.calls, c)
	}
	return nil
}

// arguments splits the arguments of a call at its top level. A list or structure
// keeps its brackets and its encoded strings.
func arguments(text string) (args []string, err error) {
	depth, from := 0, 0
	quoted := false
	add := func(arg string) {
		arg = strings.TrimSpace(arg)
		if strings.HasPrefix(arg, `"`) {
			arg, err = decode(arg)
		}
		args = append(args, arg)
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted // -xx leaves no quote in a string
		case quoted:
		case c == '[' || c == '{' || c == '(':
			depth++
		case c == ']' || c == '}' || c == ')':
			depth--
		case c == ',' && depth == 0:
			add(text[from:i])
			from = i + 1
		}
	}
	if from < len(text) {
		add(text[from:])
	}
	return args, err
}

// list decodes a list of strings: ["\x61", "\x62"].
func list(text string) (words []string, err error) {
	if text == "NULL" {
		return nil, nil
	}
	inner, ok := strings.CutPrefix(text, "[")
	inner, ok2 := strings.CutSuffix(inner, "]")
	if !ok || !ok2 {
		return nil, fmt.Errorf("read trace: no list: %s", text)
	}
	return arguments(inner)
}

// decode decodes a string: "\x61\x62". A longer string than strace prints is an error.
func decode(text string) (string, error) {
	inner, ok := strings.CutPrefix(text, `"`)
	inner, ok2 := strings.CutSuffix(inner, `"`)
	if !ok || !ok2 {
		return "", fmt.Errorf("no complete string: %s", text)
	}
	data, err := hex.DecodeString(strings.ReplaceAll(inner, `\x`, ""))
	return string(data), err
}
