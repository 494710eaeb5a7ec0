package approval

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// Default is the allowlist of a daemon whose configuration has none. It contains
// programs that only read and start no other program, and the commands without a
// program. options has the exceptions.
var Default = []string{
	"basename", "cat", "cd", "cmp", "comm", "cut", "date", "diff", "dirname", "du", "echo", "false", "grep", "head", "ls", "md5sum", "nl", "pwd",
	"realpath", "sha256sum", "sort", "stat", "tail", "tr", "true", "uname", "uniq", "wc", "whoami",
}

// own are the names of Default that need no program.
var own = []string{"cd", "echo", "false", "pwd", "true"}

// options are the words of a program of Default that begin with "-", for programs
// with other options that write or start a program: diff -l, sort -o and
// --compress-program. date also sets the clock.
var options = sync.OnceValue(func() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"date": regexp.MustCompile(`^(-u|-R|-I[a-z]*|-d.+|--date=.*|--utc|--iso-8601(=[a-z]+)?|--rfc-3339=[a-z]+)$`),
		"diff": regexp.MustCompile(`^(-|-[abBdEiNnpqrstTuwyZ]+|-[UC][0-9]+|--(brief|color=never|recursive|unified(=[0-9]+)?|ignore-[a-z-]+|side-by-side|strip-trailing-cr))$`),
		"sort": regexp.MustCompile(`^(-|-[bcCdfghiMnRrsuVz]*([kt][^oST]*)?|--(numeric|human-numeric|version|general-numeric)-sort|--(reverse|unique))$`),
		"uniq": regexp.MustCompile(`^(-|-[cdDuiz]+|-[fsw][0-9]+|--(count|repeated|unique|ignore-case))$`),
	}
})

// checkWords returns an error if the words of a program of Default have an option
// or operand that may write or start a program.
func checkWords(words []string) error {
	allowed := options()[words[0]]
	operands := 0
	for _, w := range words[1:] {
		switch {
		case allowed != nil && strings.HasPrefix(w, "-") && !allowed.MatchString(w):
			return fmt.Errorf("%s %s may do more than read", words[0], w)
		case w == "-" || !strings.HasPrefix(w, "-") && (words[0] != "date" || !strings.HasPrefix(w, "+")):
			operands++
		}
	}
	if words[0] == "uniq" && operands > 1 || words[0] == "date" && operands > 0 { // uniq IN OUT, date TIME
		return fmt.Errorf("%s with an operand may do more than read", words[0])
	}
	return nil
}

// multicall are programs that contain others: each counts as the applet that it
// runs.
var multicall = []string{"busybox", "busybox.static", "coreutils", "toybox"}

// builtins are the builtins and reserved words of bash, without own. A program of
// such a name differs from what the text means in bash.
var builtins = []string{
	".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "case", "command", "compgen", "complete", "compopt", "continue", "coproc", "declare",
	"dirs", "disown", "do", "done", "elif", "else", "enable", "esac", "eval", "exec", "exit", "export", "fc", "fg", "fi", "for", "function",
	"getopts", "hash", "help", "history", "if", "in", "jobs", "kill", "let", "local", "logout", "mapfile", "popd", "printf", "pushd", "read", "readarray",
	"readonly", "return", "select", "set", "shift", "shopt", "source", "suspend", "test", "then", "time", "times", "trap", "type", "typeset", "ulimit",
	"umask", "unalias", "unset", "until", "wait", "while",
}

// offered are programs that run no other program, whatever their arguments are. A
// question offers only their prefixes: a prefix of a program that runs others would
// permit every command, and no list of those is complete. curl is not in it: it loads
// the library that --engine names.
var offered = strings.Fields(`
	arch b2sum base32 base64 basenc bunzip2 bzcat bzip2 chgrp chmod chown cksum column cp dd df dig expand expr factor fmt fold free
	getent groups gzip hexdump host hostname iconv id jq ln lsblk lscpu lsof mkdir mkfifo mktemp mv nproc nslookup numfmt od paste pathchk
	pdftotext ping pr ps ptx readelf readlink rev rm rmdir seq sha1sum sha224sum sha384sum sha512sum shred shuf sleep ss sum sync tac tee touch
	tree truncate tsort unexpand unlink unxz uptime users uuidgen vmstat who xmllint xxd xz xzcat yes zstd zstdcat
`)

// gitCommands are the subcommands of git to offer. They start other programs only as a
// configuration says, such as the hooks of a repository. An option of each other one
// contains a command or names a program: fetch --upload-pack, push --receive-pack,
// cherry-pick and revert --strategy.
var gitCommands = strings.Fields(`
	add blame branch checkout clean commit describe diff log ls-files merge mv reflog reset restore rev-parse rm shortlog show stash status switch tag
`)
