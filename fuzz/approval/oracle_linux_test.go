package approval

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// limits are what the programs of one text may do.
type limits struct {
	shown    []program // that the text shows, so without cd, echo, false, pwd, and true
	dir      string    // working directory, with links followed
	confined bool      // else a person allowed the programs
}

// systemDirs are the directories of programs, libraries, and their data.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// profileFiles are the files and directories that the read-only profile makes.
var profileFiles = []string{
	"/", "/dev", "/dev/null", "/etc", "/home", "/tmp", "/etc/group", "/etc/ld.so.cache", "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd",
}

// environment are the variables of confined programs.
var environment = []string{"LANG", "PATH", "TZ"}

// violations returns what the programs of a text did beyond its words.
func (l *limits) violations(t *trace) (list []string) {
	shown := slices.Clone(l.shown)
	for _, p := range t.programs {
		if l.confined && !isSystem(p.path) {
			list = append(list, fmt.Sprintf("started %s outside the system's programs", p.path))
		}
		i := slices.IndexFunc(shown, func(s program) bool { return s.path == p.path && slices.Equal(s.argv, p.argv) })
		if i < 0 {
			list = append(list, fmt.Sprintf("started %s %q", p.path, p.argv))
			continue
		}
		shown = slices.Delete(shown, i, i+1)
		if !l.confined {
			continue
		}
		for _, v := range p.env {
			if name, value, _ := strings.Cut(v, "="); !slices.Contains(environment, name) || name == "PATH" && !onlySystem(value) {
				list = append(list, fmt.Sprintf("%s has the variable %s", p.path, v))
			}
		}
	}
	if !l.confined {
		return list
	}
	for _, c := range t.calls {
		if v := l.violation(c); v != "" {
			list = append(list, v+": "+c.String())
		}
	}
	return list
}

// violation returns what a call does beyond reading, or "".
func (l *limits) violation(c call) string {
	switch c.name {
	case "openat", "open", "openat2":
		if c.failed() {
			return ""
		}
		path, ok := resultPath(c.result)
		if !ok {
			return "opened an unknown file"
		}
		if path != "/dev/null" && writing.MatchString(strings.Join(c.args[1:], " ")) {
			return "opened a file for writing"
		}
		if !isSystem(path) && !slices.Contains(profileFiles, path) && !contains(l.dir, path) {
			return "opened a file outside the working directory"
		}
		return ""
	case "socket", "socketpair", "connect", "bind":
		return "used a socket"
	case "execve", "execveat":
		return "tried to start a program"
	case "clone", "clone3", "fork", "vfork":
		if strings.Contains(strings.Join(c.args, " "), "CLONE_THREAD") {
			return ""
		}
		return "forked"
	case "tgkill":
		// A program that cannot write to its pipe, such as sort, ends itself with SIGPIPE.
		if len(c.args) == 3 && c.args[0] == c.args[1] && c.args[2] == "SIGPIPE" {
			return ""
		}
		return "reached another process"
	case "kill", "tkill", "pidfd_send_signal", "rt_sigqueueinfo", "ptrace", "unshare", "setns", "mount", "umount2":
		return "reached another process"
	}
	if c.failed() {
		return ""
	}
	return "changed a file"
}

var writing = regexp.MustCompile(`O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE`)

// resultPath returns the path of a descriptor: 3<\x2f\x61>.
func resultPath(result string) (string, bool) {
	_, rest, ok := strings.Cut(result, "<")
	text, _, ok2 := strings.Cut(rest, ">")
	if !ok || !ok2 {
		return "", false
	}
	path, err := decode(`"` + text + `"`)
	return path, err == nil
}

func isSystem(path string) bool {
	return slices.ContainsFunc(systemDirs, func(dir string) bool { return contains(dir, path) })
}

func onlySystem(path string) bool {
	for dir := range strings.SplitSeq(path, ":") {
		if !filepath.IsAbs(dir) || !isSystem(dir) {
			return false
		}
	}
	return true
}

func contains(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
