package approval

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// machine is a user's home with a working directory, and directories of programs.
type machine struct {
	home, data, work, bin string
}

// newMachine creates the programs of a machine: files with the first bytes of one.
func newMachine(t *testing.T) *machine {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{home: top + "/user", data: top + "/user/data", work: top + "/user/work", bin: top + "/bin"}
	for _, dir := range []string{m.data + "/in", m.work + "/sub", m.work + "/a/b", m.bin} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", m.bin)
	for _, name := range slices.Concat(Default, strings.Fields("apt-cache bash busybox curl env find git go jq kubectl make printf rm mytool tar touch xargs python3.12 test")) {
		m.write(t, m.bin+"/"+name, "\x7fELF\x02", 0o700)
	}
	m.write(t, m.bin+"/zgrep", "#!/bin/sh\n", 0o700)
	m.write(t, m.bin+"/nl", "#!/bin/sh\n", 0o700) // a name of the default list
	m.write(t, m.bin+"/data", "\x7fELF", 0o600)
	// Names that a question offers: scripts, short files, and files without permission.
	m.write(t, m.bin+"/tree", "#!/bin/sh\n", 0o700)
	m.write(t, m.bin+"/seq", "", 0o700)
	m.write(t, m.bin+"/shuf", "ELF", 0o700)
	m.write(t, m.bin+"/tac", "\x7fELF", 0o600)
	m.write(t, m.bin+"/rev", "\x7fELF", 0o601)
	m.write(t, m.work+"/ls", "\x7fELF", 0o700)
	m.write(t, m.work+"/tool", "\x7fELF", 0o700)
	for name, to := range map[string]string{"wget": "busybox", "sh": "busybox", "view": "bash", "stat": "busybox", "tr": "jq", "sum": "busybox", "od": "jq", "inside": m.work + "/tool"} {
		_ = os.Remove(m.bin + "/" + name)
		if err := os.Symlink(to, m.bin+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"a/b/up2": "../..", "a/b/up1": "..", "a/out": "../../data"} {
		if err := os.Symlink(to, m.work+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m *machine) write(t *testing.T, path, text string, perm os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), perm); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) rules(allow ...string) Rules {
	return Rules{
		Dir: m.work, Home: m.data, Users: []string{m.home}, Path: []string{m.bin}, Profile: func() bool { return true },
		Allow: slices.Concat(Default, allow),
	}
}

// describe returns a decision as text: the program or name and the other words of
// each command, with its redirections; or ask and the prefixes to offer.
func (m *machine) describe(d Decision) string {
	if d.Line == nil {
		return strings.ReplaceAll(strings.TrimSpace("ask "+strings.Join(d.Missing, ",")), m.bin, "BIN")
	}
	var parts []string
	for _, p := range d.Line {
		if p.After != "" {
			parts = append(parts, p.After)
		}
		for i, c := range p.Commands {
			if i > 0 {
				parts = append(parts, "|")
			}
			kind := "own"
			if c.ReadOnly {
				kind = "read " + c.Path
			} else if c.Path != "" {
				kind = "run " + c.Path
			}
			parts = append(parts, fmt.Sprintf("%s %q", kind, c.Words))
			parts = append(parts, c.Redirects...)
		}
	}
	return strings.ReplaceAll(strings.Join(parts, " "), m.bin, "BIN")
}

// TestRuns checks the argument vectors and programs of texts that run by themselves.
func TestRuns(t *testing.T) {
	m := newMachine(t)
	for _, c := range []struct{ text, want string }{
		{"ls", `read BIN/ls ["ls"]`},
		{"  ls  -la  ", `read BIN/ls ["ls" "-la"]`},
		{"l''s", `read BIN/ls ["ls"]`},
		{`"ls" 'a b'c"d  e" ''`, `read BIN/ls ["ls" "a bcd  e" ""]`},
		{"ls ./sub/../x sub " + m.work + "/sub", `read BIN/ls ["ls" "./sub/../x" "sub" "` + m.work + `/sub"]`},
		{`grep -n 'a\|b*$(x)[`, "ask"},
		{`grep -n 'a\|b*$(x)["' f`, `read BIN/grep ["grep" "-n" "a\\|b*$(x)[\"" "f"]`},
		{`grep "it's" f`, `read BIN/grep ["grep" "it's" "f"]`},
		{"ls /usr/bin /usr/share/x", `read BIN/ls ["ls" "/usr/bin" "/usr/share/x"]`},
		{"grep /no-such-directory/x f", `read BIN/grep ["grep" "/no-such-directory/x" "f"]`},
		{"cat Übung.txt u\u0308", "read BIN/cat [\"cat\" \"Übung.txt\" \"u\u0308\"]"},
		{"cat a 2>/dev/null | wc -l", `read BIN/cat ["cat" "a"] 2>/dev/null | read BIN/wc ["wc" "-l"]`},
		{"cat a 2>&1|head>/dev/null", "ask"}, // the redirection is part of the word
		{"cat a 2>&1|head >/dev/null", `read BIN/cat ["cat" "a"] 2>&1 | read BIN/head ["head"] >/dev/null`},
		{"cat a >/dev/null 2>&1 </dev/null", `read BIN/cat ["cat" "a"] >/dev/null 2>&1 </dev/null`},
		{"cat 2> /dev/null a", `read BIN/cat ["cat" "a"] 2>/dev/null`},
		{"ls a&&echo b||pwd;true;", `read BIN/ls ["ls" "a"] && own ["echo" "b"] || own ["pwd"] ; own ["true"]`},
		{"cd sub && ls .. && cd ..; ls", `own ["cd" "sub"] && read BIN/ls ["ls" ".."] && own ["cd" ".."] ; read BIN/ls ["ls"]`},
		{"cd " + m.work + "/sub && ls ../x", `own ["cd" "` + m.work + `/sub"] && read BIN/ls ["ls" "../x"]`},
		{"cd a/b/up1 && ls ..", `own ["cd" "a/b/up1"] && read BIN/ls ["ls" ".."]`},
		{"cd a/b/up2/../up1/b && ls ../..", `own ["cd" "a/b/up2/../up1/b"] && read BIN/ls ["ls" "../.."]`},
		{"cat a/b/up2/sub/../x", `read BIN/cat ["cat" "a/b/up2/sub/../x"]`},
		{"cd sub || true && ls x; cd a && cd b && ls ../..", `own ["cd" "sub"] || own ["true"] && read BIN/ls ["ls" "x"] ; own ["cd" "a"] && own ["cd" "b"] && read BIN/ls ["ls" "../.."]`},
		{"echo -n a -e", `own ["echo" "-n" "a" "-e"]`},
		{"echo 2 >/dev/null", `own ["echo" "2"] >/dev/null`},
		{"busybox ls", `read BIN/busybox ["busybox" "ls"]`},
		{"busybox cat f", `read BIN/busybox ["busybox" "cat" "f"]`},
		{"stat f", `read BIN/busybox ["stat" "f"]`}, // a link to busybox
		{m.bin + "/ls -l", `read BIN/ls ["` + "BIN" + `/ls" "-l"]`},
		{"sort -k2,2n -t, -ru f", `read BIN/sort ["sort" "-k2,2n" "-t," "-ru" "f"]`},
		{"uniq a", `read BIN/uniq ["uniq" "a"]`},
		{"sort | uniq -c", `read BIN/sort ["sort"] | read BIN/uniq ["uniq" "-c"]`},
		{"date +%F -u", `read BIN/date ["date" "+%F" "-u"]`},
		{"diff -u a b", `read BIN/diff ["diff" "-u" "a" "b"]`},
	} {
		if got := m.describe(Classify(c.text, m.rules())); got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.text, got, c.want)
		}
	}
	for text, runs := range map[string]bool{
		"ls " + strings.Repeat("x", maxText-3): true, "ls " + strings.Repeat("x", maxText-2): false,
		strings.Repeat("ls;", maxCommands-1) + "ls": true, strings.Repeat("ls;", maxCommands) + "ls": false,
	} {
		if d := Classify(text, m.rules()); (d.Line != nil) != runs {
			t.Errorf("%d bytes: runs %v, want %v: %s", len(text), !runs, runs, d.Reason)
		}
	}
}

