package approval

import (
	"math/rand/v2"
	"strings"
)

// Tokens of commands. Bash treats many of them in more than one way, and parsers
// have read some of them otherwise than bash.
var (
	programs = []string{
		"basename", "cat", "cd", "cut", "dirname", "echo", "false", "grep", "head", "ls", "pwd", "realpath", "stat", "tail", "tr", "true", "uname", "wc", "whoami",
		"/bin/ls", "/usr/bin/cat", "date", "sort", "uniq", "nl", "od", "seq", "comm", "rg", "file", "du", "df", "id", "printf", "test", "[", "tac", "egrep", "zcat",
	}
	others = []string{
		"touch x", "find . -exec touch x ;", "find . -delete", "env touch x", "xargs touch", "tar cf x a", "git status", "bash -c 'touch x'", "sh x.sh", "./ls", "./x.sh",
		"dir/ls", "busybox touch x", "toybox sh", "coreutils --coreutils-prog=touch x", "python3 -c 1", "rm a", "tee x", "sed -i s/a/b/ a", "awk 1 a", "sort -o x a",
		"exec ls", "eval touch x", "command ls", "builtin cd ..", "time ls", "trap 'touch x' EXIT", "source x.sh", ". x.sh", "alias ls=touch", "export A=b", "set -x",
		"test -v a", "printf -v a b", "read x", "coproc ls", "nohup ls", "ls.sh", "sudo ls", "date -s 1", "uniq a x", "grep -f a b", "rg --pre touch a", "if", "!", "-", "--",
	}
	words = []string{
		"a", "b", "dir", "dir/c", "dir/sub/d", "-l", "-la", "-n", "1", "-c", "-1", "--", "--help", "--version", "-r", "link", "away", "dir/up", "gone", ".", "./a", ".hidden",
		"'a b'", `"a b"`, `'it'"'"'s'`, `a'b'"c"`, "''", `""`, "é", "日本", "-e", "x", "+1", "=", "a=b", "%s", "^", ",", ":", "@", "a]", "a}", "-d", "-f1", "--files0-from=list",
	}
	outside = []string{
		"..", "../secret", "/etc/passwd", "/etc/shadow", "/", "/proc/self/environ", "/proc/1/root/etc/passwd", "/dev/tcp/127.0.0.1/1", "/dev/sda", "/tmp", "HOME/secrets.key", "away/secret",
	}
	redirections = []string{
		"2>&1", ">/dev/null", "2>/dev/null", "</dev/null", "> /dev/null", "1>/dev/null", "&>/dev/null", ">x", ">>x", "2>x", "<a", "<>x", ">|x", "{PATH}</dev/null", "{a['$(touch x)']}</dev/null",
		"3</dev/tcp/127.0.0.1/1", "3>&1", ">&x", ">&2", "<&-", "<<E\na\nE\n", "<<\\\nE\na\nE\ntouch x\n", "<<'E'\n$(touch x)\nE\n", "<<<a", "<(touch x)", ">(touch x)", "10>x",
	}
	operators = []string{" | ", " && ", " || ", "; ", "|", "&&", "||", ";", " & ", "&", "|&", ";;", "\n", "\r\n", "\r", " ! ", "( ", " )", "{ ", "; }", "(", ")", "\n\n", " ;; "}
	specials  = []string{
		"$(touch x)", "`touch x`", "$HOME", "${PATH}", "$((1))", "$'a'", `$"a"`, "${a[$(touch x)]}", "~", "~root", "*", "?", "[ab]", "{a,b}", "{1..3}", `\`, "\\\n", "\\ ", "\\\r\n", "#", " #", "\r#",
		"# a\n", "#\\\ntouch x\n", " \r #$(touch x)", "\r", "\n", "\t", "\v", "\f", "\x00", "\x01", "\x1b[2K", "\x7f", "\u0085", "\u00a0", "\u2028", "\u202e", "\ufeff", "'", `"`, "A=b ", "PATH=. ",
		"LD_PRELOAD=./x ", "IFS=, ", "a[0]=$(touch x) ", "!!", "!$", "^a^b", "if true; then ", "; fi", "for i in a; do ", "; done", "function f { ", "f() { ", "[[ ", " ]]", "((", "))", "case ", " in ", " esac",
		"=", "%", "-", "\xff", "\xc3", "%1", "{", "}", "]", "[",
	}
)

// drawer draws texts of commands.
type drawer struct{ *rand.Rand }

func (d drawer) one(list []string) string { return list[d.IntN(len(list))] }

// command returns a text. Most texts are of the grammar that runs by itself, half of
// them with one to three other tokens; some are only random tokens.
func (d drawer) command() string {
	switch d.IntN(10) {
	case 0:
		return d.noise()
	case 1, 2, 3, 4:
		return d.plain()
	}
	text := d.plain()
	for range 1 + d.IntN(3) {
		at := d.IntN(len(text) + 1)
		text = text[:at] + d.one([][]string{programs, others, words, outside, redirections, operators, specials}[d.IntN(7)]) + text[at:]
	}
	return text
}

// noise returns tokens in any order.
func (d drawer) noise() string {
	var b strings.Builder
	for range 1 + d.IntN(8) {
		b.WriteString(d.one([][]string{programs, others, words, outside, redirections, operators, specials}[d.IntN(7)]))
		if d.IntN(2) == 0 {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// plain returns pipelines of programs with words and redirections.
func (d drawer) plain() string {
	var b strings.Builder
	for i := range 1 + d.IntN(3) {
		if i > 0 {
			b.WriteString(d.one(operators[:8]))
		}
		b.WriteString(d.one(programs))
		for range d.IntN(4) {
			b.WriteString(strings.Repeat(" ", 1+d.IntN(2)))
			switch d.IntN(12) {
			case 0:
				b.WriteString(d.one(outside))
			case 1, 2:
				b.WriteString(d.one(redirections[:6]))
			default:
				b.WriteString(d.one(words))
			}
		}
	}
	return b.String()
}