// TestAsks checks texts that need approval. Some have a prefix that would permit
// them.
func TestAsks(t *testing.T) {
	m := newMachine(t)
	ask := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			if got := m.describe(Classify(text, m.rules())); got != "ask" {
				t.Errorf("%q: %s", text, got)
			}
		}
	}
	// Words and operators of a shell.
	ask("", " ", ";", "ls;;", "ls ;; ls", "; ls", "ls &&", "ls |", "| ls", "ls & ls", "ls &", "ls |& cat", "ls && && ls", "! ls", "(ls)", "{ ls; }", "ls # x", "ls a#b",
		"ls\ncat", "ls\n", "ls\tx", "ls \r#$(touch x)", "ls \\\r\ntouch x", "ls \\x", "l\\s", "ls *", "ls a?", "ls [ab]", "ls a]", "ls ~", "ls ~/x", "ls a~", "ls {a,b}", "ls a{", "ls }",
		"ls $x", "ls $(x)", "ls `x`", `ls "$x"`, `ls "a\b"`, "ls \"`x`\"", "$'ls'", `$"ls"`, "ls 'a", `ls "a`, "ls '\n'", "ls '\t'", "ls '\x1b'", "ls '\u202e'", "ls \u202ex", "ls a\u00a0b",
		"ls '\u200b'", "ls \x00", "ls \xff", "X=1 ls", "X=1", "'X=1' ls", "'' ls", "a=b", "ls !x", "ls a^b", "true {a['$(touch x)']}</dev/null", "true {PATH}</dev/null; ls")
	// Redirections.
	ask("ls >f", "ls >>/dev/null", "ls >|/dev/null", "ls >/dev/nullx", "ls >/dev/null/x", "ls >/dev/./null", "ls >'/dev/null'", "ls <f", "ls <<E", "ls <<<x", "ls <>/dev/null", "ls &>/dev/null",
		"ls >&2", "ls 1>&2", "ls 1>/dev/null", "ls 3</dev/tcp/a/1", "ls 3>/dev/null", "ls 0</dev/null", "ls 2>&1x", "ls 2>&12", "ls 2>& 1", "ls 2>&-", "ls 12>&1", "ls a>/dev/null",
		"2>/dev/null ls", ">/dev/null", "ls 2>f", "ls <(cat)", "ls >/dev/null>f")
	// Names that bash has.
	ask("if true", "time ls", "test -v x", "[ a ]", "printf x", "eval ls", "exec ls", "command ls", "builtin cd", "source f", ". f", "export X", "'if' a", "kill 1", "unset x")
	// Commands without a program.
	ask("cd", "cd -", "cd ..", "cd ../work", "cd sub && cd ../..", "cd /", "cd "+m.home, "cd sub | ls", "ls | cd sub", "cd a b", "cd -P a", "cd ''", "pwd -L", "echo -e a", "echo -nE a")
	// Files outside.
	ask("cat /etc/shadow", "cat ../data/secrets.key", "cat sub/../../x", "cd sub && cat ../../x", "cat "+m.data+"/secrets.key", "ls ..", "ls /", "cat "+m.work+"/../x", "ls /proc/self/fd", "cat /usr/local/etc/x", "ls /usr/src", "ls /usr")
	// Files outside, if a cd fails.
	ask("cd a/b/up2 && ls ..", "cd a/b && cd up2 && cat ../x", "cat a/b/up2/../x", "cat a/b/up1/../../x", "cd a/b/up1 && ls b/up2/..", "cd a/out", "cat a/out/secrets.key", "ls "+m.work+"/a/out")
	ask("cd sub; ls ..", "cd sub || ls ..", "cd sub && true || ls ..", "cd sub && ls; ls ..", "cd sub </dev/null || true && ls ..", "true || cd sub; ls ..", "cd a && cd b; ls ../..",
		"cd "+m.work+"/sub; ls ../x", "cd sub; cd ..", strings.Repeat("cd a; cd b; ", 5)+"ls")
	// Options that write or run.
	ask("sort -o f", "sort -of f", "sort --output=f f", "sort --compress-program=sh f", "sort -S1 f", "sort -T. f", "sort -uo f", "sort --files0-from=f", "sort -k1 -o f", "uniq a b", "uniq - b", "uniq +a b", "uniq -- a b",
		"date 01010000", "date -s x", "date --set=x", "date -us x", "date -f f", "diff -l a b", "diff --paginate a b", "diff -ul a b", "diff --to-file=x a", "diff --from-file x")
	// Programs that run others, are scripts, other programs, in the directory, or missing.
	ask("./ls", "sub/ls", "./build.sh", m.work+"/ls", m.work+"/tool", "inside", m.bin+"/inside", "bash -c ls", m.bin+"/bash -c ls", "sh -c ls", "view x", "env ls", m.bin+"/env ls", "find . -delete", "tar xf a",
		"xargs rm", "make", "python3.12 x", "busybox", "busybox sh -c ls", "busybox --install", m.bin+"/busybox", m.bin+"/busybox sh", "zgrep x f", "nl f", "tr a b", "data", "no-such-program", "git", "git -C x push", "git -c a=b push",
		"git bisect x", "git -c a=b push", "git stat", "go run x", "go test", "go build", "/nowhere/ls")
	// A program elsewhere, which may be bash.
	m.write(t, m.home+"/rm", "\x7fELF", 0o700)
	ask(m.home+"/rm x", m.home+"/../bin/../user/rm x", "/proc/self/cwd/rm")
	// Programs that an option names.
	ask("curl --engine ./x.so a", "git fetch --upload-pack=./x .", "git pull --upl ./x", "git push --exec=./x .", "git push", "git cherry-pick --strategy=./x a", "git revert --strategy=./x a",
		"go list -toolexec ./x", "go version", "kubectl get --kubeconfig=x", "apt-cache show -o Dir::Bin::dpkg=./x")
	ask("ls " + strings.Repeat("x", maxText))
	ask(strings.Repeat("ls;", maxCommands+1))
	for _, c := range []struct{ text, want string }{
		{"rm -rf x", "BIN/rm"},
		{m.bin + "/rm x", "BIN/rm"},
		{"ls && git add a | rm x; git add", "BIN/git add,BIN/rm"},
		{"busybox touch x", "BIN/busybox touch"},
		{"wget x", ""}, // wget --use-askpass
		{"mytool x", ""},
		{"sum x", "BIN/sum"}, // a link to busybox
		{"od x", ""},         // a link to jq
		{"rev x", "BIN/rev"},
		{"tac x", ""},
		{"tree x", ""},
		{"seq x", ""},
		{"shuf x", ""},
		{"busybox --list", ""},
		{"rm x; ls > y", ""},
		{"rm x; bash", ""},
	} {
		want := strings.TrimSpace("ask " + c.want)
		if got := m.describe(Classify(c.text, m.rules())); got != want {
			t.Errorf("%q: %s, want %s", c.text, got, want)
		}
	}
}

// TestReasons checks the reason and the prefixes of a question.
func TestReasons(t *testing.T) {
	m := newMachine(t)
	m.write(t, m.home+"/rm", "\x7fELF", 0o700)
	m.write(t, m.work+"/rm", "\x7fELF", 0o700)
	spaced := filepath.Dir(m.bin) + "/a b"
	if err := os.Mkdir(spaced, 0o700); err != nil {
		t.Fatal(err)
	}
	m.write(t, spaced+"/cp", "\x7fELF", 0o700)
	r := m.rules()
	r.Path = append(r.Path, m.work, spaced)
	r.Allow = slices.DeleteFunc(r.Allow, func(name string) bool { return name == "head" || name == "pwd" })
	for text, want := range map[string]string{
		"":                           "a command is empty",
		"ls; ; ls":                   "a command is empty",
		"ls |":                       "a command is empty",
		strings.Repeat("x", 1<<15):   "command has more than 16384 bytes",
		strings.Repeat("ls;", 16):    "more than 16 commands",
		"ls \xff":                    "command is not UTF-8",
		"ls *":                       "'*' has a meaning in bash: quote it",
		`ls "$x"`:                    "'$' has a meaning in bash, or is invisible",
		"ls 'a":                      `a quotation mark '\'' has no end`,
		"ls >f":                      "a redirection is not one of 2>&1, 2>/dev/null, </dev/null, >/dev/null",
		">/dev/null ls":              "a redirection precedes its command",
		"X=1 ls":                     "a command begins with an assignment or an empty word",
		"'' ls":                      "a command begins with an assignment or an empty word",
		"ls &":                       "a command runs in the background",
		"if true":                    "if is a builtin or a reserved word of bash",
		"./ls":                       "./ls is a path in the working directory",
		"pwd":                        "pwd is not in tools.bash.allow",
		"pwd -L":                     "pwd is not in tools.bash.allow",
		"head x":                     "head is not in tools.bash.allow",
		"cd a b":                     "cd needs one directory, outside a pipeline",
		"cd ..":                      ".. is outside the working directory",
		"echo -e x":                  "echo -e is an option of bash",
		"cat /etc/shadow":            "/etc/shadow is outside the working directory",
		"sort -o f":                  "sort -o may do more than read",
		"uniq a b":                   "uniq with an operand may do more than read",
		"nl f":                       "nl is another program: BIN/nl",
		"busybox":                    "busybox may run other programs",
		"mytool x":                   "mytool may run other programs",
		"tree x":                     "tree may run other programs",
		"no-such-program":            "no-such-program is not a program of the system",
		"/nowhere/ls":                "open /nowhere/ls: no such file or directory",
		m.bin + "/seq":               "read BIN/seq: EOF",
		m.bin + "/tac":               "execute BIN/tac: permission denied",
		m.home + "/rm x":             m.home + "/rm is not in a directory of programs",
		m.work + "/rm x":             m.work + "/rm is in the working directory",
		m.work + "/ls":               m.work + "/ls is in the working directory",
		"cp x":                       spaced + "/cp has a character with a meaning in bash",
		"rm x; git add | rm y; cat.": "cat. is not a program of the system",
		"rm x; git add | rm y":       "tools.bash.allow does not contain BIN/rm [BIN/rm BIN/git add]",
	} {
		d := Classify(text, r)
		got := d.Reason
		if len(d.Missing) > 0 {
			got += fmt.Sprint(" ", d.Missing)
		}
		if got = strings.ReplaceAll(got, m.bin, "BIN"); got != want || d.Line != nil {
			t.Errorf("%.40q: %v\n got %s\nwant %s", text, d.Line, got, want)
		}
	}
}

// TestPrefixes checks the programs that prefixes permit.
func TestPrefixes(t *testing.T) {
	m := newMachine(t)
	other := filepath.Dir(m.bin) + "/other"
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	m.write(t, other+"/git", "\x7fELF", 0o700)
	m.write(t, other+"/deploy", "#!/bin/sh\n", 0o700)
	t.Setenv("PATH", other)
	for _, c := range []struct{ allow, text, want string }{
		{"git status", "git status -s", `run BIN/git ["git" "status" "-s"]`},
		{"git status", "git stash", "ask BIN/git stash"},
		{"git status", "git 'status x'", "ask"},
		{"git status", "git status; ls >f", "ask"},
		{"git", "git -C x push", `run BIN/git ["git" "-C" "x" "push"]`},
		{other + "/git push", "git push x", "run " + other + `/git ["git" "push" "x"]`},
		{other + "/git push", other + "/git push", "run " + other + `/git ["` + other + `/git" "push"]`},
		{other + "/git push", m.bin + "/git push", "ask"},
		{other + "/git push", "ls | git push", `read BIN/ls ["ls"] | run ` + other + `/git ["git" "push"]`},
		{other + "/deploy", "deploy x", "run " + other + `/deploy ["deploy" "x"]`}, // a script that a person allowed
		{"deploy", "deploy x", "ask"},                                              // PATH of the environment does not count
		{"make test", "make test", `run BIN/make ["make" "test"]`},
		{m.work + "/tool", m.work + "/tool", "ask"},
		{"inside", "inside", "ask"},
		{"busybox", "busybox sh", "ask"},
		{"busybox rm", "busybox rm x", `run BIN/busybox ["busybox" "rm" "x"]`},
		{"cat notes", "cat notes /etc/x", `run BIN/cat ["cat" "notes" "/etc/x"]`},
		{"cat", "cat /etc/shadow", "ask"}, // a name of the default list
		{m.bin + "/cat", "cat /etc/shadow", `run BIN/cat ["cat" "/etc/shadow"]`},
	} {
		if got := m.describe(Classify(c.text, m.rules(c.allow))); got != c.want {
			t.Errorf("%q with %q:\n got %s\nwant %s", c.text, c.allow, got, c.want)
		}
	}
	if got, want := m.describe(Classify("git add x", m.rules("git status", "make", "git add"))), `run BIN/git ["git" "add" "x"]`; got != want {
		t.Errorf("the last of three prefixes: %s, want %s", got, want)
	}
	t.Chdir(m.work)
	if p, err := find("ls", []string{"", ".", "sub/.."}); err == nil {
		t.Errorf("a relative directory of programs: %+v", p)
	}
	if p, err := find("ls", []string{"", m.bin}); err != nil || p.path != m.bin+"/ls" {
		t.Errorf("after a relative directory of programs: %+v, %v", p, err)
	}
	if got := (&classifier{}).path(); !slices.Equal(got, systemPath) {
		t.Errorf("without Path: %q", got)
	}
	r := m.rules()
	r.Allow = []string{"ls"}
	for text, want := range map[string]string{"ls": `read BIN/ls ["ls"]`, "cat f": "ask", "echo": "ask", "cd sub": "ask"} {
		if got := m.describe(Classify(text, r)); got != want {
			t.Errorf("only ls: %q: %s, want %s", text, got, want)
		}
	}
}

// TestDirectory checks the working directories in which the default list does not
// run, and machines without the profile.
func TestDirectory(t *testing.T) {
	m := newMachine(t)
	link := filepath.Dir(m.bin) + "/link"
	if err := os.Symlink(m.home, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("loop", m.data+"/loop"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir  string
		runs bool
	}{
		{m.work, true}, {m.work + "/sub", true}, {link + "/work", true}, {"/", false}, {m.home, false}, {link, false}, {filepath.Dir(m.home), false},
		{m.data, false}, {m.data + "/in", false}, {m.data + "/none", false}, {m.data + "/loop", false}, {link + "/data/in", false}, {"/proc/self", false}, {"/dev", false}, {"/sys/kernel", false},
	} {
		r := m.rules("git push")
		r.Dir = c.dir
		for _, text := range []string{"ls", "pwd", "echo x", "true", "cd ."} {
			if d := Classify(text, r); (d.Line != nil) != c.runs || len(d.Missing) > 0 {
				t.Errorf("%s in %s: %+v", text, c.dir, d)
			}
		}
	}
	r := m.rules()
	r.Home, r.Dir = m.home+"/none", m.home+"/none/x"
	if d := Classify("pwd", r); d.Line != nil {
		t.Errorf("pwd in a data directory that does not exist: %+v", d)
	}
	r = m.rules("git push")
	r.Profile = func() bool { return false }
	for text, want := range map[string]string{
		"ls": "ask", "echo a | cat": "ask", "git push": `run BIN/git ["git" "push"]`,
		"echo a | true && pwd || false; cd sub": `own ["echo" "a"] | own ["true"] && own ["pwd"] || own ["false"] ; own ["cd" "sub"]`,
	} {
		if got := m.describe(Classify(text, r)); got != want {
			t.Errorf("%q without the profile: %s, want %s", text, got, want)
		}
	}
}

// TestContainsComparesIdentities uses a link as the second name of a directory.
func TestContainsComparesIdentities(t *testing.T) {
	m := newMachine(t)
	link := filepath.Dir(m.bin) + "/link"
	if err := os.Symlink(m.home, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir, path string
		want      bool
	}{
		{m.work, link + "/work", true}, {m.work, link + "/work/sub", true}, {m.work, link + "/work/none", true},
		{m.work, link + "/data", false}, {m.work + "/sub", link + "/work", false}, {m.home + "/none", m.home + "/other", false},
	} {
		if got := contains(c.dir, c.path); got != c.want {
			t.Errorf("%s contains %s: %v, want %v", c.dir, c.path, got, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, p := range append([]string{"git status", "go test", "/opt/run.sh", "make"}, Default...) {
		if err := Check(p); err != nil {
			t.Error(err)
		}
	}
	for _, p := range []string{"", " ls", "ls ", "ls  -l", "ls; rm", "ls | cat", "$x", "ls >x", "l*", "'ls'", "./run.sh", "bin/x"} {
		if Check(p) == nil {
			t.Errorf("Check(%q) = nil", p)
		}
	}
}

func TestLists(t *testing.T) {
	if !slices.IsSorted(Default) || !slices.IsSorted(offered) || !slices.IsSorted(own) {
		t.Error("a list is not sorted")
	}
	for _, name := range Default {
		if slices.Contains(builtins, name) {
			t.Errorf("%s is a builtin of bash", name)
		}
	}
	for _, name := range strings.Fields(`sh bash dash env xargs find tar sudo su python3 perl awk sed make ssh scp rsync nice nohup timeout setsid stdbuf watch script
		busybox toybox coreutils vi vim less man gdb strace flock parallel socat nc curl git go npm docker kubectl systemctl systemd-run qemu-x86_64 ld.so`) {
		if slices.Contains(offered, name) {
			t.Errorf("%s runs other programs", name)
		}
	}
}
